"""`neighbors`: which tools are like which others, and which are nearly the same."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from operator import is_
from typing import Any, ClassVar

import numpy as np

from toolyard.insight.arrays import ArrayStore, are_offsets, are_places, set_key
from toolyard.insight.base import ToolEnrichment
from toolyard.insight.cache import CacheOption, ItemCache, force_option
from toolyard.insight.embedders.choose import Model, embedder_of
from toolyard.insight.neighbor_rows import Array, Found, Limits, Rows, Study, packed, row_of
from toolyard.insight.samplers.likeness import matrix_of, whole_numbers
from toolyard.insight.vectors import cached_vectors, text_of
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool
from toolyard.plugins import View

VERSION = 1
"""Changes when the same vectors would give other neighbors."""
_NAMES = ("near_offsets", "near_places", "near_scores", "same_offsets", "same_places", "same_scores", "doors")
_TELLING = 64


class Neighbors(Mapping[str, Any]):
    """Tools by place, each with its neighbors.

    As a mapping it is `{qualified name: {fingerprint: {namespace: (neighbors, near duplicates)}}}`, both lists of
    `(name, fingerprint, score)`, best first.
    """

    def __init__(self, tools: Sequence[Tool], near: Rows, same: Rows, *, doors: Array, matrix: Array) -> None:
        self.tools = tuple(tools)
        self.rows = near
        self.same = same
        self.doors = doors
        """For each tool, how like it another must be to change its neighbors: any tool, and one of its namespace."""
        self.matrix = matrix
        """The vectors it was made from."""

    def near(self, place: int) -> list[tuple[int, float]]:
        """The neighbors of the tool at `place`: (place, likeness), best first, ties by place."""
        return row_of(self.rows, place)

    def duplicates(self, place: int) -> tuple[int, ...]:
        """The places of the tools that are nearly the same as the one at `place`."""
        return tuple(other for other, _ in row_of(self.same, place))

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
                for other, score in row_of(rows, place):
                    found = self.tools[other]
                    row = (found.name, found.fingerprint, round(score, 4))
                    spaces.setdefault(found.namespace, ([], []))[at].append(row)
            view.setdefault(tool.qualified_name, {})[tool.fingerprint] = spaces
        return view


class NeighborsEnrichment(ToolEnrichment):
    """Finds, for each tool, the tools most like it.

    By default it goes by the vectors of `embeddings`, which know the parameters of a tool as well. With a `model`
    it goes by what would follow a tool: the tool and what it returns, against the other tool and what it takes.

    `max_candidates` is how many of the most similar tools are looked at, among all and among those of the tool's own
    namespace; of these, `max_neighbors` are kept in each namespace. Tools at least `duplicate_sim_thresh` alike
    are near duplicates, and told of as such: they take no place among the neighbors.
    """

    reads: ClassVar[tuple[str, ...]] = ("embeddings",)
    writes: ClassVar[tuple[str, ...]] = ("neighbors",)

    def __init__(
        self,
        model: Model = None,
        *,
        max_candidates: int = 50,
        max_neighbors: int = 10,
        duplicate_sim_thresh: float = 0.9,
        force: bool = False,
        cache: CacheOption = None,
    ) -> None:
        for option, value in (("max_candidates", max_candidates), ("max_neighbors", max_neighbors)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"neighbors: {option} must be a whole number of 1 or more, not {value!r}")
        number = isinstance(duplicate_sim_thresh, int | float) and not isinstance(duplicate_sim_thresh, bool)
        if not number or not 0 < duplicate_sim_thresh <= 1:
            raise ConfigError(
                f"neighbors: duplicate_sim_thresh must be more than 0 and at most 1, not {duplicate_sim_thresh!r}"
            )
        self.force = force_option(force, "neighbors")
        self._embedder = None if model is None else embedder_of(model)
        if model is not None:
            # Of these it makes texts of its own; the vectors of `embeddings` have waited for them already.
            self.reads = (*self.reads, "tool.description", "tool.output_parameters")  # type: ignore[misc]
        self.max_candidates = max_candidates
        self.max_neighbors = max_neighbors
        self.duplicate_sim_thresh = duplicate_sim_thresh
        self._cache = ItemCache(cache)
        self._store = ArrayStore(cache)
        self._last: weakref.ref[Neighbors] | None = None

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools as they are, and the artifact "neighbors"."""
        tools = snapshot.tools
        artifact = snapshot.artifacts["embeddings"]
        matrix = matrix_of(artifact, tools)
        key = self._key(tools, artifact, matrix)
        kept = None if self.force else self._store.get("neighbors", key, lambda kept: _fit(kept, len(tools)))
        if kept is None:
            kept = self._arrays(tools, matrix, key)
        rows = [kept[name] for name in _NAMES]
        found = Neighbors(tools, Rows(*rows[:3]), Rows(*rows[3:6]), doors=rows[6], matrix=matrix)
        self._last = weakref.ref(found)
        return tools, {"neighbors": found}

    def _arrays(self, tools: Sequence[Tool], matrix: Array, key: bytes) -> dict[str, Array]:
        """What a `Neighbors` is made of, worked out."""
        codes: dict[str, int] = {}
        spaces = np.array([codes.setdefault(tool.namespace, len(codes)) for tool in tools], np.int64)
        pair = self._composites(tools) if self._embedder is not None else None
        limits = Limits(self.max_candidates, self.max_neighbors, self.duplicate_sim_thresh)
        study = Study(whole_numbers(matrix), spaces, limits, pair)
        grown = self._grown(tools, matrix, study)
        found = list(study.rows(np.arange(len(tools)))) if grown is None else grown
        doors = np.array([one.doors for one in found], np.float32).reshape(-1, 2)
        parts = (*packed([one.near for one in found]), *packed([one.same for one in found]), doors)
        arrays = dict(zip(_NAMES, parts, strict=True))
        # What grew by a few tools will do so again; the files are for the next start.
        return self._store.put("neighbors", key, arrays) if grown is None else arrays

    def _key(self, tools: Sequence[Tool], artifact: Any, matrix: Array) -> bytes:
        """Everything that the neighbors depend on."""
        # Vectors that a model made of definitions change all at once, if the definitions do not: a few tell.
        some = matrix[:: _TELLING if hasattr(artifact, "model") else 1]
        digest = blake2b(np.ascontiguousarray(some).tobytes(), digest_size=16).hexdigest()
        model = None if self._embedder is None else (self._embedder.name, self._embedder.version)
        options = (self.max_candidates, self.max_neighbors, self.duplicate_sim_thresh)
        return set_key(tools, "neighbors", VERSION, digest, model, options)

    def _composites(self, tools: Sequence[Tool]) -> tuple[Array, Array]:
        """For each tool, it and what it returns; and it and what it takes."""
        assert self._embedder is not None
        own = self._vectors([text_of(tool) for tool in tools], "embedding tools")
        returned = [_properties(tool.output_parameters) for tool in tools]
        taken = [_properties(tool.parameters) for tool in tools]
        texts = [text for parts in (*returned, *taken) for text in parts]
        vectors = self._vectors(texts, "embedding parameters")
        ends = np.cumsum([len(parts) for parts in (*returned, *taken)]).tolist()
        sums = [vectors[start:end].sum(axis=0) for start, end in zip([0, *ends], ends, strict=False)]
        count = len(tools)
        return (
            whole_numbers(own + np.reshape(sums[:count], own.shape)),
            whole_numbers(own + np.reshape(sums[count:], own.shape)),
        )

    def _vectors(self, texts: list[str], label: str) -> Array:
        assert self._embedder is not None
        return cached_vectors(self._embedder, texts, self._cache, label, force=self.force)

    def _grown(self, tools: Sequence[Tool], matrix: Array, study: Study) -> list[Found] | None:
        """What is known, with what more tools change; None if there were not just more tools."""
        last = None if self._last is None else self._last()
        if last is None or self.force or not 0 < len(last.tools) < len(tools):
            return None
        old = len(last.tools)
        if not all(map(is_, last.tools, tools)) or not np.array_equal(matrix[:old], last.matrix):
            return None
        touched = study.touched(old, last.doors).tolist()
        found: list[Found] = [Found(row_of(last.rows, at), row_of(last.same, at), last.doors[at]) for at in range(old)]
        for place, row in zip(touched, study.rows(np.asarray(touched, np.int64)), strict=True):
            found[place] = row
        return [*found, *study.rows(np.arange(old, len(tools)))]


def _fit(kept: Mapping[str, Array], count: int) -> bool:
    """Whether arrays are the lists of so many tools."""
    if kept.keys() != set(_NAMES) or kept["doors"].shape != (count, 2):
        return False
    for kind in ("near", "same"):
        places, scores = kept[f"{kind}_places"], kept[f"{kind}_scores"]
        if not are_places(places, count) or scores.shape != places.shape:
            return False
        if not are_offsets(kept[f"{kind}_offsets"], count, len(places)):
            return False
    return True


def _properties(schema: Mapping[str, Any]) -> list[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    return [_property(str(name), part) for name, part in properties.items()]


def _property(name: str, schema: Any) -> str:
    described = schema.get("description") if isinstance(schema, Mapping) else None
    return f"{name}: {described}" if isinstance(described, str) else name
