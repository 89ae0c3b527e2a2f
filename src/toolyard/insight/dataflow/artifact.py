"""`Dataflow`: which tools can feed which others; the artifact of `DataflowEnrichment`.

Edges are stored as flat arrays, ordered by source, so that they can be cached and loaded quickly. Tools are identified
by their index in `tools` (registration order), because names may have overloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, get_args

import numpy as np

from toolyard.insight.arrays import Array, compute_offsets
from toolyard.insight.base import Edge, Feed, FeedMode
from toolyard.model.tool import Tool

FEED_MODES: tuple[FeedMode, ...] = get_args(FeedMode)
SIGNALS = ("name", "type", "text")
OUT, IN = 1, 2
"""Bits of an edge: among the best of its source, among the best of its target."""


class EdgeArrays(NamedTuple):
    """The edges of a set of tools. Edges from tool `i` are at `offsets[i]:offsets[i + 1]`, best first."""

    offsets: Array
    targets: Array
    scores: Array
    marks: Array
    covers: Array
    """True if the feeds cover every required parameter of the target."""
    in_offsets: Array
    in_edges: Array
    """Edge numbers, ordered by target, best first."""
    feed_offsets: Array
    """The feeds of edge `e` are at `feed_offsets[e]:feed_offsets[e + 1]`, best first."""
    feed_outputs: Array
    """Path numbers."""
    feed_parameters: Array
    feed_scores: Array
    feed_hows: Array
    feed_signals: Array
    path_offsets: Array
    path_bytes: Array
    """All paths in UTF-8, concatenated."""
    cut: Array
    """For each tool, how many edges to it pass `min_score` but are not among the best of a parameter or source."""
    unread: Array
    """For each tool, how many values were not read because of limits on schemas."""


class Dataflow(Mapping[str, Any]):
    """Edges between tools, each with the values it carries.

    As a mapping it has the keys `out` and `in`, each `{qualified name: {fingerprint: {namespace: [...]}}}` with `(name,
    fingerprint, score, [(output, parameter, score), ...])` for the best of that namespace; under `in` the pairs are
    `(parameter, output, score)`. The methods return every edge: those among the best of their source and those among
    the best of their target.
    """

    def __init__(self, tools: Sequence[Tool], arrays: EdgeArrays, *, text: str = "", min_score: float = 0.0) -> None:
        self.tools: tuple[Tool, ...] = tuple(tools)
        self.arrays = arrays
        self.text = text
        """Source of the text signal: the name of a model, or "tokens"."""
        self.min_score = min_score

    @property
    def edge_count(self) -> int:
        """The number of edges."""
        return len(self.arrays.targets)

    def out_edges(self, place: int) -> list[tuple[int, float]]:
        """The tools that the tool at index `place` can feed: (index, score), best first, ties by index."""
        start, end = self.arrays.offsets[place : place + 2].tolist()
        return list(zip(self.arrays.targets[start:end].tolist(), self.arrays.scores[start:end].tolist(), strict=True))

    def in_edges(self, place: int) -> list[tuple[int, float]]:
        """The tools that can feed the tool at index `place`: (index, score), best first, ties by index."""
        start, end = self.arrays.in_offsets[place : place + 2].tolist()
        numbers = self.arrays.in_edges[start:end]
        return list(zip(self._sources[numbers].tolist(), self.arrays.scores[numbers].tolist(), strict=True))

    def edge(self, source: int, target: int) -> Edge | None:
        """The edge between the tools at two indexes, with its feeds; None if there is none."""
        start, end = self.arrays.offsets[source : source + 2].tolist()
        found = np.flatnonzero(self.arrays.targets[start:end] == target)
        return self._build_edge(source, start + int(found[0])) if len(found) else None

    def edges(self) -> Iterator[Edge]:
        """Iterate over all edges, by source, best first."""
        for number, source in enumerate(self._sources.tolist()):
            yield self._build_edge(source, number)

    def remarks(self) -> list[str]:
        """Describe what was left out: values beyond the limits on schemas, and edges that were not among the best."""
        found = []
        for tool, unread, cut in zip(self.tools, self.arrays.unread.tolist(), self.arrays.cut.tolist(), strict=True):
            if unread:
                found.append(f"{tool.qualified_name}: {unread} values, and what is in them, were not read: too many")
            if cut:
                found.append(f"{tool.qualified_name}: {cut} weaker edges to it were left out (max_neighbors)")
        return found

    def place(self, tool: Tool) -> int | None:
        """The index of a tool; None if it is unknown."""
        return self._by_name.get((tool.qualified_name, tool.fingerprint))

    def __getitem__(self, key: str) -> Any:
        if key == "out":
            return self._view_out
        if key == "in":
            return self._view_in
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("out", "in"))

    def __len__(self) -> int:
        return 2

    def __repr__(self) -> str:
        return f"Dataflow({len(self.tools)} tools, {self.edge_count} edges)"

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], int]:
        return {(tool.qualified_name, tool.fingerprint): place for place, tool in enumerate(self.tools)}

    @cached_property
    def _sources(self) -> Array:
        return np.repeat(np.arange(len(self.tools), dtype=np.int32), np.diff(self.arrays.offsets))

    @cached_property
    def _view_out(self) -> dict[str, Any]:
        return self._build_view(OUT, self.arrays.offsets, np.arange(self.edge_count), self.arrays.targets)

    @cached_property
    def _view_in(self) -> dict[str, Any]:
        return self._build_view(IN, self.arrays.in_offsets, self.arrays.in_edges, self._sources)

    def _build_view(self, mark: int, offsets: Array, order: Array, partners: Array) -> dict[str, Any]:
        view: dict[str, Any] = {}
        for place, tool in enumerate(self.tools):
            spaces: dict[str, list[tuple[str, str, float, list[tuple[str, str, float]]]]] = {}
            for number in order[int(offsets[place]) : int(offsets[place + 1])].tolist():
                if not self.arrays.marks[number] & mark:
                    continue
                partner = self.tools[int(partners[number])]
                feeds = [(feed.output, feed.parameter, round(feed.score, 4)) for feed in self._read_feeds(number)]
                if mark == IN:
                    feeds = [(parameter, output, score) for output, parameter, score in feeds]
                score = round(float(self.arrays.scores[number]), 4)
                spaces.setdefault(partner.namespace, []).append((partner.name, partner.fingerprint, score, feeds))
            if spaces:
                view.setdefault(tool.qualified_name, {})[tool.fingerprint] = spaces
        return view

    def _build_edge(self, source: int, number: int) -> Edge:
        first, second = self.tools[source], self.tools[int(self.arrays.targets[number])]
        return Edge(
            source=first.qualified_name,
            target=second.qualified_name,
            score=float(self.arrays.scores[number]),
            feeds=tuple(self._read_feeds(number)),
            covers_required=bool(self.arrays.covers[number]),
            source_overload=first.fingerprint,
            target_overload=second.fingerprint,
        )

    def _read_feeds(self, number: int) -> Iterator[Feed]:
        arrays = self.arrays
        for at in range(*arrays.feed_offsets[number : number + 2].tolist()):
            yield Feed(
                output=self._read_path(int(arrays.feed_outputs[at])),
                parameter=self._read_path(int(arrays.feed_parameters[at])),
                score=float(arrays.feed_scores[at]),
                how=FEED_MODES[int(arrays.feed_hows[at])],
                signals=dict(zip(SIGNALS, arrays.feed_signals[at].tolist(), strict=True)),
            )

    def _read_path(self, number: int) -> str:
        start, end = self.arrays.path_offsets[number : number + 2].tolist()
        return bytes(self.arrays.path_bytes[start:end]).decode("utf-8", "surrogatepass")


def pack_paths(paths: Iterable[str]) -> tuple[Array, Array]:
    """Pack texts into two arrays: the offset of each, and the concatenated bytes."""
    # Names may contain lone surrogates.
    encoded = [path.encode("utf-8", "surrogatepass") for path in paths]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(path) for path in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


def order_by_target(count: int, sources: Array, targets: Array, scores: Array) -> tuple[Array, Array]:
    """Order edges by target: return offsets, and the edge numbers, best first."""
    order = np.lexsort((sources, -scores, targets)).astype(np.int32)
    return compute_offsets(targets, count), order
