"""Base classes of samplers.

```python
class ByTagOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tag: str = "public"


@register_tool_sampler("mine/by_tag")
class ByTag(ToolSampler[ByTagOptions]):
    topology = "set"

    def draw(self, ask):
        fit = [place for place in ask.places if ask.options.tag in ask.tools[place].tags]
        return ask.sample(list(ask.chance("tools").each(fit))[: ask.k], reason="too few tools have the tag")
```
"""

from __future__ import annotations

import logging
import math
import operator
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from random import Random
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast, get_args, get_origin

import msgspec

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.insight.base import Edge, Sample
from toolyard.insight.samplers.snapshot_view import Graph, SnapshotView, snapshot_view_of
from toolyard.model.errors import ConfigError, SamplingError
from toolyard.model.names import find_similar, suggest
from toolyard.model.tool import Tool
from toolyard.plugins import View
from toolyard.registry.enriching import explain_missing_artifact
from toolyard.schema.options import options_of, read_value

T = TypeVar("T")


def fresh_seed() -> int:
    """Return a random 63-bit seed."""
    return secrets.randbits(63)


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Derive a 63-bit seed for one purpose from another seed, deterministically."""
    # Python limits the decimal digits of very large integers.
    start = str(seed) if -(1 << 128) < seed < 1 << 128 else hex(seed)
    text = "\x1f".join((start, *(str(word) for word in purpose)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class RandomStream:
    """A deterministic stream of random choices.

    It uses only `Random.random`, whose sequence is the same in every Python release.
    """

    def __init__(self, seed: int, *purpose: str | int) -> None:
        self._next = Random(derive_seed(seed, *purpose)).random  # noqa: S311 (it has to repeat)

    def below(self, count: int) -> int:
        """A random integer from 0 to `count` - 1."""
        return int(self._next() * count)

    def fraction(self) -> float:
        """A random number in [0, 1)."""
        return self._next()

    def pick(self, items: Sequence[T]) -> T:
        """A random item, all equally likely."""
        return items[self.below(len(items))]

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """Yield all items in random order; lazy, so stopping early is cheap."""
        moved: dict[int, int] = {}
        for place in range(len(items)):
            other = place + self.below(len(items) - place)
            yield items[moved.get(other, other)]
            moved[other] = moved.pop(place, place)

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """A random item, with probability proportional to its weight."""
        point = self._next() * math.fsum(weights)
        for item, weight in zip(items, weights, strict=True):
            point -= weight
            if point < 0:
                return item
        return items[-1]

    def by_weight(self, items: Sequence[T], weights: Sequence[float]) -> list[T]:
        """All items, in the order of a weighted draw without replacement."""
        keys = [-math.log(1.0 - self._next()) / max(weight, 1e-9) for weight in weights]
        return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


Start = TypeVar("Start")


def search_starts(
    starts: Iterable[Start],
    limit: int,
    search: Callable[[Start, int], tuple[T | None, bool]],
    is_spent: Callable[[], bool],
) -> T | None:
    """Search from each start with a step limit; return the first result, or None.

    `search(start, limit)` returns what it found, and whether it was exhaustive. So that no start uses up the steps of
    the others, starts that hit the limit are retried later with a limit four times as high, until none is left or
    `is_spent()`.
    """
    while True:
        unfinished: list[Start] = []
        for start in starts:
            found, done = search(start, limit)
            if found is not None or is_spent():
                return found
            if not done:
                unfinished.append(start)
        if not unfinished:
            return None
        starts, limit = unfinished, limit * 4


_log = logging.getLogger(__name__)

Score = Annotated[float, msgspec.Meta(ge=0, le=1)]
Tries = Annotated[int, msgspec.Meta(ge=1)]

_NUMBERS = ("k", "seed")
_ASKED_OF = {"neighbors": ("near", "duplicates"), "dataflow": ("out_edges", "edge")}
"""The methods that samplers need of artifacts, which custom enrichments may provide."""


class SamplerOptionError(SamplingError, ConfigError):
    """Invalid sampler options, or an unknown namespace or missing artifact."""


class MissingArtifactError(SamplerOptionError):
    """A sampler needs an artifact that no enrichment of the registry writes."""

    def __init__(self, message: str, artifact: str = "") -> None:
        super().__init__(message)
        self.artifact = artifact


class SamplerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of every sampler, for its constructor or for each `sample`."""

    k: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Exact number of tools."""
    seed: int | None = None
    """Random seed; None for a different sample each time."""
    namespace: str | tuple[str, ...] | None = None
    """The namespace or namespaces to draw from; None for all, even if the constructor was given some."""
    allow_short: bool = False
    """Return fewer than `k` tools, instead of raising, if there are no more."""
    strict: bool = True
    """Raise on unknown options; if False, they are logged and ignored."""


O = TypeVar("O", bound=SamplerOptions)  # noqa: E741


class SampleRequest(Generic[O]):
    """One call of `sample`: the request, and a snapshot of the registry from the start of the call."""

    def __init__(self, sampler: str, topology: str, view: View, options: O, k: int, seed: int) -> None:
        self.sampler = sampler
        self.topology = topology
        self.view = view
        self.options = options
        self.k = k
        self.seed = seed
        self.anchor: int | None = None
        """Index of a tool that must be in the sample; used by `tc/coverage`."""

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools; samplers refer to tools by their index here."""
        return self.snapshot.tools

    @cached_property
    def snapshot(self) -> SnapshotView:
        """Cached data about these tools."""
        return snapshot_view_of(self.view)

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """The namespaces to draw from, in registration order; an unknown one is an error."""
        chosen = self.options.namespace
        if chosen is None:
            return tuple(self.snapshot.spaces)
        wanted = (chosen,) if isinstance(chosen, str) else chosen
        for namespace in wanted:
            self.check_namespace(namespace)
        return tuple(space for space in self.snapshot.spaces if space in wanted)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Indexes of the tools in these namespaces."""
        if len(self.spaces) == len(self.snapshot.spaces):
            return self.snapshot.all_places
        return tuple(sorted(place for space in self.spaces for place in self.snapshot.spaces[space]))

    def check_namespace(self, namespace: str) -> None:
        """Raise if the namespace has no tools."""
        spaces = self.snapshot.spaces
        if namespace not in spaces:
            near = find_similar(namespace, spaces)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, spaces)) or 'none'}"
            raise self.refusal(f"no tool is in the namespace {namespace!r}; {hint}")

    def place_of(self, qualified_name: str) -> int:
        """Index of a tool's first overload; an unknown name is an error."""
        namespace, _, name = qualified_name.partition(TOOL_NAMESPACE_SEP)
        found = self.snapshot.named(namespace, name)
        if not found:
            names = [tool.qualified_name for tool in self.tools]
            near = find_similar(qualified_name, names)
            raise self.refusal(
                f"no tool is called {qualified_name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
        return found[0]

    def chance(self, *purpose: str | int) -> RandomStream:
        """A random stream for one purpose, independent of the streams for others."""
        return RandomStream(self.seed, self.sampler, *purpose)

    def refusal(self, text: str) -> SamplerOptionError:
        """Create an error about the request."""
        return SamplerOptionError(f"{self.sampler}: {text}", requested=self.k)

    def failure(self, reason: str, tools: Sequence[Tool] = ()) -> SamplingError:
        """Create the error for a sample that cannot be found, with the part that was."""
        found = f"found {len(tools)} of {self.k} tools" if tools else f"found none of {self.k} tools"
        return SamplingError(f"{self.sampler}: {found}: {reason}", requested=self.k, tools=tools)

    def explain_no_edges(self, graph: Graph, reason: str) -> str:
        """Return `reason`, extended if there are no edges because no tool has an output schema."""
        if graph.linked or self.snapshot.graph(0.0, self.spaces).linked:
            return reason
        if any(self.tools[place].output_parameters for place in self.places):
            return reason
        silent = f"none of the {len(self.places)} tools says what it returns"
        return f"{reason}: {silent}; add the enrichment output_parameters"

    def sample(
        self,
        found: Sequence[int] | Sequence[Tool],
        *,
        reason: str = "there are no more",
        roles: Sequence[str] = (),
        edges: Sequence[Edge] = (),
        score: float | None = None,
        details: Mapping[str, Any] | None = None,
        topology: str = "",
    ) -> Sample:
        """Create the sample of these tools or indexes; raise with `reason` if there are too few."""
        tools = [self.tools[one] if isinstance(one, int) else one for one in found]
        if len(tools) != self.k and not (tools and len(tools) < self.k and self.options.allow_short):
            raise self.failure(reason, tools)
        return Sample(
            tools,
            topology=topology or self.topology,
            seed=self.seed,
            edges=edges,
            roles=roles,
            score=score,
            details=details,
        )

    def extend_sample(self, sample: Sample, **details: Any) -> Sample:
        """Return another sampler's sample with additional details."""
        return self.sample(
            list(sample),
            roles=sample.roles,
            edges=sample.edges,
            score=sample.score,
            topology=sample.topology,
            details={**sample.details, **details},
        )


class ToolSampler(Generic[O]):
    """Draws sets of related tools.

    Options of `sample` override those of the constructor; None restores the option's default, so `namespace=None` draws
    from all. (None for `k` or `seed` counts as not given.) A sampler is immutable after construction, so threads may
    share it. Each `sample` uses the current snapshot of the registry. Subclasses override `draw`, or all of `sample`.
    """

    sampler_name: ClassVar[str] = ""
    """The name under which it is registered."""
    topology: ClassVar[str] = "set"
    required_artifacts: ClassVar[tuple[str, ...]] = ()
    """Artifacts the registry must have."""
    options_type: ClassVar[type[SamplerOptions]] = SamplerOptions
    """Set from the type parameter: `ByTag(ToolSampler[ByTagOptions])`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in () if "options_type" in cls.__dict__ else cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is ToolSampler and isinstance(get_args(base)[0], type):
                cls.options_type = get_args(base)[0]
        if cls.draw is ToolSampler.draw and cls.sample is ToolSampler.sample:
            raise TypeError(f"{cls.__name__} must define `draw(ask)`, which returns `ask.sample(...)`")

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        if not hasattr(registry, "snapshot"):
            raise SamplingError(f"a sampler needs a registry, not {type(registry).__name__}")
        self.registry = registry
        self.options: O = self._read_options(self.options_type(), {**options, "k": k, "seed": seed})
        self.require(self._take_snapshot())
        self._check_inner()

    def sample(self, k: int | None = None, *, seed: int | None = None, **overrides: Any) -> Sample:
        """Exactly `k` tools; otherwise `SamplingError` with those that were found.

        The same registry, options and seed give the same sample. A seed among the constructor's options therefore makes
        every call return the same one; `series` draws different samples from one seed.
        """
        return self.sample_from(self._take_snapshot(), {**overrides, "k": k, "seed": seed})

    def series(self, n: int, k: int | None = None, *, seed: int | None = None, **overrides: Any) -> Iterator[Sample]:
        """`n` samples, each with its own seed, derived from the one given."""
        start = self._series_seed(seed)
        for number in range(n):
            yield self.sample(k, seed=derive_seed(start, "series", number), **overrides)

    def draw(self, ask: SampleRequest[O]) -> Sample:
        """Find the tools and return `ask.sample(...)`."""
        raise TypeError(f"{type(self).__name__} has no way to draw for {ask.sampler}")

    def sample_from(self, view: View, given: Mapping[str, Any], anchor: int | None = None) -> Sample:
        """`sample` from a given snapshot, for samplers that use others.

        The sample must contain the tool at index `anchor`, if given.
        """
        ask = self._build_request(view, given)
        if anchor is not None and ask.tools[anchor].namespace not in ask.spaces:
            raise ask.failure(f"{ask.tools[anchor].qualified_name} is in none of the namespaces to draw from")
        ask.anchor = anchor
        return self.draw(ask)

    def _build_request(self, view: View, given: Mapping[str, Any]) -> SampleRequest[O]:
        options = self._read_options(self.options, given)
        seed = fresh_seed() if options.seed is None else options.seed
        k = self.count(options, seed)
        if k is None:
            raise SamplerOptionError(f"{self._display_name}: say how many tools: k=...")
        self.require(view)
        ask = SampleRequest(self._display_name, self.topology, view, options, k, seed)
        if not ask.tools:
            raise ask.failure("the registry is empty")
        if not ask.places:
            raise ask.refusal("the list of namespaces is empty; name some, or leave it out for all")
        return ask

    def count(self, options: O, seed: int) -> int | None:
        """The number of tools to draw; None if not set."""
        return options.k

    def require(self, view: View) -> None:
        """Raise if a required artifact is missing or lacks methods."""
        for artifact in self.required_artifacts:
            if artifact not in view.artifacts:
                raise MissingArtifactError(explain_missing_artifact(self._display_name, artifact), artifact)
            made = view.artifacts[artifact]
            lacks = [name for name in _ASKED_OF.get(artifact, ()) if not callable(getattr(made, name, None))]
            if lacks:
                raise SamplerOptionError(
                    f"{self._display_name}: the artifact {artifact!r} is of type {type(made).__name__}, without the "
                    f"methods {', '.join(lacks)}; let the enrichment {artifact} make it, or give an object that has "
                    "them"
                )

    def _check_inner(self) -> None:
        """Validate the inner samplers of the constructor's options; for samplers that use others."""

    def _take_snapshot(self) -> View:
        return cast("View", getattr(self.registry, "snapshot", self.registry))

    def _series_seed(self, seed: int | None) -> int:
        known = self._read_options(self.options, {"seed": seed}).seed
        return fresh_seed() if known is None else known

    @property
    def _display_name(self) -> str:
        return self.sampler_name or type(self).__name__

    def _read_options(self, base: SamplerOptions, given: Mapping[str, Any]) -> O:
        """Validate options and apply them to `base`. None sets the default, but is ignored for `k` and `seed`."""
        known = options_of(type(base))
        new: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                self._refuse_unknown(name, known, given)
            elif value is not None:
                value = _as_int(value) if name in _NUMBERS else value
                try:
                    new[name] = read_value(known[name].type, value, f"{self._display_name}: {name}")
                except ConfigError as error:
                    raise SamplerOptionError(str(error)) from None
            elif name not in _NUMBERS:
                new[name] = known[name].default
        return cast("O", msgspec.structs.replace(base, **new))

    def _refuse_unknown(self, name: str, known: Iterable[str], given: Mapping[str, Any]) -> None:
        text = f"{self._display_name} has no option {name!r}; {suggest(name, known, 'it takes ')}"
        strict = given.get("strict", self.options.strict if hasattr(self, "options") else True)
        if strict is not False:
            raise SamplerOptionError(text)
        _log.warning("%s", text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options})"


def _as_int(value: Any) -> Any:
    """Convert any integer type, such as numpy's, to `int`; other values are returned for validation to reject."""
    if isinstance(value, bool):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value
