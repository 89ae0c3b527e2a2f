"""`tc/mix`: now this sampler, now that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptionError, SamplerOptions, ToolSampler
from toolyard.insight.samplers.nested import draw_inner, inner_sampler
from toolyard.insight.samplers.rng import RandomStream, derive_seed
from toolyard.model.errors import SamplingError

Part = tuple[ToolSampler[Any], float]


class MixOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `tc/mix` takes."""

    samplers: Any = ()
    """A list of `{sampler: {type: tc/chain, min_score: 0.7}, weight: 2}`. A bare name, a sampler, or a mapping with
    `type`, the options and perhaps `weight`, will do as well. A weight that is not given is 1."""
    fallback: bool = True
    """When the sampler that was chosen finds nothing, try the others."""


class MixSampler(ToolSampler[MixOptions]):
    """One of several samplers, chosen by weight. The sample is as that one draws it; `details` says which it was."""

    sampler_name = "tc/mix"
    topology = "mix"
    options_type: ClassVar[type[MixOptions]] = MixOptions

    def __init__(self, registry: Any, *, k: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(registry, k=k, seed=seed, **options)
        self._parts = self._make_parts(self.options.samplers)

    def count(self, options: MixOptions, seed: int) -> int | None:
        """That of the sampler that is chosen, if nobody says more."""
        if options.k is not None:
            return options.k
        first: ToolSampler[Any] = self._order_samplers(options, seed)[0]
        known: int | None = first.options.k
        return known

    def draw(self, ask: SampleRequest[MixOptions]) -> Sample:
        """Choose, and draw."""
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
            return ask.sample(
                list(sample),
                roles=sample.roles,
                edges=sample.edges,
                score=sample.score,
                topology=sample.topology,
                details={**sample.details, "sampler": inner.sampler_name or type(inner).__name__, "failed": failed},
            )
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
        return inner_sampler(self.registry, given, self.sampler_name), float(weight)
