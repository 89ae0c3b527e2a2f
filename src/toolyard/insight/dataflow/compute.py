"""All edges between tools: worked out for a set, or for what has joined one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from toolyard.insight.dataflow.artifact import Array, Arrays, by_target, offsets_of, pack_paths, unpack_paths
from toolyard.insight.dataflow.edges import EdgeLimits, Nature, edges_of, marks_of
from toolyard.insight.dataflow.match import MODEL, TOKENS, match_kinds
from toolyard.insight.dataflow.profile import Told
from toolyard.insight.dataflow.tables import expand_ranges, number_distinct, tables_of
from toolyard.insight.dataflow.text_similarity import Vectors
from toolyard.insight.dataflow.words import forget_too_many
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc


class EdgeSet(NamedTuple):
    """Edges, and where their tools are now."""

    sources: Array
    targets: Array
    arrays: Arrays

    @classmethod
    def of(cls, arrays: Arrays) -> EdgeSet:
        """Edges whose tools are where they were."""
        return cls(_list_sources(arrays), arrays.targets, arrays)


def move_edges(arrays: Arrays, places: Array) -> EdgeSet:
    """The same edges after other tools came in between: `places` says where each of their own is now."""
    return EdgeSet(places[_list_sources(arrays)], places[arrays.targets], arrays)


def _list_sources(arrays: Arrays) -> Array:
    return np.repeat(np.arange(len(arrays.offsets) - 1, dtype=np.int32), np.diff(arrays.offsets))


def merge_edges(parts: Sequence[EdgeSet], spaces: Array, neighbors: int) -> Arrays:
    """All edges of parts that have none in common, as far as they are among the best of a source or of a target."""
    sources, targets = _join_arrays([part.sources for part in parts]), _join_arrays([part.targets for part in parts])
    each = [part.arrays for part in parts]
    logits, scores, covers = (
        _join_arrays([getattr(one, name) for one in each]) for name in ("logits", "scores", "covers")
    )
    marks = marks_of(sources, targets, logits, spaces, neighbors)
    kept = np.flatnonzero(marks)
    order = kept[np.lexsort((targets[kept], -scores[kept], sources[kept]))]
    sources, targets, scores = sources[order], targets[order], scores[order]
    in_offsets, in_edges = by_target(len(spaces), sources, targets, scores)

    lengths = _join_arrays([np.diff(one.feed_offsets) for one in each])
    _, feeds = expand_ranges((np.cumsum(lengths) - lengths)[order], lengths[order])
    paths, (outputs, parameters) = _merge_paths(each, feeds)
    path_offsets, path_bytes = pack_paths(paths)
    return Arrays(
        offsets=offsets_of(sources, len(spaces)),
        targets=targets,
        scores=scores,
        logits=logits[order],
        marks=marks[order],
        covers=covers[order],
        in_offsets=in_offsets,
        in_edges=in_edges,
        feed_offsets=np.concatenate(([0], np.cumsum(lengths[order]))),
        feed_outputs=outputs,
        feed_parameters=parameters,
        feed_scores=_join_arrays([one.feed_scores for one in each])[feeds],
        feed_hows=_join_arrays([one.feed_hows for one in each])[feeds],
        feed_signals=_join_arrays([one.feed_signals for one in each])[feeds],
        path_offsets=path_offsets,
        path_bytes=path_bytes,
    )


def _join_arrays(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts)


def _merge_paths(each: Sequence[Arrays], feeds: Array) -> tuple[list[str], Array]:
    """The paths that feeds go by, each once; for each feed the number of its output's, and of its parameter's."""
    begins = np.cumsum([0, *(len(one.path_offsets) - 1 for one in each)])
    ends = [np.stack((one.feed_outputs, one.feed_parameters)) + begin for one, begin in zip(each, begins, strict=False)]
    used, places = np.unique(np.concatenate(ends, axis=1)[:, feeds], return_inverse=True)
    every = [path for one in each for path in unpack_paths(one.path_offsets, one.path_bytes)]
    paths, numbers = number_distinct(every[number] for number in used.tolist())
    return paths, numbers[places].reshape(2, -1)


def limits_of(min_score: float, max_neighbors: int) -> EdgeLimits:
    """What an edge must have."""
    score = min(max(min_score, 1e-6), 1 - 1e-6)
    return EdgeLimits(math.log(score / (1 - score)), max_neighbors)


def compute_edges(
    tools: Sequence[Tool], told: Iterable[Told], vectors: Vectors, limits: EdgeLimits, *, tokens: bool = False
) -> Arrays:
    """The edges of tools."""
    return _Flow(tools, told, vectors, limits, tokens=tokens).edges()


def grow_edges(
    last: Arrays,
    places: Array,
    tools: Sequence[Tool],
    told: Iterable[Told],
    vectors: Vectors,
    limits: EdgeLimits,
    *,
    tokens: bool = False,
) -> Arrays:
    """The edges of tools of which most were there before: `places` says where each of those is now, in their order."""
    flow = _Flow(tools, told, vectors, limits, tokens=tokens)
    fresh = np.ones(len(tools), np.bool_)
    fresh[places] = False
    everybody = np.ones(len(tools), np.bool_)
    parts = [move_edges(last, places), EdgeSet.of(flow.edges(fresh, everybody)), EdgeSet.of(flow.edges(~fresh, fresh))]
    return merge_edges(parts, flow.nature.spaces, limits.neighbors)


class _Flow:
    """Tools that are compared, and by what."""

    def __init__(
        self, tools: Sequence[Tool], told: Iterable[Told], vectors: Vectors, limits: EdgeLimits, *, tokens: bool
    ) -> None:
        with paused_gc():
            self._told = list(told)
        self._vectors = vectors
        self._limits = limits
        self._weights = TOKENS if tokens else MODEL
        numbers = {space: number for number, space in enumerate(dict.fromkeys(tool.namespace for tool in tools))}
        self.nature = Nature(
            spaces=np.array([numbers[tool.namespace] for tool in tools], np.int32),
            vectors=vectors([one.text for one in self._told]),
            required=np.array([one.required for one in self._told], np.int32),
        )

    def edges(self, giving: Array | None = None, taking: Array | None = None) -> Arrays:
        """The edges from tools that give to tools that take; all do, unless it is said who."""
        nature, limits, weights = self.nature, self._limits, self._weights
        with paused_gc():
            tables = tables_of(self._told, giving, taking)
        forget_too_many()
        matches = match_kinds(tables, nature.spaces, self._vectors, weights, limits.logit)
        return edges_of(tables, matches, nature, weights, limits)
