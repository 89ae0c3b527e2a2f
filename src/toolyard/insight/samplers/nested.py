"""Samplers that draw with the help of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolyard.insight.sample import Sample
from toolyard.insight.samplers.base import SampleRequest, SamplerOptionError, ToolSampler
from toolyard.plugins import get_tool_sampler


def inner_sampler(registry: Any, given: Any, outer: str) -> ToolSampler[Any]:
    """A sampler that is given as it is, by its name, or as a mapping of `type` and its options.

    Its `k` counts where the outer one is told none. A `seed` of its own would never count, so it is refused.
    """
    if isinstance(given, ToolSampler):
        if given.options.seed is not None:
            raise _seed_refused(outer, given.sampler_name or type(given).__name__, given.options.seed)
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
        raise _seed_refused(outer, given["type"], options["seed"])
    made: ToolSampler[Any] = get_tool_sampler(given["type"], registry=registry, **options)
    return made


def _seed_refused(outer: str, inner: str, seed: Any) -> SamplerOptionError:
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
    """A sample of the inner sampler, of the same snapshot, in the namespaces that the outer one is to draw from.

    Where the outer one draws from all, the inner one keeps to those of its own options.
    """
    given: dict[str, Any] = {"k": k, "seed": seed}
    if ask.options.namespace is not None:
        given["namespace"] = ask.options.namespace
    if ask.options.allow_short if short is None else short:
        given["allow_short"] = True
    if type(inner).sample is ToolSampler.sample:
        return inner.sample_from(ask.view, given, anchor)
    # A class that overrides `sample` whole sees the registry as it is now, and takes what options it takes.
    drawn = inner.sample(given.pop("k"), **given)
    return drawn if isinstance(drawn, Sample) else Sample(drawn, topology=inner.topology, seed=seed)


def places_of(ask: SampleRequest[Any], sample: Sample) -> list[int]:
    """Where the tools of a sample are in the snapshot; one that a sampler changed is where it came from."""
    places: list[int] = []
    for tool in sample:
        overloads = ask.world.named(tool.namespace, tool.name)
        exact = [place for place in overloads if ask.tools[place].fingerprint == tool.fingerprint]
        places += (exact or overloads)[:1]
    return places
