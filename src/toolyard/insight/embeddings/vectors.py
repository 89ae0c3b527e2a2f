"""Texts and their vectors, each text embedded once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from toolyard.insight.cache.items import ItemCache, item_key
from toolyard.insight.embeddings.embedder import Embedder, Matrix
from toolyard.model.tool import Tool

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
        except RuntimeError:
            if not _is_ending():
                raise


def _is_ending() -> bool:
    """Whether Python takes no more work of threads; that begins a moment before the main thread counts as gone."""
    if not threading.main_thread().is_alive():
        return True
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int)
    except RuntimeError as error:
        return "shutdown" in str(error)
    return False


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
) -> Matrix:
    """One row a text, in order; equal texts are embedded once, and none that the cache knows.

    What is embedded is kept batch by batch, so a process that is killed loses no more than one. `label` is what the
    progress bar says. With `force` the cache is written but not read.
    """
    # Texts of one length cost the least together.
    rows = {text: row for row, text in enumerate(sorted(set(texts), key=lambda text: (len(text), text)))}
    if not rows:
        return np.empty((0, embedder.dimensions), np.float32)
    unique = list(rows)
    keys = [vector_key(embedder, text) for text in unique]
    known = cache or ItemCache(False)

    def compute(places: list[int]) -> list[bytes]:
        _go_on()
        return [row.tobytes() for row in embedder.encode([unique[place] for place in places])]

    values = known.fill(KIND, keys, compute, chunk=embedder.batch, force=force, label=label)
    if len({len(value) for value in values}) > 1:
        # A server has put another model behind the same name.
        values = known.fill(KIND, keys, compute, chunk=embedder.batch, force=True, label=label)
    matrix = np.frombuffer(b"".join(values), np.float32).reshape(len(unique), -1)
    return matrix[np.fromiter((rows[text] for text in texts), np.intp, len(texts))]


def vector_key(embedder: Embedder, text: str) -> bytes:
    """What the vector of a text is kept under."""
    return item_key(KIND, embedder.version, embedder.name, text)


def _describe_property(name: str, schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return name
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = " or ".join(str(one) for one in kind)
    described = schema.get("description")
    shown = f"{name} ({kind})" if isinstance(kind, str) and kind else name
    return f"{shown}: {described}" if isinstance(described, str) and described else shown
