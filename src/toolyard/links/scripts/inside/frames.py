"""Read and write frames in the child: four bytes of length, then JSON."""

from __future__ import annotations

import json
import os
from builtins import len  # noqa: A004 - a script may replace it, and still gets its answer
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 65536
_TEXTS = frozenset({"decimal", "fractions", "ipaddress", "uuid"})


def _convert_unknown(value: Any) -> Any:
    """Convert values that JSON cannot express, as for other Python tools. Detected by attributes, without imports."""
    kind = type(value)
    if kind.__module__ in _TEXTS:
        return str(value)
    for method in ("tolist", "isoformat", "__fspath__", "decode"):
        if hasattr(kind, method):
            return getattr(value, method)()
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__members__"):
        return value.value
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if hasattr(kind, "__iter__"):
        return dict(value) if hasattr(kind, "keys") else list(value)
    raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")


_Encoder = partial(json.JSONEncoder, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
encode = _Encoder().encode
encode_answer = _Encoder(default=_convert_unknown).encode
"""May run code of the script and hang, so it is not used for declarations."""
_decode = json.JSONDecoder().decode


def decode(text: str) -> dict[str, Any]:
    """Decode the object in a frame."""
    frame: dict[str, Any] = _decode(text)
    return frame


def read(fd: int) -> dict[str, Any] | None:
    """The next frame; None at the end of the stream."""
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
    """Write a frame."""
    data = len(body).to_bytes(4, "big") + body
    sent = os.write(fd, data)
    while sent < len(data):
        sent += os.write(fd, data[sent : sent + _CHUNK])


def _more(fd: int, size: int) -> bytes:
    data = os.read(fd, size)
    if not data:
        os._exit(0)  # the sender is gone
    return data
