"""`embeddings`: a vector for every tool.

```yaml
tools:
  enrichments:
    - type: embeddings
      model: sentence-transformers/all-mpnet-base-v2   # left out: a small model without torch
```
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.base import ToolEnrichment
from toolyard.insight.cache.items import CacheOption, ItemCache, force_option
from toolyard.insight.embeddings.choice import Model, embedder_of
from toolyard.insight.embeddings.embedder import Matrix
from toolyard.insight.embeddings.vectors import cached_vectors, text_of
from toolyard.insight.options import VectorOptions
from toolyard.model.tool import Tool
from toolyard.plugins import View


class Embeddings(Mapping[str, Mapping[str, Matrix]]):
    """`{qualified name: {fingerprint: vector}}`, and all of it as one matrix.

    Row `i` of `matrix` belongs to `tools[i]`; every row has length one.
    """

    def __init__(self, tools: Sequence[Tool], matrix: Matrix, model: str) -> None:
        self.tools = tuple(tools)
        self.matrix = matrix
        self.model = model
        """The name of the model that made the vectors."""

    def vector(self, tool: Tool) -> Matrix:
        """The vector of a tool; of an overload, its own. `KeyError` if there is none."""
        return self[tool.qualified_name][tool.fingerprint]

    def places(self, name: str) -> tuple[int, ...]:
        """The rows of every overload of a qualified name; empty if unknown."""
        return self._places.get(name, ())

    def __getitem__(self, name: str) -> Mapping[str, Matrix]:
        return {self.tools[place].fingerprint: self.matrix[place] for place in self._places[name]}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"Embeddings({len(self.tools)} tools, {self.matrix.shape[1]} dimensions, {self.model!r})"

    @cached_property
    def _places(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for place, tool in enumerate(self.tools):
            found.setdefault(tool.qualified_name, []).append(place)
        return {name: tuple(places) for name, places in found.items()}


class EmbeddingsEnrichment(ToolEnrichment):
    """Embeds the name, the description and the parameters of every tool; artifact `embeddings`, an `Embeddings`.

    `model` is a name (`sentence-transformers/...`), a folder, a mapping with the keys of `lm_config` for a server that
    speaks `/embeddings`, or an `Embedder`; left out, a small model that `toolyard embeddings install` installs. `force`
    embeds everything again. `cache` is a folder, or False.
    """

    option_structs: ClassVar[tuple[type, ...]] = (VectorOptions,)

    reads = ("tool.description", "tool.output_parameters")
    writes = ("embeddings",)

    def __init__(self, model: Model = None, *, force: bool = False, cache: CacheOption = None) -> None:
        self._force = force_option(force, "embeddings")
        self.embedder = embedder_of(model)
        self._items = ItemCache(cache)
        self._last: weakref.ref[Embeddings] | None = None

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools as they are, and their vectors."""
        tools = snapshot.tools
        found = Embeddings(tools, self._make_matrix(tools), self.embedder.name)
        self._last = weakref.ref(found)
        return tools, {"embeddings": found}

    def _make_matrix(self, tools: Sequence[Tool]) -> Matrix:
        last = None if self._last is None else self._last()
        if last is not None:
            rows = {id(tool): row for row, tool in enumerate(last.tools)}
            old = np.fromiter((rows.get(id(tool), -1) for tool in tools), np.intp, len(tools))
            if np.count_nonzero(old < 0) * 2 < len(tools):
                return self._grow_matrix(last, tools, old)
        return self._embed_tools(tools)

    def _grow_matrix(self, last: Embeddings, tools: Sequence[Tool], old: NDArray[np.intp]) -> Matrix:
        """The matrix after a change of the registry: a tool that was there keeps its row."""
        fresh = np.flatnonzero(old < 0).tolist()
        if not fresh and len(tools) == len(last.tools) and np.array_equal(old, np.arange(len(old))):
            return last.matrix
        matrix = last.matrix[old]
        if fresh:
            rows = self._embed_tools([tools[place] for place in fresh])
            if rows.shape[1] != matrix.shape[1]:
                # A server has put another model behind the same name.
                return self._embed_tools(tools)
            matrix[fresh] = rows
        return matrix

    def _embed_tools(self, tools: Sequence[Tool]) -> Matrix:
        texts = [text_of(tool) for tool in tools]
        return cached_vectors(self.embedder, texts, self._items, "embedding tools", force=self._force)
