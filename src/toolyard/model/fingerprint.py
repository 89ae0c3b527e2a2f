"""Canonical hashes: equal for schemas that differ only in how they were written down.

Key order and the order of `required`, `enum` and `type` lists do not matter; everything else,
descriptions included, does. Integral floats equal integers, as they do in JSON Schema.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from toolyard.model.json_words import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES

_encode = msgspec.json.Encoder(order="deterministic").encode


def fingerprint(schema: dict[str, Any] | bool) -> str:
    """Hex SHA-256 of the canonical form of a schema."""
    return hashlib.sha256(_encode(canonical(schema))).hexdigest()


def digest(*parts: object) -> str:
    """Hex SHA-256 over plain JSON values, each in canonical form."""
    return hashlib.sha256(_encode(_data(list(parts)))).hexdigest()


def canonical(schema: Any) -> Any:
    """The schema with set-like lists sorted; the encoder sorts the keys."""
    if not isinstance(schema, dict):
        return _data(schema)
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            out[key] = {name: canonical(sub) for name, sub in value.items()}
        elif key in SCHEMA_LISTS and isinstance(value, list):
            out[key] = [canonical(sub) for sub in value]
        elif key in SCHEMA_SINGLES:
            out[key] = [canonical(sub) for sub in value] if isinstance(value, list) else canonical(value)
        elif key in ("required", "enum", "type") and isinstance(value, list):
            out[key] = value[0] if key == "type" and len(value) == 1 else sorted(map(_data, value), key=_encode)
        else:
            out[key] = _data(value)
    return out


def _data(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_data(item) for item in value]
    return value
