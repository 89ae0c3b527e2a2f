"""`tc/sparse`: a few tools that matter among many that do not."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptions, Score, ToolSampler
from toolyard.insight.samplers.hardness import by_hardness
from toolyard.insight.samplers.nested import draw_inner, inner_sampler, places_of
from toolyard.insight.samplers.rng import derive_seed
from toolyard.model.errors import SamplingError


class SparseOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/sparse` takes."""

    sampler: Any = "tc/random"
    """The sampler of the relevant tools: its name, a mapping of `type` and its options, or the sampler itself."""
    k_relevant: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How many tools are relevant; the `k` of the inner sampler if it has one, else a quarter of `k`."""
    hardness: Score = 0.5
    """How like the relevant tools the others are: 1 for the most alike, 0 for the least."""
    shuffle: bool = True
    """Mix them; if False, the relevant tools come first, in their order."""


class SparseSampler(ToolSampler[SparseOptions]):
    """Relevant tools, from any other sampler, and distractors, which are like them but not nearly the same."""

    sampler_name = "tc/sparse"
    topology = "sparse"
    options_type: ClassVar[type[SparseOptions]] = SparseOptions

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._inner = inner_sampler(registry, self.options.sampler, self.sampler_name)

    def draw(self, ask: SampleRequest[SparseOptions]) -> Sample:
        """The inner sample first, then what distracts from it."""
        options = ask.options
        known = options.sampler == self.options.sampler
        inner = self._inner if known else inner_sampler(self.registry, options.sampler, self.sampler_name)
        number = options.k_relevant or inner.options.k or max(1, ask.k // 4)
        if number > ask.k:
            raise ask.refusal(f"{number} relevant tools are more than all {ask.k}")
        try:
            relevant = draw_inner(ask, inner, number, derive_seed(ask.seed, "relevant"), anchor=ask.anchor)
        except SamplingError as error:
            raise ask.failure(f"the relevant tools: {error}", error.tools) from error
        places = places_of(ask, relevant)
        likeness = ask.world.likeness
        scores = likeness.to_any(places) if places else np.zeros(len(ask.tools), np.float32)
        fit = np.asarray(ask.places, np.intp)
        fit = fit[scores[fit] < likeness.same()]
        chance = ask.chance("distractors")
        others = by_hardness(chance, scores, fit, ask.k - number, options.hardness, ask.world.name_ids, places)
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
