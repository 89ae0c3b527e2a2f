"""Vectors of texts, each text embedded once, and the enrichment `embeddings`.

```yaml
tools:
  enrichments:
    - type: embeddings
      model: sentence-transformers/all-mpnet-base-v2   # by default: a small model without torch
```
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.arrays import Matrix, group_positions
from toolyard.insight.base import Force, ToolEnrichment
from toolyard.insight.cache import CacheOption, ItemCache, item_key
from toolyard.insight.embeddings.embedder import Embedder, Model, resolve_embedder
from toolyard.model.errors import ConfigError, EnrichmentError
from toolyard.model.tool import Tool
from toolyard.plugins import View
from toolyard.schema.options import read_option

KIND = "vector"


def build_tool_text(tool: Tool) -> str:
    """The text of a tool that is embedded: name, description, parameters, and the result's fields if known.

    The namespace is not part of it, so the same tool in two catalogs has the same vector.
    """
    lines = [f'This is a "{tool.name}" tool.']
    if tool.description:
        lines.append(tool.description)
    for title, schema in (("Args:", tool.parameters), ("Returns:", tool.output_parameters)):
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            lines.append(title)
            lines += [_describe_property(str(name), part) for name, part in properties.items()]
    return "\n".join(lines)


class _InterpreterExit(Exception):
    """The interpreter is shutting down, so the vectors are not needed."""


class Background(threading.Thread):
    """A thread that computes vectors until it is done or the interpreter shuts down.

    It is not a daemon: killing a thread inside the model's runtime would crash the process. At shutdown it stops after
    the current batch.
    """

    def run(self) -> None:
        """Run the target until it returns or the interpreter shuts down."""
        try:
            super().run()
        except _InterpreterExit:
            pass
        except RuntimeError as error:
            # Shortly before the main thread counts as dead, Python already refuses to start threads.
            if "shutdown" not in str(error):
                raise


def _stop_at_exit() -> None:
    if isinstance(threading.current_thread(), Background) and not threading.main_thread().is_alive():
        raise _InterpreterExit


def cached_vectors(
    embedder: Embedder,
    texts: Sequence[str],
    cache: ItemCache | None = None,
    label: str = "embedding texts",
    *,
    force: bool = False,
    verify: bool = False,
) -> Matrix:
    """Return one row per text, in order; each distinct text is embedded once unless the cache has it.

    Every batch is cached when it is done, so a killed process loses at most one. `label` is shown by the progress bar.
    `force` writes the cache but does not read it. A changed model on a server is detected when some texts have to be
    requested, or with `verify`; then all texts are requested again.
    """
    # Sorted by length: texts of similar length are cheapest together.
    rows = {text: row for row, text in enumerate(sorted(set(texts), key=lambda text: (len(text), text)))}
    if not rows:
        return np.empty((0, embedder.dimensions), np.float32)
    unique = list(rows)
    known = cache or ItemCache(False)
    asked = 0

    def compute(places: list[int]) -> list[bytes]:
        nonlocal asked
        _stop_at_exit()
        asked += len(places)
        return [row.tobytes() for row in embedder.encode([unique[place] for place in places])]

    def fill(again: bool) -> tuple[list[bytes], bool]:
        witness = _read_probe(embedder, known)
        keys = [vector_key(embedder, text, witness) for text in unique]
        values = known.fill(KIND, keys, compute, chunk=embedder.batch, force=again, label=label)
        return values, bool(asked or verify) and _renew_probe(embedder, known, witness)

    values, changed = fill(force)
    if changed or len({len(value) for value in values}) > 1:
        values, changed = fill(True)
    if changed:
        raise EnrichmentError(f"the embedding model {embedder.name} makes another vector of the same text each time")
    matrix = np.frombuffer(b"".join(values), np.float32).reshape(len(unique), -1)
    return matrix[np.fromiter((rows[text] for text in texts), np.intp, len(texts))]


def vector_key(embedder: Embedder, text: str, witness: bytes = b"") -> bytes:
    """The cache key of a text's vector."""
    parts = (embedder.name, text, witness.hex()) if witness else (embedder.name, text)
    return item_key(KIND, embedder.version, *parts)


_PROBE = "witness"
_SAME = 0.99
"""Minimum cosine of two vectors of the same text by the same model on different machines."""


def _read_probe(embedder: Embedder, cache: ItemCache) -> bytes:
    """The server's first vector of a fixed text: part of every key, since a name can change its model."""
    # `drifts` is optional in `Embedder`: the version of an in-process model identifies it completely.
    if not getattr(embedder, "drifts", False):
        return b""
    key = vector_key(embedder, _PROBE)
    return cache.fill(KIND, [key], lambda _: [embedder.encode([_PROBE])[0].tobytes()])[0]


def _renew_probe(embedder: Embedder, cache: ItemCache, before: bytes) -> bool:
    """Whether the server's vector of that text has changed; if so, store the new one."""
    now = embedder.encode([_PROBE])[0] if before else None
    if now is None or _are_same(np.frombuffer(before, np.float32), now):
        return False
    cache.put_many(KIND, [(vector_key(embedder, _PROBE), now.tobytes())])
    return True


def _are_same(one: Matrix, other: Matrix) -> bool:
    return len(one) == len(other) and float(one @ other) >= _SAME


def _describe_property(name: str, schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return name
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = " or ".join(str(one) for one in kind)
    described = schema.get("description")
    shown = f"{name} ({kind})" if isinstance(kind, str) and kind else name
    return f"{shown}: {described}" if isinstance(described, str) and described else shown


class Embeddings(Mapping[str, Mapping[str, Matrix]]):
    """A mapping `{qualified name: {fingerprint: vector}}`, and all vectors as one matrix.

    Row `i` of `matrix` belongs to `tools[i]`; every row has length one.
    """

    def __init__(self, tools: Sequence[Tool], matrix: Matrix, model: str, embedder: Embedder | None = None) -> None:
        self.tools = tuple(tools)
        self.matrix = matrix
        self.model = model
        """Name of the model that computed the vectors."""
        self.embedder = embedder
        """The model itself, for comparing other texts with the tools."""

    def vector(self, tool: Tool) -> Matrix:
        """The vector of a tool's overload; `KeyError` if there is none."""
        return self[tool.qualified_name][tool.fingerprint]

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
        return group_positions(tool.qualified_name for tool in self.tools)


def read_embedding_matrix(artifact: Any, tools: Sequence[Tool]) -> Matrix:
    """The vectors of the artifact "embeddings", one row per tool."""
    matrix = getattr(artifact, "matrix", None)
    try:
        if matrix is None or len(matrix) != len(tools):
            matrix = [artifact[tool.qualified_name][tool.fingerprint] for tool in tools]
        return np.asarray(matrix, np.float32).reshape(len(tools), -1 if len(tools) else 1)
    except (LookupError, TypeError, ValueError) as error:
        raise ConfigError(
            "the artifact 'embeddings' must have a vector for every tool, all of one length, as a mapping of qualified "
            f"names to mappings of fingerprints; let the enrichment embeddings make it ({type(error).__name__} {error})"
        ) from error


def configured_embedder(view: View) -> Embedder | None:
    """The model configured for `embeddings`, which search, dataflow and samplers use too; None if there is none."""
    found: Embedder | None = getattr(view.artifacts.get("embeddings"), "embedder", None)
    return found


class EmbeddingsEnrichment(ToolEnrichment):
    """Embeds name, description and parameters of every tool; writes the artifact `embeddings`, an `Embeddings`.

    Search and dataflow use its model too, unless they are configured with another.

    `model` is a name (`sentence-transformers/...`), a folder, a mapping with keys of `lm_config` for a server with an
    `/embeddings` endpoint, or an `Embedder`; by default, a small model that `toolyard embeddings install` installs.
    `force` embeds everything again. `cache` is a folder, or False.
    """

    reads = ("tool.description", "tool.output_parameters")
    writes = ("embeddings",)

    def __init__(self, model: Model = None, *, force: Force = False, cache: CacheOption = None) -> None:
        self._force = read_option(EmbeddingsEnrichment, "force", force, "force")
        self.embedder = resolve_embedder(model)
        self._items = ItemCache(cache)
        self._last: weakref.ref[Embeddings] | None = None

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The unchanged tools, and their vectors."""
        tools = snapshot.tools
        found = Embeddings(tools, self._make_matrix(tools), self.embedder.name, self.embedder)
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
        """Reuse the rows of known tools and embed the new ones."""
        fresh = np.flatnonzero(old < 0).tolist()
        if not fresh and len(tools) == len(last.tools) and np.array_equal(old, np.arange(len(old))):
            return last.matrix
        matrix = last.matrix[old]
        if fresh:
            witness = int(np.argmax(old >= 0))
            rows = self._embed_tools([*(tools[place] for place in fresh), tools[witness]])
            if not _are_same(rows[-1], matrix[witness]):
                # The server has another model behind the same name now.
                return self._embed_tools(tools)
            matrix[fresh] = rows[:-1]
        return matrix

    def _embed_tools(self, tools: Sequence[Tool]) -> Matrix:
        texts = [build_tool_text(tool) for tool in tools]
        return cached_vectors(self.embedder, texts, self._items, "embedding tools", force=self._force)
