"""`DataflowEnrichment`: finds which tool's answer can feed which other tool."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from toolyard.insight.arrays import ArrayStore, are_offsets, are_places, set_key
from toolyard.insight.base import ToolEnrichment
from toolyard.insight.cache import CacheOption, ItemCache, force_option, say_once
from toolyard.insight.dataflow.artifact import HOWS, SIGNALS, Array, Arrays, Dataflow
from toolyard.insight.dataflow.compute import compute, grow, limits_of
from toolyard.insight.dataflow.kinds import Told
from toolyard.insight.dataflow.profile import told_of
from toolyard.insight.dataflow.tokens import token_vectors
from toolyard.insight.dataflow.weights import MIN_SCORE
from toolyard.insight.embedders import default_embedder, embedder_of
from toolyard.insight.embedders.choose import Model
from toolyard.insight.vectors import cached_vectors
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool
from toolyard.plugins import View

Settings = tuple[str, str, int, float]
"""The model and its version, how many neighbors, and the least score."""

VERSION = 4
"""Of the rules: what an older one has kept is not used."""
_FEW = 4
"""One of so many tools may be new, or all are compared with all: that is as quick."""


class DataflowEnrichment(ToolEnrichment):
    """Writes the artifact `dataflow`.

    `model` is an embedding model as `embeddings` takes it; without one, and without the weights of the usual one,
    texts are compared by their words. An edge is kept if its probability is `min_score` or more and it is among the
    `max_neighbors` best of its source for that namespace, or of its target. `force` computes again what is cached.
    """

    reads: ClassVar[tuple[str, ...]] = ("tool.description", "tool.output_parameters")
    writes: ClassVar[tuple[str, ...]] = ("dataflow",)

    def __init__(
        self,
        *,
        model: Model = None,
        max_neighbors: int = 10,
        min_score: float = MIN_SCORE,
        force: bool = False,
        cache: CacheOption = None,
    ) -> None:
        if isinstance(max_neighbors, bool) or not isinstance(max_neighbors, int) or max_neighbors < 1:
            raise ConfigError(f"max_neighbors of dataflow must be a whole number from 1, not {max_neighbors!r}")
        if isinstance(min_score, bool) or not isinstance(min_score, int | float) or not 0 <= min_score <= 1:
            raise ConfigError(f"min_score of dataflow must be a number from 0 to 1, not {min_score!r}")
        self.force = force_option(force, "dataflow")
        self.embedder = default_embedder() if model is None else embedder_of(model)
        self.max_neighbors = max_neighbors
        self.min_score = float(min_score)
        self._items = ItemCache(cache)
        self._store = ArrayStore(cache)
        self._told: dict[str, Told] = {}
        self._last: tuple[weakref.ref[Dataflow], Settings] | None = None
        """What was found last, and by which settings: by others nothing can be added to it."""

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools as they are, and the artifact."""
        tools = snapshot.tools
        settings = self._settings()
        key = set_key(tools, "dataflow", VERSION, *settings)
        found = None if self.force else self._store.get("dataflow", key, lambda kept: _fit(kept, len(tools)))
        if found is None:
            _say_if_nothing_is_returned(tools)
            found = self._store.put("dataflow", key, self._compute(tools, settings)._asdict())
        flow = Dataflow(tools, Arrays(**found), text=settings[0], min_score=self.min_score)
        self._last = weakref.ref(flow), settings
        return tools, {"dataflow": flow}

    def _settings(self) -> Settings:
        text = "tokens" if self.embedder is None else self.embedder.name
        version = "" if self.embedder is None else self.embedder.version
        return text, version, self.max_neighbors, self.min_score

    def _compute(self, tools: Sequence[Tool], settings: Settings) -> Arrays:
        limits = limits_of(self.min_score, self.max_neighbors)
        found, by = self._last or (None, None)
        last = None if found is None or by != settings or self.force else found()
        places = None if last is None else _places(last.tools, tools)
        told, tokens = self._tell(tools), self.embedder is None
        if last is None or places is None:
            return compute(tools, told, self._vectors, limits, tokens=tokens)
        return grow(last.arrays, places, tools, told, self._vectors, limits, tokens=tokens)

    def _tell(self, tools: Sequence[Tool]) -> Iterator[Told]:
        """What is compared of each tool; computed once for each definition."""
        before, self._told = self._told, {}
        for tool in tools:
            key = _identity(tool)
            self._told[key] = told = self._told.get(key) or before.get(key) or told_of(tool)
            yield told

    def _vectors(self, texts: Sequence[str]) -> Array:
        if self.embedder is None:
            return token_vectors(texts)
        return cached_vectors(self.embedder, texts, self._items, "dataflow", force=self.force)


def _say_if_nothing_is_returned(tools: Sequence[Tool]) -> None:
    if tools and not any(tool.output_parameters for tool in tools):
        say_once(
            "dataflow: none of the %d tools says what it returns, so nothing feeds anything; add the enrichment "
            "output_parameters: `- type: output_parameters` under tools.enrichments",
            len(tools),
        )


def _places(before: Sequence[Tool], now: Sequence[Tool]) -> Array | None:
    """Where the tools of before are now; None if one is gone, or their order is another, or many are new."""
    if not before or len(now) - len(before) > len(now) // _FEW:
        return None
    at = {id(tool): place for place, tool in enumerate(now)}
    places = np.fromiter((at.get(id(tool), -1) for tool in before), np.int32, len(before))
    return places if places[0] >= 0 and bool((np.diff(places) > 0).all()) else None


def _fit(kept: Mapping[str, Array], count: int) -> bool:
    """Whether arrays are the edges of so many tools."""
    if kept.keys() != set(Arrays._fields):
        return False
    arrays = Arrays(**kept)
    edges, feeds, paths = len(arrays.targets), len(arrays.feed_outputs), len(arrays.path_offsets) - 1
    by_edge = (arrays.targets, arrays.scores, arrays.logits, arrays.marks, arrays.covers, arrays.in_edges)
    by_feed = (arrays.feed_outputs, arrays.feed_parameters, arrays.feed_scores, arrays.feed_hows)
    return (
        all(array.shape == (edges,) for array in by_edge)
        and all(array.shape == (feeds,) for array in by_feed)
        and arrays.feed_signals.shape == (feeds, len(SIGNALS))
        and are_offsets(arrays.offsets, count, edges)
        and are_offsets(arrays.in_offsets, count, edges)
        and are_offsets(arrays.feed_offsets, edges, feeds)
        and are_offsets(arrays.path_offsets, paths, arrays.path_bytes.size)
        and are_places(arrays.targets, count)
        and are_places(arrays.in_edges, edges)
        and are_places(arrays.feed_outputs, paths)
        and are_places(arrays.feed_parameters, paths)
        and are_places(arrays.feed_hows, len(HOWS))
        and _are_texts(arrays.path_bytes)
    )


def _are_texts(paths: Array) -> bool:
    try:
        bytes(paths).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _identity(tool: Tool) -> str:
    try:
        return f"{tool.name} {tool.definition_hash}"
    except UnicodeEncodeError:
        # Half a surrogate pair in a description.
        return repr((tool.name, tool.description, tool.parameters, tool.output_parameters))
