"""A `Dataflow` of edges that a test gives."""

import numpy as np

from toolyard.insight.arrays import compute_offsets
from toolyard.insight.base import Edge
from toolyard.insight.dataflow.artifact import (
    FEED_MODES,
    IN,
    OUT,
    SIGNALS,
    Dataflow,
    EdgeArrays,
    order_by_target,
    pack_paths,
)


def dataflow_of(tools, edges):
    """Of given edges: `Edge`s, or (place of the source, place of the target, score)."""
    tools = tuple(tools)
    places = {}
    for place, tool in enumerate(tools):
        places.setdefault(tool.qualified_name, {})[tool.fingerprint] = place
    rows = []
    for edge in edges:
        if isinstance(edge, Edge):
            source, target = (
                places[name][overload] if overload else next(iter(places[name].values()))
                for name, overload in ((edge.source, edge.source_overload), (edge.target, edge.target_overload))
            )
            rows.append((source, target, edge.score, edge.covers_required, edge.feeds))
        else:
            rows.append((*edge, False, ()))
    return Dataflow(tools, _arrays_of(len(tools), rows))


def _arrays_of(count, rows):
    rows = sorted(rows, key=lambda row: (row[0], -row[2], row[1]))
    sources = np.array([row[0] for row in rows], np.int32)
    targets = np.array([row[1] for row in rows], np.int32)
    scores = np.array([row[2] for row in rows], np.float32)
    feeds = [feed for row in rows for feed in row[4]]
    numbers = {}
    ends = [[numbers.setdefault(path, len(numbers)) for path in (feed.output, feed.parameter)] for feed in feeds]
    pairs = np.array(ends, np.int32).reshape(-1, 2)
    in_offsets, in_edges = order_by_target(count, sources, targets, scores)
    path_offsets, path_bytes = pack_paths(numbers)
    return EdgeArrays(
        offsets=compute_offsets(sources, count),
        targets=targets,
        scores=scores,
        marks=np.full(len(rows), OUT | IN, np.uint8),
        covers=np.array([row[3] for row in rows], np.bool_),
        in_offsets=in_offsets,
        in_edges=in_edges,
        feed_offsets=np.cumsum([0, *(len(row[4]) for row in rows)]),
        feed_outputs=pairs[:, 0],
        feed_parameters=pairs[:, 1],
        feed_scores=np.array([feed.score for feed in feeds], np.float32),
        feed_hows=np.array([FEED_MODES.index(feed.how) for feed in feeds], np.uint8),
        feed_signals=np.array([[feed.signals.get(key, 0.0) for key in SIGNALS] for feed in feeds], np.float32).reshape(
            -1, len(SIGNALS)
        ),
        path_offsets=path_offsets,
        path_bytes=path_bytes,
        cut=np.zeros(count, np.int64),
        unread=np.zeros(count, np.int64),
    )
