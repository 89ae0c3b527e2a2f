"""Reversible property names for Anthropic, which refuses a whole request over one key like `filter[id]`.

Only the names at the root of an input schema are checked there, so only those are respelt. The spelling
is a function of the name alone; arguments are spelt back by the tool's own schema.
"""

from __future__ import annotations

import re
from typing import Any

from toolyard.dialects.wire_names import digest, readable
from toolyard.model import Schema

_ACCEPTED = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_READABLE_LENGTH = 47


def wire_key(name: str) -> str:
    """The name itself where Anthropic accepts it, else a readable part of it and a digest."""
    if _ACCEPTED.fullmatch(name):
        return name
    return f"{readable(name)[:_READABLE_LENGTH]}_{digest(name)}"


def spell_properties(schema: Schema) -> Schema:
    """An object schema with accepted property names."""
    properties: dict[str, Any] = schema["properties"]
    if all(map(_ACCEPTED.fullmatch, properties)):
        return schema
    out = {**schema, "properties": {wire_key(name): sub for name, sub in properties.items()}}
    if isinstance(schema.get("required"), list):
        out["required"] = [wire_key(name) if name in properties else name for name in schema["required"]]
    return out


def spell_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the names that `spell_properties` gave them."""
    return {wire_key(name) if name in schema["properties"] else name: value for name, value in arguments.items()}


def read_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the schema's own names again; a name nobody issued stays as it is."""
    originals = {wire_key(name): name for name in schema["properties"]}
    return {originals.get(key, key): value for key, value in arguments.items()}
