"""Which tools and which edges of a dataflow a graph shows."""

from __future__ import annotations

import msgspec
import numpy as np

from toolyard.insight.dataflow.artifact import Array, Dataflow
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import nearest


class GraphOptions(msgspec.Struct, frozen=True):
    """What to show: the strongest edges, and the tools of some namespaces."""

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


class SelectedGraph(msgspec.Struct, frozen=True):
    """Places of tools, and the edges between them, strongest first; ties by source, then target."""

    dataflow: Dataflow
    places: Array
    sources: Array
    targets: Array
    scores: Array


def select_graph(dataflow: Dataflow, options: GraphOptions) -> SelectedGraph:
    """The edges that pass the options, and the tools to show with them."""
    arrays = dataflow.arrays
    shown = _mark_shown(dataflow, options.namespaces)
    sources = np.repeat(np.arange(len(dataflow.tools)), np.diff(arrays.offsets))
    targets, scores = np.asarray(arrays.targets, np.int64), np.asarray(arrays.scores, np.float64)
    keep = shown[sources] & shown[targets] & (sources != targets) & (scores >= options.min_score)
    sources, targets, scores = sources[keep], targets[keep], scores[keep]
    order = np.lexsort((targets, sources, -scores))
    sources, targets, scores = sources[order], targets[order], scores[order]
    best = (_rank_by_end(sources) < options.top) | (_rank_by_end(targets) < options.top)
    kept = np.flatnonzero(best)[: options.max_edges]
    sources, targets, scores = sources[kept], targets[kept], scores[kept]
    if options.linked:
        touched = np.zeros(len(shown), np.bool_)
        touched[sources] = touched[targets] = True
        shown &= touched
    return SelectedGraph(dataflow, np.flatnonzero(shown), sources, targets, scores)


def _mark_shown(dataflow: Dataflow, namespaces: tuple[str, ...]) -> Array:
    if not namespaces:
        return np.ones(len(dataflow.tools), np.bool_)
    known = {tool.namespace for tool in dataflow.tools}
    for namespace in namespaces:
        if namespace not in known:
            near = nearest(namespace, sorted(known))
            hint = f"did you mean {near[0]!r}?" if near else "`toolyard tools` lists them"
            raise ConfigError(f"there is no namespace {namespace!r}; {hint}")
    return np.array([tool.namespace in namespaces for tool in dataflow.tools], np.bool_)


def _rank_by_end(ends: Array) -> Array:
    """How many rows before each one have the same end."""
    order = np.argsort(ends, kind="stable")
    grouped = ends[order]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1))
    lengths = np.diff(starts, append=len(grouped))
    ranks = np.empty(len(ends), np.int64)
    ranks[order] = np.arange(len(ends)) - np.repeat(starts, lengths)
    return ranks
