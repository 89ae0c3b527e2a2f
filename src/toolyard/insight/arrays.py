"""`ArrayStore`: arrays that were derived from a whole set of tools, kept for the next start.

`ItemCache` knows single items, so that one new tool costs one. This is the short way on top of it: when nothing at all
has changed, the arrays are mapped into memory as they are. What is not found here is made from the items again.

    key = set_key(snapshot.tools, "dataflow", VERSION, embedder.name, embedder.version, options)
    arrays = store.get("dataflow", key)
    if arrays is None:
        arrays = store.put("dataflow", key, {"targets": targets, "scores": scores})
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.cache import CacheOption, cache_folder, item_key, say_once
from toolyard.insight.digest import definitions_digest
from toolyard.model.tool import Tool

FOLDER = "arrays"
LIMIT = 1 << 30
"""Bytes of all arrays together; beyond, those not used for longest go."""

Array = NDArray[Any]

_MAGIC = b"toolyard"
_HEAD = len(_MAGIC) + 8
_ALIGN = 64
_LOOKED_AT = 1 << 17


def set_key(tools: Sequence[Tool], *parts: Any) -> bytes:
    """The key of what is derived from the definitions of all these tools, in this order, and from `parts`.

    Parts are plain JSON. The tools are hashed once, however many keys are made for them.
    """
    return item_key("set", 1, definitions_digest(tools), *parts)


class ArrayStore:
    """Named arrays by kind and key, each set in a file of its own, written whole or not at all.

    A store that cannot be used is never an error: it is said once, and nothing is found.
    """

    def __init__(self, option: CacheOption = None, *, limit: int = LIMIT) -> None:
        folder = cache_folder(option)
        self.path = None if folder is None else folder / FOLDER
        self._limit = limit

    def get(
        self, kind: str, key: bytes, fit: Callable[[dict[str, Array]], bool] | None = None
    ) -> dict[str, Array] | None:
        """The arrays, read-only and mapped into memory; None if they are not there, or not whole, or do not `fit`."""
        place = self._place(kind, key)
        if place is None or not place.is_file():
            return None
        try:
            arrays = _mapped(place)
            if fit is not None and not fit(arrays):
                raise ValueError("they do not fit the tools")
        except (OSError, ValueError, TypeError, msgspec.MsgspecError) as error:
            say_once("arrays in %s cannot be read, and are made again: %s", place, error)
            with suppress(OSError):
                place.unlink()
            return None
        with suppress(OSError):  # somebody else's, or on a disk that is only read
            os.utime(place)
        return arrays

    def put(self, kind: str, key: bytes, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Keep the arrays; they are returned as `get` would, or as they are where nothing can be kept."""
        place = self._place(kind, key)
        needed = sum(array.nbytes for array in arrays.values())
        if place is None or needed > self._limit:
            return dict(arrays)
        part = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(needed)
            _write(part, arrays)
            put_in_place(part, place)
        except OSError as error:
            say_once("arrays cannot be kept in %s: %s", place.parent, error)
            with suppress(OSError):
                part.unlink()
        return self.get(kind, key) or dict(arrays)

    def _place(self, kind: str, key: bytes) -> Path | None:
        return None if self.path is None else self.path / f"{kind}-{key.hex()}"

    def _make_room(self, needed: int) -> None:
        """Remove what was not used for longest. A process that has it mapped keeps it."""
        assert self.path is not None
        found = sorted(_sizes(self.path), key=lambda entry: entry[0])
        total = sum(size for _, size, _ in found)
        for _, size, place in found:
            if total + needed <= self._limit:
                return
            with suppress(OSError):
                place.unlink()
            total -= size


def are_offsets(array: Array, count: int, length: int) -> bool:
    """Whether it says where each of `count` lists begins, and where the last ends, that together have this length."""
    if count < 0 or array.shape != (count + 1,) or array.dtype.kind not in "iu":
        return False
    some = _some(array)
    return bool(array[0] == 0 and array[-1] == length and some[-1] <= length and (some[1:] >= some[:-1]).all())


def are_places(array: Array, count: int) -> bool:
    """Whether it is a row of numbers from 0 that are less than `count`."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        return False
    some = _some(array)
    return bool(not len(some) or (some.min() >= 0 and some.max() < count))


def _some(array: Array) -> Array:
    """All of it, or of a long one every so many: to look at each would take longer than a start may."""
    return array[:: len(array) // _LOOKED_AT + 1]


def put_in_place(part: Path, place: Path) -> None:
    """Give a finished file its name, whatever has that name; who finds the name finds a whole file."""
    try:
        part.replace(place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(place, ignore_errors=True)
        part.replace(place)


class _Entry(msgspec.Struct, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


_read_entries = msgspec.msgpack.Decoder(list[_Entry]).decode


def _mapped(file: Path) -> dict[str, Array]:
    if file.stat().st_size < _HEAD:
        raise ValueError("it is cut off")
    # A plain array over the same memory: the subclass costs time with every slice.
    data = np.asarray(np.memmap(file, np.uint8, mode="r"))
    head = data[:_HEAD].tobytes()
    length = int.from_bytes(head[len(_MAGIC) :], "little")
    if not head.startswith(_MAGIC) or _HEAD + length > len(data):
        raise ValueError("it does not hold arrays")
    found: dict[str, Array] = {}
    for entry in _read_entries(data[_HEAD : _HEAD + length].tobytes()):
        if not 0 <= entry.start <= entry.start + entry.size <= len(data):
            raise ValueError("it is cut off")
        part = data[entry.start : entry.start + entry.size]
        found[entry.name] = part.view(np.dtype(entry.dtype)).reshape(entry.shape)
    return found


def _write(file: Path, arrays: Mapping[str, Array]) -> None:
    """All arrays in one file: what is where, then their bytes, each aligned."""
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if any(array.dtype.hasobject for array in plain.values()):
        raise TypeError("arrays of Python objects cannot be kept")
    # Where they begin depends on how long the list is: its numbers are written at full width first.
    entries = [_Entry(name, one.dtype.str, one.shape, 2**40, one.nbytes) for name, one in plain.items()]
    at = _aligned(_HEAD + len(msgspec.msgpack.encode(entries)))
    for entry in entries:
        entry.start, at = at, _aligned(at + entry.size)
    told = msgspec.msgpack.encode(entries)
    with file.open("wb") as stream:
        stream.write(_MAGIC + len(told).to_bytes(8, "little") + told)
        for entry, array in zip(entries, plain.values(), strict=True):
            stream.write(bytes(entry.start - stream.tell()))
            stream.write(array.data if array.size else b"")
        stream.flush()
        # A name must not be there before its contents, whatever happens to the machine.
        os.fsync(stream.fileno())


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def _sizes(folder: Path) -> list[tuple[float, int, Path]]:
    found = []
    for place in folder.iterdir():
        with suppress(OSError):  # another process has just removed it
            status = place.stat()
            found.append((status.st_mtime, status.st_size, place))
    return found
