"""Frames as the child reads and writes them: four bytes of length, then JSON."""

from __future__ import annotations

import os
from builtins import len, type  # noqa: A004 - a script may replace them, and still gets its answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CHUNK = 65536
_SAMPLE, _SAMPLE_TEXT = {"a": [1.5, None, "b", -2, True]}, '{"a":[1.5,null,"b",-2,true]}'


class _Reading:
    """How the scanner of the standard library is to read, without the module that asks it, which is slow to import."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _unknown(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _quick() -> tuple[Callable[[Any], str], Callable[[str], Any]] | None:
    """Writer and reader of the standard library, made once; None if this Python has others.

    The standard module makes a writer anew for every value, which costs more than a small value itself.
    """
    try:
        from _json import encode_basestring, make_encoder, make_scanner

        # Without markers a circle is a RecursionError instead of a ValueError.
        write = make_encoder(None, _unknown, encode_basestring, None, ":", ",", False, False, False)
        scan = make_scanner(_Reading)  # type: ignore[arg-type]
        join = "".join

        def encode(value: Any) -> str:
            return join(write(value, 0))

        def decode(text: str) -> Any:
            return scan(text, 0)[0]

        is_known = encode(_SAMPLE) == _SAMPLE_TEXT and decode(_SAMPLE_TEXT) == _SAMPLE
    except (ImportError, TypeError, ValueError, StopIteration):
        return None
    return (encode, decode) if is_known else None


def _standard() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    import json

    plain = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return plain.encode, json.JSONDecoder().decode


encode, _decode = _quick() or _standard()


def decode(text: str) -> dict[str, Any]:
    """The object of a frame."""
    frame: dict[str, Any] = _decode(text)
    return frame


def read(fd: int) -> dict[str, Any] | None:
    """The next frame; None at the end."""
    data = os.read(fd, _CHUNK)
    while 0 < len(data) < 4:
        data += _more(fd, 4 - len(data))
    if not data:
        return None
    size = int.from_bytes(data[:4], "big")
    if len(data) == size + 4:
        return decode(data[4:].decode())
    parts, missing = [data[4:]], size - len(data) + 4
    while missing > 0:
        parts.append(_more(fd, min(missing, _CHUNK * 16)))
        missing -= len(parts[-1])
    return decode(b"".join(parts).decode())


def write(fd: int, body: bytes) -> None:
    """Send a frame."""
    data = len(body).to_bytes(4, "big") + body
    sent = os.write(fd, data)
    while sent < len(data):
        sent += os.write(fd, data[sent : sent + _CHUNK])


def _more(fd: int, size: int) -> bytes:
    data = os.read(fd, size)
    if not data:
        os._exit(0)  # Whoever was sending is gone.
    return data
