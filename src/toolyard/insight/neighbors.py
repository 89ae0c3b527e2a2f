"""`neighbors`: the most similar tools of each tool, and near duplicates, by exact comparison of vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta

from toolyard.insight.arrays import Array, find_highest, number_distinct, round_rows, row_lengths
from toolyard.insight.base import Force, ToolEnrichment, track_progress
from toolyard.insight.cache import CacheOption, ItemCache, hash_catalog, read_arrays, store_arrays
from toolyard.insight.embeddings.embedder import Model, resolve_embedder
from toolyard.insight.embeddings.vectors import EmbeddingsEnrichment, configured_embedder, read_embedding_matrix
from toolyard.model.tool import Tool
from toolyard.plugins import View
from toolyard.schema.options import read_arguments

AT_ONCE = 8_000_000
"""Similarities held in memory at a time."""
_ITSELF = -2.0
"""Below every cosine; marks a tool's similarity to itself."""


Scored = list[tuple[int, float]]
"""Tool indexes and their similarity, best first, ties by index."""


class NeighborRows(NamedTuple):
    """One list per tool: that of tool `i` is at `offsets[i]:offsets[i + 1]`."""

    offsets: Array
    places: Array
    scores: Array

    def row(self, place: int) -> Scored:
        """The list of the tool at index `place`."""
        start, end = self.offsets[place : place + 2].tolist()
        return list(zip(self.places[start:end].tolist(), self.scores[start:end].tolist(), strict=True))


class NeighborLimits(NamedTuple):
    """How many candidates are compared and kept, and the similarity of near duplicates."""

    candidates: int
    neighbors: int
    duplicate: float


def find_neighbors(vectors: Array, spaces: Array, limits: NeighborLimits) -> Iterator[tuple[Scored, Scored]]:
    """Yield for each tool, in order, its neighbors and its near duplicates, by comparing all tools with each other.

    Vectors are rows of integers, so that their products are exact; `spaces` has a number for each tool's namespace.
    """
    lengths = row_lengths(vectors)
    by_space = {space: np.flatnonzero(spaces == space) for space in np.unique(spaces).tolist()}
    block = max(1, AT_ONCE // max(1, len(spaces)))
    starts = range(0, len(spaces), block)
    for start in track_progress(starts, "finding neighbors", total=len(starts)):
        some = slice(start, start + block)
        alike = vectors[some] @ vectors.T / (lengths[some, None] * lengths)
        for place, row in enumerate(alike, start):
            row[place] = _ITSELF
            kin = by_space[int(spaces[place])]
            chosen = np.union1d(find_highest(row, limits.candidates), kin[find_highest(row[kin], limits.candidates)])
            chosen = chosen[row[chosen] > _ITSELF]
            scores = row[chosen]
            twins = scores >= np.float32(limits.duplicate)
            near: Scored = []
            counts = Counter[int]()
            for other, score in _sort_scored(chosen[~twins], scores[~twins]):
                space = int(spaces[other])
                counts[space] += 1
                if counts[space] <= limits.neighbors:
                    near.append((other, score))
            yield near, _sort_scored(chosen[twins], scores[twins])


def _sort_scored(places: Array, scores: Array) -> Scored:
    order = np.lexsort((places, -scores))
    return list(zip(places[order].tolist(), scores[order].tolist(), strict=True))


def pack_rows(rows: Sequence[Scored]) -> NeighborRows:
    """Pack lists into arrays."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return NeighborRows(
        offsets,
        np.array([place for row in rows for place, _ in row], np.int32),
        np.array([score for row in rows for _, score in row], np.float32),
    )


VERSION = 3
"""Part of the cache key; increase it when the same vectors would give other neighbors."""
_NAMES = ("near_offsets", "near_places", "near_scores", "same_offsets", "same_places", "same_scores")
_SAMPLE_STEP = 64


class Neighbors(Mapping[str, Any]):
    """The neighbors of each tool, by index.

    As a mapping it is `{qualified name: {fingerprint: {namespace: (neighbors, near duplicates)}}}`, both lists of
    `(name, fingerprint, score)`, best first.
    """

    def __init__(self, tools: Sequence[Tool], near: NeighborRows, same: NeighborRows) -> None:
        self.tools = tuple(tools)
        self.rows = near
        self.same = same

    def near(self, place: int) -> Scored:
        """The neighbors of the tool at index `place`."""
        return self.rows.row(place)

    def duplicates(self, place: int) -> tuple[int, ...]:
        """The indexes of the near duplicates of the tool at index `place`."""
        return tuple(other for other, _ in self.same.row(place))

    def __getitem__(self, name: str) -> Any:
        return self._view[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._view)

    def __len__(self) -> int:
        return len(self._view)

    def __repr__(self) -> str:
        return f"Neighbors({len(self.tools)} tools, {len(self.rows.places)} neighbors)"

    @cached_property
    def _view(self) -> dict[str, dict[str, dict[str, tuple[list[Any], list[Any]]]]]:
        view: dict[str, dict[str, dict[str, tuple[list[Any], list[Any]]]]] = {}
        for place, tool in enumerate(self.tools):
            spaces: dict[str, tuple[list[Any], list[Any]]] = {}
            for at, rows in enumerate((self.rows, self.same)):
                for other, score in rows.row(place):
                    found = self.tools[other]
                    row = (found.name, found.fingerprint, round(score, 4))
                    spaces.setdefault(found.namespace, ([], []))[at].append(row)
            view.setdefault(tool.qualified_name, {})[tool.fingerprint] = spaces
        return view


class NeighborsEnrichment(ToolEnrichment):
    """Finds the most similar tools of each tool.

    By default it uses the vectors of `embeddings`, which also cover the parameters of a tool. With a `model`, or
    without that artifact, it computes vectors itself.

    `max_candidates` is how many of the most similar tools are compared, among all tools and among those of the same
    namespace; of these, `max_neighbors` are kept per namespace. Tools with a similarity of at least
    `duplicate_sim_thresh` are near duplicates: they are listed separately and do not count as neighbors.
    """

    reads: ClassVar[tuple[str, ...]] = ("embeddings?",)
    writes: ClassVar[tuple[str, ...]] = ("neighbors",)

    def __init__(
        self,
        model: Model = None,
        *,
        max_candidates: Annotated[int, Meta(ge=1, description="Candidates to compare with each tool.")] = 50,
        max_neighbors: Annotated[int, Meta(ge=1, description="Neighbours to keep for each tool.")] = 10,
        duplicate_sim_thresh: Annotated[
            float, Meta(gt=0, le=1, description="Similarity from which two tools count as duplicates.")
        ] = 0.9,
        force: Force = False,
        cache: CacheOption = None,
    ) -> None:
        limits = {"max_candidates": max_candidates, "max_neighbors": max_neighbors}
        read = read_arguments(NeighborsEnrichment, force=force, **limits, duplicate_sim_thresh=duplicate_sim_thresh)
        self.force = read.pop("force")
        self._limits = NeighborLimits(*read.values())
        self._embedder = None if model is None else resolve_embedder(model)
        if model is not None:
            # Own vectors are computed from these fields; those of `embeddings` already depend on them.
            self.reads = (*self.reads, "tool.description", "tool.output_parameters")  # type: ignore[misc]
        self._cache_option, self._cache = cache, ItemCache(cache)

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """Return the tools unchanged, and the artifact "neighbors"."""
        tools = snapshot.tools
        artifact, configured, own = snapshot.artifacts.get("embeddings"), configured_embedder(snapshot), self._embedder
        is_usable = own is None or (
            configured is not None and (configured.name, configured.version) == (own.name, own.version)
        )
        if artifact is None or not is_usable:
            vectors = EmbeddingsEnrichment(own, force=self.force, cache=self._cache_option)
            artifact = vectors.enrich(snapshot)[1]["embeddings"]
        matrix = read_embedding_matrix(artifact, tools)
        # If the definitions are equal, a model's vectors differ in all rows or in none, so a sample of rows suffices.
        some = matrix[:: _SAMPLE_STEP if hasattr(artifact, "model") else 1]
        digest = blake2b(np.ascontiguousarray(some).tobytes(), digest_size=16).hexdigest()
        key = hash_catalog(tools, "neighbors", VERSION, digest, tuple(self._limits))
        kept = None if self.force else read_arrays(self._cache, "neighbors", key)
        if kept is None:
            spaces = number_distinct(tool.namespace for tool in tools)[1]
            found = list(find_neighbors(round_rows(matrix), spaces, self._limits))
            parts = (*pack_rows([near for near, _ in found]), *pack_rows([same for _, same in found]))
            kept = dict(zip(_NAMES, parts, strict=True))
            store_arrays(self._cache, "neighbors", key, kept)
        rows = [kept[name] for name in _NAMES]
        return tools, {"neighbors": Neighbors(tools, NeighborRows(*rows[:3]), NeighborRows(*rows[3:]))}
