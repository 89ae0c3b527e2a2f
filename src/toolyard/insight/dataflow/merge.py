"""Edges that were found apart put together: the best of them all are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toolyard.insight.dataflow.artifact import Array, Arrays, by_target, offsets_of, pack_paths, unpack_paths
from toolyard.insight.dataflow.edges import marks_of
from toolyard.insight.dataflow.tables import expand, numbered


class Part(NamedTuple):
    """Edges, and where their tools are now."""

    sources: Array
    targets: Array
    arrays: Arrays

    @classmethod
    def of(cls, arrays: Arrays) -> Part:
        """Edges whose tools are where they were."""
        return cls(_sources(arrays), arrays.targets, arrays)


def moved(arrays: Arrays, places: Array) -> Part:
    """The same edges after other tools came in between: `places` says where each of their own is now."""
    return Part(places[_sources(arrays)], places[arrays.targets], arrays)


def _sources(arrays: Arrays) -> Array:
    return np.repeat(np.arange(len(arrays.offsets) - 1, dtype=np.int32), np.diff(arrays.offsets))


def merged(parts: Sequence[Part], spaces: Array, neighbors: int) -> Arrays:
    """All edges of parts that have none in common, as far as they are among the best of a source or of a target."""
    sources, targets = _joined([part.sources for part in parts]), _joined([part.targets for part in parts])
    each = [part.arrays for part in parts]
    logits, scores, covers = (_joined([getattr(one, name) for one in each]) for name in ("logits", "scores", "covers"))
    marks = marks_of(sources, targets, logits, spaces, neighbors)
    kept = np.flatnonzero(marks)
    order = kept[np.lexsort((targets[kept], -scores[kept], sources[kept]))]
    sources, targets, scores = sources[order], targets[order], scores[order]
    in_offsets, in_edges = by_target(len(spaces), sources, targets, scores)

    lengths = _joined([np.diff(one.feed_offsets) for one in each])
    _, feeds = expand((np.cumsum(lengths) - lengths)[order], lengths[order])
    paths, (outputs, parameters) = _paths(each, feeds)
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
        feed_scores=_joined([one.feed_scores for one in each])[feeds],
        feed_hows=_joined([one.feed_hows for one in each])[feeds],
        feed_signals=_joined([one.feed_signals for one in each])[feeds],
        path_offsets=path_offsets,
        path_bytes=path_bytes,
    )


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts)


def _paths(each: Sequence[Arrays], feeds: Array) -> tuple[list[str], Array]:
    """The paths that feeds go by, each once; for each feed the number of its output's, and of its parameter's."""
    begins = np.cumsum([0, *(len(one.path_offsets) - 1 for one in each)])
    ends = [np.stack((one.feed_outputs, one.feed_parameters)) + begin for one, begin in zip(each, begins, strict=False)]
    used, places = np.unique(np.concatenate(ends, axis=1)[:, feeds], return_inverse=True)
    every = [path for one in each for path in unpack_paths(one.path_offsets, one.path_bytes)]
    paths, numbers = numbered(every[number] for number in used.tolist())
    return paths, numbers[places].reshape(2, -1)
