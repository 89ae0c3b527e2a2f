"""`DataflowEnrichment`: finds which tool's result can feed which other tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from toolyard.insight.arrays import Array
from toolyard.insight.base import ToolEnrichment, VectorOptions
from toolyard.insight.cache import (
    CacheOption,
    ItemCache,
    force_option,
    hash_catalog,
    read_arrays,
    store_arrays,
    warn_once,
)
from toolyard.insight.dataflow.artifact import Dataflow, EdgeArrays
from toolyard.insight.dataflow.edges import EdgeLimits, compute_edges
from toolyard.insight.dataflow.match import MIN_SCORE, token_vectors
from toolyard.insight.dataflow.profile import read_profile
from toolyard.insight.embeddings.choice import Model, default_embedder, resolve_embedder
from toolyard.insight.embeddings.vectors import cached_vectors, configured_embedder
from toolyard.model.tool import Tool
from toolyard.plugins import View
from toolyard.schema.options import read_arguments

VERSION = 15
"""Part of the cache key; increase it when the rules change."""

NEIGHBORS = 10
"""Default of `max_neighbors`: sources kept per parameter, and targets per source, inside and outside the namespace."""


class DataflowOptions(VectorOptions, frozen=True, kw_only=True):
    """Options of `DataflowEnrichment`."""

    max_neighbors: Annotated[int, Meta(ge=1, description="Edges to keep for each parameter and each source.")]
    min_score: Annotated[float, Meta(ge=0, le=1, description="Minimum score of an edge.")]


class DataflowEnrichment(ToolEnrichment):
    """Finds which results can be used as which parameters; artifact `dataflow`.

    `model` is an embedding model as in `embeddings`; by default that of `embeddings`, else the default model. If its
    weights are not installed, texts are compared by their words. An edge is kept if its probability is at least
    `min_score` and it is among the `max_neighbors` best of its source, or of a parameter that it feeds, inside or
    outside the namespace. `remarks()` of the artifact lists what was left out. `force` ignores the cache.
    """

    option_structs: ClassVar[tuple[type, ...]] = (DataflowOptions,)

    reads: ClassVar[tuple[str, ...]] = ("tool.description", "tool.output_parameters", "embeddings?")
    writes: ClassVar[tuple[str, ...]] = ("dataflow",)

    def __init__(
        self,
        *,
        model: Model = None,
        max_neighbors: int = NEIGHBORS,
        min_score: float = MIN_SCORE,
        force: bool = False,
        cache: CacheOption = None,
    ) -> None:
        read = read_arguments(DataflowOptions, max_neighbors=max_neighbors, min_score=min_score)
        self.force = force_option(force, "dataflow")
        self.embedder = default_embedder() if model is None else resolve_embedder(model)
        self._chosen = model is not None
        self.max_neighbors: int = read["max_neighbors"]
        self.min_score = float(read["min_score"])
        self._items = ItemCache(cache)

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The unchanged tools, and the artifact."""
        tools = snapshot.tools
        if not self._chosen:
            self.embedder = configured_embedder(snapshot) or self.embedder
        model = ("tokens", "") if self.embedder is None else (self.embedder.name, self.embedder.version)
        key = hash_catalog(tools, "dataflow", VERSION, *model, self.max_neighbors, self.min_score)
        found = None if self.force else read_arrays(self._items, "dataflow", key)
        if found is None:
            _warn_without_outputs(tools)
            limits = EdgeLimits(self.min_score, self.max_neighbors)
            profiles, tokens = map(read_profile, tools), self.embedder is None
            found = compute_edges(tools, profiles, self._embed_texts, limits, tokens=tokens)._asdict()
            store_arrays(self._items, "dataflow", key, found)
        return tools, {"dataflow": Dataflow(tools, EdgeArrays(**found), text=model[0], min_score=self.min_score)}

    def _embed_texts(self, texts: Sequence[str]) -> Array:
        if self.embedder is None:
            return token_vectors(texts)
        return cached_vectors(self.embedder, texts, self._items, "dataflow", force=self.force)


def _warn_without_outputs(tools: Sequence[Tool]) -> None:
    if tools and not any(tool.output_parameters for tool in tools):
        warn_once(
            f"dataflow: none of the {len(tools)} tools says what it returns, so nothing feeds anything; add the "
            "enrichment output_parameters: `- type: output_parameters` under tools.enrichments"
        )
