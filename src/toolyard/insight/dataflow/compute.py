"""From definitions to edges: of all tools, or only what a few new ones add.

Whether one tool can feed another depends on nothing but the two of them, and which edges are kept is decided by
comparing edges. So new tools are compared with all others, and the edges that are found join those that were kept: one
that had been left out before would be left out again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from toolyard.insight.dataflow.artifact import Array, Arrays
from toolyard.insight.dataflow.edges import Limits, Nature, edges_of
from toolyard.insight.dataflow.kinds import Told
from toolyard.insight.dataflow.match import match
from toolyard.insight.dataflow.memo import forget_too_many
from toolyard.insight.dataflow.merge import Part, merged, moved
from toolyard.insight.dataflow.tables import tables_of
from toolyard.insight.dataflow.texts import Vectors
from toolyard.insight.dataflow.weights import MODEL, TOKENS
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc


def limits_of(min_score: float, max_neighbors: int) -> Limits:
    """What an edge must have."""
    score = min(max(min_score, 1e-6), 1 - 1e-6)
    return Limits(math.log(score / (1 - score)), max_neighbors)


def compute(
    tools: Sequence[Tool], told: Iterable[Told], vectors: Vectors, limits: Limits, *, tokens: bool = False
) -> Arrays:
    """The edges of tools."""
    return _Flow(tools, told, vectors, limits, tokens=tokens).edges()


def grow(
    last: Arrays,
    places: Array,
    tools: Sequence[Tool],
    told: Iterable[Told],
    vectors: Vectors,
    limits: Limits,
    *,
    tokens: bool = False,
) -> Arrays:
    """The edges of tools of which most were there before: `places` says where each of those is now, in their order."""
    flow = _Flow(tools, told, vectors, limits, tokens=tokens)
    fresh = np.ones(len(tools), np.bool_)
    fresh[places] = False
    everybody = np.ones(len(tools), np.bool_)
    parts = [moved(last, places), Part.of(flow.edges(fresh, everybody)), Part.of(flow.edges(~fresh, fresh))]
    return merged(parts, flow.nature.spaces, limits.neighbors)


class _Flow:
    """Tools that are compared, and by what."""

    def __init__(
        self, tools: Sequence[Tool], told: Iterable[Told], vectors: Vectors, limits: Limits, *, tokens: bool
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
        matches = match(tables, nature.spaces, self._vectors, weights, limits.logit)
        return edges_of(tables, matches, nature, weights, limits)
