"""Words about JSON that several floors say: pointers, type names, keywords of schemas, names near a misspelt one."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from typing import Any

from toolyard.constants import TOOL_NAMESPACE_SEP

_COMPARED = 500
"""A full comparison takes seconds in a large catalog; this many are picked for it by shared letters."""
_COMPARED_LENGTH = 200


def pointer_of(path: Iterable[str | int]) -> str:
    """RFC 6901 pointer of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def json_type(value: object) -> str:
    """The JSON Schema name of a value's type, or its Python name if it has none."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def copied(value: Any) -> Any:
    """A copy of a JSON value that may be changed without changing the original."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def nearest(name: object, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Known words that a misspelt one may have meant, the best first; a very long one is compared by its beginning."""
    return difflib.get_close_matches(str(name)[:_COMPARED_LENGTH], list(known), n=count, cutoff=cutoff)


def suggest(name: object, known: Iterable[str], otherwise: str = "known: ") -> str:
    """The end of an error about a name that is none: the nearest, or after `otherwise` all there are."""
    names = list(known)
    near = nearest(name, names)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise}{', '.join(names) or 'none'}"


def closest(name: str, names: Iterable[str], *, count: int = 3) -> list[str]:
    """Known qualified names that a misspelt name, qualified or bare, may have meant; the best first."""
    wanted = name[:_COMPARED_LENGTH].lower()
    pool = list(names)
    if len(pool) > _COMPARED:
        pieces = {wanted[at : at + 3] for at in range(max(1, len(wanted) - 2))}
        pool = heapq.nlargest(_COMPARED, pool, key=lambda known: sum(map(known.lower().__contains__, pieces)))
    spelt: dict[str, list[str]] = {}
    for known in pool:
        for spelling in (known, known.rpartition(TOOL_NAMESPACE_SEP)[2], known.replace(TOOL_NAMESPACE_SEP, "__")):
            spelt.setdefault(spelling.lower(), []).append(known)
    same_bare_name = spelt.get(wanted.rpartition(TOOL_NAMESPACE_SEP)[2], [])
    near = nearest(wanted, spelt, count=count)
    return list(dict.fromkeys([*same_bare_name, *(known for match in near for known in spelt[match])]))[:count]


SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps free names to subschemas."""

SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of subschemas."""

SCHEMA_SINGLES = frozenset(
    {
        "additionalProperties",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
        "propertyNames",
        "contains",
        "contentSchema",
        "items",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Keywords whose value is one subschema (`items` may also be a list in older drafts)."""

IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
    | {"$ref", "$dynamicRef", "$recursiveRef"}
)
"""Keywords whose subschemas judge the same value again, and so can multiply the work."""

JSON_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
