"""Samplers that use others: `tc/mix`, `tc/coverage` and `tc/sparse`.

`tc/mix` alternates between samplers, `tc/coverage` makes sure that every tool is drawn eventually, and `tc/sparse` adds
similar tools to another sampler's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import (
    RandomStream,
    SampleRequest,
    SamplerOptionError,
    SamplerOptions,
    Score,
    ToolSampler,
    Tries,
    derive_seed,
)
from toolyard.insight.samplers.neighbor import draw_by_hardness
from toolyard.insight.samplers.snapshot_view import SAME, SnapshotView
from toolyard.model.errors import SamplingError
from toolyard.plugins import get_tool_sampler


def make_inner_sampler(registry: Any, given: Any, outer: str) -> ToolSampler[Any]:
    """Return a sampler given as an instance, by name, or as a mapping of `type` and its options.

    Its `k` applies if the outer sampler has none. Its own `seed` would have no effect, so it is an error.
    """
    if isinstance(given, ToolSampler):
        if given.options.seed is not None:
            raise _refuse_seed(outer, given.sampler_name or type(given).__name__, given.options.seed)
        return given
    if isinstance(given, str):
        given = {"type": given}
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise SamplerOptionError(
            f"{outer}: a sampler is given by its name, or as a mapping such as {{type: tc/chain, k: 3}}, not {given!r}"
        )
    options = {str(name): value for name, value in given.items() if name != "type"}
    if "registry" in options:
        raise SamplerOptionError(f"{outer}: a sampler inside it has the same registry; leave out 'registry'")
    if options.get("seed") is not None:
        raise _refuse_seed(outer, given["type"], options["seed"])
    made: ToolSampler[Any] = get_tool_sampler(given["type"], registry=registry, **options)
    return made


def _refuse_seed(outer: str, inner: str, seed: Any) -> SamplerOptionError:
    return SamplerOptionError(
        f"{outer}: {inner} inside it has the seed {seed!r}, which would decide nothing: the seed of {outer} decides; "
        f"leave it out there, or give it to {outer}"
    )


def draw_inner(
    ask: SampleRequest[Any],
    inner: ToolSampler[Any],
    k: int,
    seed: int,
    *,
    anchor: int | None = None,
    short: bool | None = None,
) -> Sample:
    """Draw from the inner sampler, with the outer one's snapshot and namespaces.

    If the outer one draws from all namespaces, the inner one keeps its own.
    """
    given: dict[str, Any] = {"k": k, "seed": seed}
    if ask.options.namespace is not None:
        given["namespace"] = ask.options.namespace
    if ask.options.allow_short if short is None else short:
        given["allow_short"] = True
    if type(inner).sample is ToolSampler.sample:
        return inner.sample_from(ask.view, given, anchor)
    # A class that overrides `sample` itself uses the registry's current state and its own options.
    drawn = inner.sample(given.pop("k"), **given)
    return drawn if isinstance(drawn, Sample) else Sample(drawn, topology=inner.topology, seed=seed)


def find_places(ask: SampleRequest[Any], sample: Sample) -> list[int]:
    """Indexes of a sample's tools in the snapshot; a tool changed by a sampler maps to the original."""
    places: list[int] = []
    for tool in sample:
        overloads = ask.snapshot.named(tool.namespace, tool.name)
        exact = [place for place in overloads if ask.tools[place].fingerprint == tool.fingerprint]
        places += (exact or overloads)[:1]
    return places


Part = tuple[ToolSampler[Any], float]


class MixOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/mix`."""

    samplers: Any = ()
    """A list of `{sampler: {type: tc/chain, min_score: 0.7}, weight: 2}`.

    An item may also be a name, a sampler, or a mapping with `type`, options and `weight`. The default weight is 1.
    """
    fallback: bool = True
    """If the chosen sampler finds nothing, try the others."""


class MixSampler(ToolSampler[MixOptions]):
    """A sample of one of several samplers, chosen by weight; `details` names it."""

    sampler_name = "tc/mix"
    topology = "mix"

    def _check_inner(self) -> None:
        self._parts = self._make_parts(self.options.samplers)

    def count(self, options: MixOptions, seed: int) -> int | None:
        """`k`, by default that of the chosen sampler."""
        return options.k or self._order_samplers(options, seed)[0].options.k

    def draw(self, ask: SampleRequest[MixOptions]) -> Sample:
        """Choose a sampler and draw from it."""
        failed: list[str] = []
        partial: list[Any] = []
        order = self._order_samplers(ask.options, ask.seed)
        for number, inner in enumerate(order if ask.options.fallback else order[:1]):
            try:
                seed = derive_seed(ask.seed, "inner", number)
                sample = draw_inner(ask, inner, ask.k, seed, anchor=ask.anchor, short=False)
            except SamplingError as error:
                failed.append(str(error))
                partial = max(partial, error.tools[: ask.k], key=len)
                continue
            return ask.extend_sample(sample, sampler=inner.sampler_name or type(inner).__name__, failed=failed)
        return ask.sample(partial, reason="; ".join(failed))

    def _order_samplers(self, options: MixOptions, seed: int) -> list[ToolSampler[Any]]:
        """The samplers in the order in which to try them."""
        parts = self._parts if options.samplers == self.options.samplers else self._make_parts(options.samplers)
        heavy = [part for part in parts if part[1] > 0]
        return RandomStream(seed, self.sampler_name, "choice").by_weight(
            [inner for inner, _ in heavy], [weight for _, weight in heavy]
        )

    def _make_parts(self, given: Any) -> list[Part]:
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise SamplerOptionError(f"{self.sampler_name}: give `samplers`, a list of samplers and their weights")
        parts = [self._make_part(one) for one in given]
        if not any(weight > 0 for _, weight in parts):
            raise SamplerOptionError(f"{self.sampler_name}: every sampler has weight 0")
        return parts

    def _make_part(self, given: Any) -> Part:
        weight: Any = 1.0
        if isinstance(given, Mapping):
            weight = given.get("weight", 1.0)
            given = {name: value for name, value in given.items() if name != "weight"}
            if "sampler" in given and "type" not in given:
                extra = [name for name in given if name != "sampler"]
                if extra:
                    raise SamplerOptionError(
                        f"{self.sampler_name}: {extra[0]!r} stands beside `sampler`; put it inside, or use `type`"
                    )
                given = given["sampler"]
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (0 <= weight < math.inf):
            raise SamplerOptionError(f"{self.sampler_name}: a weight is a number of 0 or more, not {weight!r}")
        return make_inner_sampler(self.registry, given, self.sampler_name), float(weight)


Counts: TypeAlias = npt.NDArray[np.int64]


class CoverageOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/coverage`."""

    sampler: Any = "tc/random"
    """The inner sampler: its name, a mapping of `type` and its options, or a sampler."""
    usage: dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**53)]] = {}
    """Qualified name -> how often the tool has been drawn; see `usage_of`."""
    max_tries: Tries = 32
    """Maximum number of tools, least used first, that are tried as part of the sample before any sample is accepted."""
    candidates: Tries = 4
    """Number of samples around that tool, of which the one with the least used tools is taken."""


class CoverageSampler(ToolSampler[CoverageOptions]):
    """Samples of another sampler, built around the least used tools.

    `sample` is stateless: pass `usage`. `series` keeps count, so that every tool the inner sampler can place at all is
    drawn in time.
    """

    sampler_name = "tc/coverage"
    topology = "coverage"

    def _check_inner(self) -> None:
        make_inner_sampler(self.registry, self.options.sampler, self.sampler_name)

    def count(self, options: CoverageOptions, seed: int) -> int | None:
        """`k`, by default the inner sampler's."""
        return options.k or make_inner_sampler(self.registry, options.sampler, self.sampler_name).options.k

    def draw(self, ask: SampleRequest[CoverageOptions]) -> Sample:
        """Draw around the least used tool for which the inner sampler finds a sample."""
        return self._draw_least_used(ask, _count_usage(ask), set())

    def series(self, n: int, k: int | None = None, *, seed: int | None = None, **overrides: Any) -> Iterator[Sample]:
        """Yield `n` samples, each taking those before it into account; a change of the registry resets the counts."""
        start = self._series_seed(seed)
        snapshot: SnapshotView | None = None
        usage: Counts = np.zeros(0, np.int64)
        hopeless: set[int] = set()
        for number in range(n):
            ask = self._build_request(
                self._take_snapshot(), {**overrides, "k": k, "seed": derive_seed(start, "series", number)}
            )
            if ask.snapshot is not snapshot:
                snapshot, usage, hopeless = ask.snapshot, _count_usage(ask), set()
            sample = self._draw_least_used(ask, usage, hopeless)
            for place in find_places(ask, sample):
                usage[place] += 1
            yield sample

    def _draw_least_used(self, ask: SampleRequest[CoverageOptions], usage: Counts, hopeless: set[int]) -> Sample:
        """Draw around the least used tool; tools without any sample are skipped and added to `hopeless`."""
        inner = make_inner_sampler(self.registry, ask.options.sampler, self.sampler_name)
        for number, place in enumerate(_order_by_usage(ask, usage, hopeless)):
            if number == ask.options.max_tries:
                break
            sample = self._draw_around(ask, inner, place, usage)
            if sample is not None:
                return self._add_usage(ask, sample, usage, place)
            hopeless.add(place)
        try:
            return self._add_usage(ask, draw_inner(ask, inner, ask.k, derive_seed(ask.seed, "inner")), usage, None)
        except SamplingError as error:
            raise ask.failure(str(error), error.tools) from error

    def _draw_around(
        self, ask: SampleRequest[CoverageOptions], inner: ToolSampler[Any], place: int, usage: Counts
    ) -> Sample | None:
        """Draw a sample with the tool at index `place` and other little-used tools; None if there is none."""
        best: Sample | None = None
        least = -1.0
        for number in range(ask.options.candidates):
            try:
                seed = derive_seed(ask.seed, "inner", place, number)
                sample = draw_inner(ask, inner, ask.k, seed, anchor=place, short=False)
            except SamplingError:
                break
            fresh = float(np.sum(1.0 / (1 + usage[find_places(ask, sample)])))
            if fresh > least:
                best, least = sample, fresh
            if fresh >= ask.k:
                break
        return best

    def _add_usage(
        self, ask: SampleRequest[CoverageOptions], sample: Sample, usage: Counts, place: int | None
    ) -> Sample:
        places = find_places(ask, sample)
        return ask.extend_sample(
            sample,
            around=None if place is None else ask.tools[place].qualified_name,
            new=[ask.tools[one].qualified_name for one in places if usage[one] == 0],
            usage=[int(usage[one]) for one in places],
        )


def _count_usage(ask: SampleRequest[CoverageOptions]) -> Counts:
    usage: Counts = np.zeros(len(ask.tools), np.int64)
    for name, count in ask.options.usage.items():
        namespace, _, bare = name.partition(TOOL_NAMESPACE_SEP)
        for place in ask.snapshot.named(namespace, bare):
            usage[place] = count
    return usage


def _order_by_usage(ask: SampleRequest[CoverageOptions], usage: Counts, hopeless: set[int]) -> Iterator[int]:
    """Yield indexes, least used first, in random order among equals."""
    chance = ask.chance("least used")
    places = np.asarray(ask.places, np.intp)
    counts = usage[places]
    for level in np.unique(counts).tolist():
        for place in chance.each(places[counts == level].tolist()):
            if place not in hopeless:
                yield place


def usage_of(samples: Any) -> dict[str, int]:
    """Count in how many samples each tool is, by qualified name."""
    return dict(Counter(name for sample in samples for name in dict.fromkeys(tool.qualified_name for tool in sample)))


class SparseOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `tc/sparse`."""

    sampler: Any = "tc/random"
    """The sampler of the relevant tools: its name, a mapping of `type` and its options, or a sampler."""
    k_relevant: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Number of relevant tools; by default the inner sampler's `k`, else a quarter of `k`."""
    hardness: Score = 0.5
    """How similar the distractors are to the relevant tools: 1 for the most, 0 for the least similar."""
    shuffle: bool = True
    """Shuffle all tools; if False, the relevant ones come first, in their order."""


class SparseSampler(ToolSampler[SparseOptions]):
    """Relevant tools from another sampler, and similar tools as distractors, without near duplicates."""

    sampler_name = "tc/sparse"
    topology = "sparse"

    def _check_inner(self) -> None:
        make_inner_sampler(self.registry, self.options.sampler, self.sampler_name)

    def draw(self, ask: SampleRequest[SparseOptions]) -> Sample:
        """Draw the relevant tools, then the distractors."""
        options = ask.options
        inner = make_inner_sampler(self.registry, options.sampler, self.sampler_name)
        number = options.k_relevant or inner.options.k or max(1, ask.k // 4)
        if number > ask.k:
            raise ask.refusal(f"{number} relevant tools are more than all {ask.k}")
        try:
            relevant = draw_inner(ask, inner, number, derive_seed(ask.seed, "relevant"), anchor=ask.anchor)
        except SamplingError as error:
            raise ask.failure(f"the relevant tools: {error}", error.tools) from error
        places = find_places(ask, relevant)
        likeness = ask.snapshot.likeness
        scores = likeness.similarity_to_any(places) if places else np.zeros(len(ask.tools), np.float32)
        fit = np.asarray(ask.places, np.intp)
        fit = fit[scores[fit] < SAME]
        chance = ask.chance("distractors")
        others = draw_by_hardness(chance, scores, fit, ask.k - number, options.hardness, ask.snapshot.name_ids, places)
        rows = [(tool, "relevant") for tool in relevant] + [(ask.tools[place], "distractor") for place in others]
        if options.shuffle:
            rows = list(ask.chance("order").each(rows))
        return ask.sample(
            [tool for tool, _ in rows],
            reason="there are not enough other tools to distract",
            roles=[role for _, role in rows],
            edges=relevant.edges,
            score=float(np.mean(scores[others])) if others else None,
            details={
                "relevant": [tool.qualified_name for tool in relevant],
                "relevant_roles": list(relevant.roles),
                "relevant_topology": relevant.topology,
                "likeness": likeness.kind,
                **({"inner": relevant.details} if relevant.details else {}),
            },
        )
