"""Texts and their vectors, each text embedded once; `embeddings`: a vector for every tool.

```yaml
tools:
  enrichments:
    - type: embeddings
      model: sentence-transformers/all-mpnet-base-v2   # left out: a small model without torch
```
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from toolyard.insight.base import ToolEnrichment, VectorOptions
from toolyard.insight.cache import CacheOption, ItemCache, force_option, item_key
from toolyard.insight.embeddings.choice import Model, embedder_of
from toolyard.insight.embeddings.embedder import Embedder, Matrix
from toolyard.model.errors import EnrichmentError
from toolyard.model.tool import Tool
from toolyard.plugins import View

KIND = "vector"


def text_of(tool: Tool) -> str:
    """What an embedding sees of a tool: name, description, parameters, and what it returns if that is known.

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


class _Ended(Exception):
    """The program ends, and nobody needs the vectors."""


class Background(threading.Thread):
    """A thread that makes vectors until they are done or the program ends.

    It is waited for then, since a thread that is killed inside the runtime of the model takes the process down with it;
    it gives up behind the batch that it is at.
    """

    def run(self) -> None:
        """Do what the thread was made for."""
        try:
            super().run()
        except _Ended:
            pass
        except RuntimeError as error:
            # Python takes no more work of threads a moment before the main thread counts as gone.
            if "shutdown" not in str(error):
                raise


def _go_on() -> None:
    if isinstance(threading.current_thread(), Background) and not threading.main_thread().is_alive():
        raise _Ended


def cached_vectors(
    embedder: Embedder,
    texts: Sequence[str],
    cache: ItemCache | None = None,
    label: str = "embedding texts",
    *,
    force: bool = False,
    verify: bool = False,
) -> Matrix:
    """One row a text, in order; equal texts are embedded once, and none that the cache knows.

    What is embedded is kept batch by batch, so a process that is killed loses no more than one. `label` is what the
    progress bar says. With `force` the cache is written but not read. That a server has another model now is noticed
    if it has to be asked for some of the texts, or with `verify`, and then it is asked for all of them.
    """
    # Texts of one length cost the least together.
    rows = {text: row for row, text in enumerate(sorted(set(texts), key=lambda text: (len(text), text)))}
    if not rows:
        return np.empty((0, embedder.dimensions), np.float32)
    unique = list(rows)
    known = cache or ItemCache(False)
    asked = 0

    def compute(places: list[int]) -> list[bytes]:
        nonlocal asked
        _go_on()
        asked += len(places)
        return [row.tobytes() for row in embedder.encode([unique[place] for place in places])]

    def fill(again: bool) -> tuple[list[bytes], bool]:
        witness = _read_witness(embedder, known)
        keys = [vector_key(embedder, text, witness) for text in unique]
        values = known.fill(KIND, keys, compute, chunk=embedder.batch, force=again, label=label)
        return values, bool(asked or verify) and _renew_witness(embedder, known, witness)

    values, changed = fill(force)
    if changed or len({len(value) for value in values}) > 1:
        values, changed = fill(True)
    if changed:
        raise EnrichmentError(f"the embedding model {embedder.name} makes another vector of the same text each time")
    matrix = np.frombuffer(b"".join(values), np.float32).reshape(len(unique), -1)
    return matrix[np.fromiter((rows[text] for text in texts), np.intp, len(texts))]


def vector_key(embedder: Embedder, text: str, witness: bytes = b"") -> bytes:
    """What the vector of a text is kept under."""
    parts = (embedder.name, text, witness.hex()) if witness else (embedder.name, text)
    return item_key(KIND, embedder.version, *parts)


_WITNESS = "witness"
_SAME = 0.99
"""The least cosine of two vectors that one model made of one text, whatever machine it ran on."""


def _read_witness(embedder: Embedder, cache: ItemCache) -> bytes:
    """What a server made of a text when it was first asked: part of every key, since names outlive models."""
    # Part of no protocol: a model that runs in this process has a version that says all.
    if not getattr(embedder, "drifts", False):
        return b""
    key = vector_key(embedder, _WITNESS)
    return cache.fill(KIND, [key], lambda _: [embedder.encode([_WITNESS])[0].tobytes()])[0]


def _renew_witness(embedder: Embedder, cache: ItemCache, before: bytes) -> bool:
    """Whether a server makes something else of that text now, which is kept then."""
    now = embedder.encode([_WITNESS])[0] if before else None
    if now is None or _are_same(np.frombuffer(before, np.float32), now):
        return False
    cache.put_many(KIND, [(vector_key(embedder, _WITNESS), now.tobytes())])
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
    """`{qualified name: {fingerprint: vector}}`, and all of it as one matrix.

    Row `i` of `matrix` belongs to `tools[i]`; every row has length one.
    """

    def __init__(self, tools: Sequence[Tool], matrix: Matrix, model: str, embedder: Embedder | None = None) -> None:
        self.tools = tuple(tools)
        self.matrix = matrix
        self.model = model
        """The name of the model that made the vectors."""
        self.embedder = embedder
        """The model itself, for whoever compares other texts with the tools."""

    def vector(self, tool: Tool) -> Matrix:
        """The vector of a tool; of an overload, its own. `KeyError` if there is none."""
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
    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, tool in enumerate(self.tools):
            found.setdefault(tool.qualified_name, []).append(place)
        return found


def told_embedder(view: View) -> Embedder | None:
    """The model that `embeddings` was told to use, and so search, dataflow and samplers; None if nobody told it any."""
    found: Embedder | None = getattr(view.artifacts.get("embeddings"), "embedder", None)
    return found


class EmbeddingsEnrichment(ToolEnrichment):
    """Embeds the name, the description and the parameters of every tool; artifact `embeddings`, an `Embeddings`.

    Search and dataflow use its model too, unless they are given one of their own.

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
        """The matrix after a change of the registry: a tool that was there keeps its row."""
        fresh = np.flatnonzero(old < 0).tolist()
        if not fresh and len(tools) == len(last.tools) and np.array_equal(old, np.arange(len(old))):
            return last.matrix
        matrix = last.matrix[old]
        if fresh:
            witness = int(np.argmax(old >= 0))
            rows = self._embed_tools([*(tools[place] for place in fresh), tools[witness]])
            if not _are_same(rows[-1], matrix[witness]):
                # A server has put another model behind the same name.
                return self._embed_tools(tools)
            matrix[fresh] = rows[:-1]
        return matrix

    def _embed_tools(self, tools: Sequence[Tool]) -> Matrix:
        texts = [text_of(tool) for tool in tools]
        return cached_vectors(self.embedder, texts, self._items, "embedding tools", force=self._force)
