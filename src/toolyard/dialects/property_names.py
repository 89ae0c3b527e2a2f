"""Reversible property names for Anthropic, which refuses a whole request over one key like `filter[id]`.

Only the names at the root of an input schema are checked there, so only those are respelt. The spelling
is a function of the name alone; arguments are spelt back by the tool's own schema.
"""

from __future__ import annotations

import re
from typing import Any

from toolyard.dialects.changes import ChangeLog
from toolyard.dialects.wire_names import digest, readable
from toolyard.model import Schema

_ACCEPTED = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_READABLE_LENGTH = 47


def wire_key(name: str) -> str:
    """The name itself where Anthropic accepts it, else a readable part of it and a digest."""
    if _ACCEPTED.fullmatch(name):
        return name
    return f"{readable(name)[:_READABLE_LENGTH]}_{digest(name)}"


def spell_properties(schema: Schema, log: ChangeLog) -> Schema:
    """An object schema with accepted property names; each new one is logged."""
    properties: dict[str, Any] = schema["properties"]
    spelt = {name: wire_key(name) for name in properties if not _ACCEPTED.fullmatch(name)}
    for name in spelt:
        log.add(("properties", name), "respelt for Anthropic; arguments are spelt back")
    return _rename_properties(schema, spelt) if spelt else schema


def read_properties(original: Schema, schema: Schema) -> Schema:
    """A schema as `spell_properties` wrote it, under the names of the original again."""
    if not isinstance(schema.get("properties"), dict):
        return schema
    return _rename_properties(
        schema, {wire_key(name): name for name in original["properties"] if wire_key(name) != name}
    )


def _rename_properties(schema: Schema, names: dict[str, str]) -> Schema:
    out = {**schema, "properties": {names.get(name, name): sub for name, sub in schema["properties"].items()}}
    if isinstance(schema.get("required"), list):
        out["required"] = [names.get(name, name) for name in schema["required"]]
    return out


def spell_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the names that `spell_properties` gave them."""
    return {wire_key(name) if name in schema["properties"] else name: value for name, value in arguments.items()}


def read_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the schema's own names again; a name nobody issued stays as it is."""
    originals = {wire_key(name): name for name in schema["properties"]}
    return {originals.get(key, key): value for key, value in arguments.items()}
