"""Which tools and which edges a picture shows."""

from __future__ import annotations

import difflib

import msgspec
import numpy as np

from toolyard.insight.dataflow.artifact import Array, Dataflow
from toolyard.model.errors import ConfigError


class Wanted(msgspec.Struct, frozen=True):
    """What to draw."""

    top: int = 2
    """An edge is drawn if it is among so many strongest of its source, or of its target."""
    min_score: float = 0.0
    namespaces: tuple[str, ...] = ()
    """Empty: all of them."""
    max_edges: int | None = None
    """At most so many in all, the strongest."""
    linked: bool = False
    """Leave out tools that no drawn edge touches."""

    def __post_init__(self) -> None:
        if self.top < 0:
            raise ConfigError(f"top must be 0 or more, not {self.top}")
        if not 0 <= self.min_score <= 1:
            raise ConfigError(f"min_score must be a number from 0 to 1, not {self.min_score}")
        if self.max_edges is not None and self.max_edges < 0:
            raise ConfigError(f"max_edges must be 0 or more, not {self.max_edges}")


class Chosen(msgspec.Struct, frozen=True):
    """Places of tools, and the edges between them, strongest first; ties by source, then target."""

    places: Array
    sources: Array
    targets: Array
    scores: Array


def choose(dataflow: Dataflow, wanted: Wanted) -> Chosen:
    """What is drawn of a dataflow."""
    arrays = dataflow.arrays
    shown = _shown(dataflow, wanted.namespaces)
    sources = np.repeat(np.arange(len(dataflow.tools)), np.diff(arrays.offsets))
    targets, scores = np.asarray(arrays.targets, np.int64), np.asarray(arrays.scores, np.float64)
    keep = shown[sources] & shown[targets] & (sources != targets) & (scores >= wanted.min_score)
    sources, targets, scores = sources[keep], targets[keep], scores[keep]
    order = np.lexsort((targets, sources, -scores))
    sources, targets, scores = sources[order], targets[order], scores[order]
    best = (_rank(sources) < wanted.top) | (_rank(targets) < wanted.top)
    kept = np.flatnonzero(best)[: wanted.max_edges]
    sources, targets, scores = sources[kept], targets[kept], scores[kept]
    if wanted.linked:
        touched = np.zeros(len(shown), np.bool_)
        touched[sources] = touched[targets] = True
        shown &= touched
    return Chosen(np.flatnonzero(shown), sources, targets, scores)


def _shown(dataflow: Dataflow, namespaces: tuple[str, ...]) -> Array:
    if not namespaces:
        return np.ones(len(dataflow.tools), np.bool_)
    known = {tool.namespace for tool in dataflow.tools}
    for namespace in namespaces:
        if namespace not in known:
            near = difflib.get_close_matches(namespace, sorted(known), 1)
            hint = f"did you mean {near[0]!r}?" if near else "`toolyard tools` lists them"
            raise ConfigError(f"there is no namespace {namespace!r}; {hint}")
    return np.array([tool.namespace in namespaces for tool in dataflow.tools], np.bool_)


def _rank(ends: Array) -> Array:
    """How many rows before each one have the same end."""
    order = np.argsort(ends, kind="stable")
    grouped = ends[order]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1))
    lengths = np.diff(starts, append=len(grouped))
    ranks = np.empty(len(ends), np.int64)
    ranks[order] = np.arange(len(ends)) - np.repeat(starts, lengths)
    return ranks
