"""What was derived from a whole set of tools, as arrays in the one cache, for the next start.

key = hash_catalog(snapshot.tools, "dataflow", VERSION, embedder.name, embedder.version, options)
arrays = read_arrays(cache, "dataflow", key)
if arrays is None:
arrays = {"targets": targets, "scores": scores}
keep_arrays(cache, "dataflow", key, arrays)
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.cache.items import ItemCache, item_key, say_once
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc

Array = NDArray[Any]

LIMIT = 1 << 29
"""Bytes of all sets of one kind together; beyond, those that were written first go."""
_AT_ONCE = 256
"""Definitions that are written and hashed while they are still in the processor's cache."""

_encode = msgspec.msgpack.Encoder().encode
_read_definition = attrgetter("namespace", "name", "description", "parameters", "output_parameters")


def hash_catalog(tools: Sequence[Tool], *parts: Any) -> bytes:
    """The key of what is derived from the definitions of all these tools, in this order, and from `parts`.

    Parts are plain JSON. It reads every schema of a lazy catalog, as whatever is derived from schemas does.
    """
    # On most processors quicker than any other that is safe from collisions.
    digest = sha256()
    with paused_gc():
        for start in range(0, len(tools), _AT_ONCE):
            digest.update(_encode_definitions(tools[start : start + _AT_ONCE]))
    return item_key("set", 2, digest.hexdigest(), *parts)


def _encode_definitions(tools: Sequence[Tool]) -> bytes:
    definitions = list(map(_read_definition, tools))
    try:
        return _encode(definitions)
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, or a number beyond 64 bits: one form is as good as another.
        return repr(definitions).encode("utf-8", "surrogatepass")


def read_arrays(cache: ItemCache, kind: str, key: bytes) -> dict[str, Array] | None:
    """The arrays, read-only; None if they are not there, or not whole."""
    kept = cache.get_many(kind, [key]).get(key)
    if kept is None:
        return None
    try:
        # Each array has a checksum, so what can be read is what was written.
        with np.load(io.BytesIO(kept), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        say_once("%s in %s cannot be read, and is made again: %s", kind, cache.path, error)
        return None
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def keep_arrays(cache: ItemCache, kind: str, key: bytes, arrays: Mapping[str, Array], *, limit: int = LIMIT) -> None:
    """Keep the arrays for `read_arrays`. What is larger than the limit is not kept, and costs others nothing."""
    if any(array.dtype.hasobject for array in arrays.values()):
        raise TypeError("arrays of Python objects cannot be kept")
    if cache.path is None or sum(array.nbytes for array in arrays.values()) > limit:
        return
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays)
    cache.put_many(kind, [(key, written.getvalue())], limit=limit)
