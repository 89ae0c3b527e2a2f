"""The few messages of an ONNX file that the graph of a model needs, written as protocol buffers.

The package `onnx` writes them too, and takes 30 MB for a file that is written once (docs/decisions/011).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_IR_VERSION = 10
_FLOAT = 1
_INT64 = 7
_TENSOR_TYPES = {np.dtype(np.float32): _FLOAT, np.dtype(np.int8): 3, np.dtype(np.int64): _INT64}
_FLOAT_ATTRIBUTE = 1
_INT_ATTRIBUTE = 2
_CHUNK = 2
"""The wire type of what has a length: text, bytes and messages."""
_FIXED32 = 5


def encode_node(kind: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str, **options: float) -> bytes:
    """One operator."""
    attributes = [_encode_attribute(name, value) for name, value in options.items()]
    return _encode_message((1, inputs), (2, outputs), (4, kind), (5, attributes), (7, domain))


def encode_tensor(name: str, array: NDArray[Any]) -> bytes:
    """One constant, in the order of C."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return _encode_message((1, array.shape), (2, _TENSOR_TYPES[array.dtype]), (8, name), (9, little.tobytes()))


def encode_model(
    nodes: Sequence[bytes],
    constants: Sequence[bytes],
    *,
    ids: str,
    vector: str,
    width: int,
    opsets: Mapping[str, int],
) -> bytes:
    """A whole file: one row of token ids in, one vector of that width out."""
    given = _encode_value(ids, _INT64, 1, "tokens")
    made = _encode_value(vector, _FLOAT, 1, width)
    graph = _encode_message((1, nodes), (2, "sentence"), (5, constants), (11, given), (12, made))
    versions = [_encode_message((1, domain), (2, version)) for domain, version in opsets.items()]
    return _encode_message((1, _IR_VERSION), (7, graph), (8, versions))


def _encode_attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _encode_message((1, name), (3, value), (20, _INT_ATTRIBUTE))
    return _encode_message((1, name), (2, value), (20, _FLOAT_ATTRIBUTE))


def _encode_value(name: str, element: int, *shape: int | str) -> bytes:
    sizes = [_encode_message((2 if isinstance(size, str) else 1, size)) for size in shape]
    tensor = _encode_message((1, element), (2, _encode_message((1, sizes))))
    return _encode_message((1, name), (2, _encode_message((1, tensor))))


def _encode_message(*fields: tuple[int, Any]) -> bytes:
    """Numbered fields; one with several values is written once for each."""
    parts: list[bytes] = []
    for number, value in fields:
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int):
                parts += _encode_varint(number << 3), _encode_varint(one)
            elif isinstance(one, float):
                parts += _encode_varint(number << 3 | _FIXED32), struct.pack("<f", one)
            else:
                chunk = one.encode() if isinstance(one, str) else one
                parts += _encode_varint(number << 3 | _CHUNK), _encode_varint(len(chunk)), chunk
    return b"".join(parts)


def _encode_varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; every byte but the last has its top bit set."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
