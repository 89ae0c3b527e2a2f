"""JSON text to arguments in one pass: parsed and validated at once, for schemas simple enough to be a type.

A schema of typed properties, enums, bounds, arrays and nested objects is also a `TypedDict` to msgspec, which
checks it while parsing. What it accepts the schema accepts (`tests/schema/test_typed_json.py` holds it to that);
what it refuses, or any text from which it may have dropped a key, is left to the validator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict, Union

import msgspec

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "format"})
_SIZES = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_SMALL = 2**53
_MAX_LENGTH = 400
"""A text of so many characters cannot nest deeper than strict JSON may."""

_encode = msgspec.json.Encoder().encode


class _NotATypeError(Exception):
    """The schema says something that no type can."""


def exact_decoder(schema: dict[str, Any]) -> Callable[[bytes | str], dict[str, Any]] | None:
    """Reads arguments from JSON text and raises where they do not fit; None if the schema is no type.

    It drops keys that the schema does not declare: whoever uses it compares what comes out with what went in.
    """
    if schema.get("type") != "object" or "properties" not in schema:
        return None
    try:
        return msgspec.json.Decoder(_type_of_schema(schema)).decode
    except (_NotATypeError, TypeError, ValueError, RecursionError):
        return None


def typed_decoder(schema: dict[str, Any]) -> Callable[[str], dict[str, Any] | None] | None:
    """A reader of short argument texts, or None if the schema is no type.

    The reader gives the arguments, or None where only the validator can tell.
    """
    decode = exact_decoder(schema)
    if decode is None:
        return None
    objects = tuple(name for name, sub in schema["properties"].items() if not sub or "properties" in sub)

    def read(text: str) -> dict[str, Any] | None:
        if len(text) > _MAX_LENGTH:
            return None
        try:
            value: dict[str, Any] = decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return None
        keys = len(value)
        for name in objects:
            inner = value.get(name)
            if type(inner) is dict:
                keys += len(inner)
        # Each key has a colon behind it: no more colons than keys means that none was repeated or unknown.
        return value if text.count(":") == keys or _keeps_quotes(text, value) else None

    return read


def _keeps_quotes(text: str, value: dict[str, Any]) -> bool:
    """The same proof by the quotes around keys, for a text with colons in its strings."""
    return "\\u" not in text and text.count('"') == _encode(value).count(b'"')


def _type_of_schema(schema: Any) -> Any:
    if not isinstance(schema, dict):
        raise _NotATypeError
    known = schema.keys() - _ANNOTATIONS
    if not known:
        return Any
    if "enum" in known or "const" in known:
        return _choice_type(schema, known)
    kind = schema.get("type")
    if known == {"anyOf"} and schema["anyOf"]:
        return Union[tuple(map(_type_of_schema, schema["anyOf"]))]  # noqa: UP007 - built at run time
    if known == {"type"} and isinstance(kind, list) and kind:
        return Union[tuple(_type_of_schema({"type": name}) for name in kind)]  # noqa: UP007
    build = _BUILDERS.get(kind) if isinstance(kind, str) else None
    if build is None:
        raise _NotATypeError
    return build(schema, known - {"type"})


def _choice_type(schema: dict[str, Any], known: set[str]) -> Any:
    values = schema["enum"] if "enum" in known else [schema["const"]]
    wanted = {"string": str, "integer": int}.get(schema.get("type", ""))
    if wanted is None or known - {"enum", "const", "type"} or known >= {"enum", "const"}:
        raise _NotATypeError
    if not values or any(type(value) is not wanted for value in values):
        raise _NotATypeError
    return Literal[tuple(values)]


def _object_type(schema: dict[str, Any], known: set[str]) -> Any:
    if known - {"properties", "required", "additionalProperties"}:
        raise _NotATypeError
    # Whatever additionalProperties says: a text with further keys is never decided here.
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not set(required) <= properties.keys():
        raise _NotATypeError
    fields = {
        name: Required[_type_of_schema(sub)] if name in required else NotRequired[_type_of_schema(sub)]
        for name, sub in properties.items()
    }
    return TypedDict("Arguments", fields)  # type: ignore[operator]


def _array_type(schema: dict[str, Any], known: set[str]) -> Any:
    sizes = _read_sizes(schema, known - {"items"}, "array")
    return _limit_type(list[_type_of_schema(schema.get("items", {}))], sizes)  # type: ignore[misc]


def _string_type(schema: dict[str, Any], known: set[str]) -> Any:
    return _limit_type(str, _read_sizes(schema, known, "string"))


def _integer_type(schema: dict[str, Any], known: set[str]) -> Any:
    limits: dict[str, int] = {}
    for keyword in known:
        bound = schema[keyword]
        if keyword not in _BOUNDS or type(bound) is not int or abs(bound) > _SMALL:
            raise _NotATypeError
        limits[_BOUNDS[keyword]] = bound
    return _limit_type(int, limits)


def _make_bare_type(kind: Any) -> Callable[[dict[str, Any], set[str]], Any]:
    def build(schema: dict[str, Any], known: set[str]) -> Any:
        if known:
            raise _NotATypeError
        return kind

    return build


def _read_sizes(schema: dict[str, Any], known: set[str], kind: str) -> dict[str, int]:
    least, most = _SIZES[kind]
    if known - {least, most} or any(type(schema[keyword]) is not int for keyword in known):
        raise _NotATypeError
    names = {least: "min_length", most: "max_length"}
    return {names[keyword]: schema[keyword] for keyword in known}


def _limit_type(kind: Any, limits: dict[str, int]) -> Any:
    meta: Any = msgspec.Meta
    return Annotated[kind, meta(**limits)] if limits else kind


_BUILDERS: dict[str, Callable[[dict[str, Any], set[str]], Any]] = {
    "object": _object_type,
    "array": _array_type,
    "string": _string_type,
    "integer": _integer_type,
    "number": _make_bare_type(int | float),
    "boolean": _make_bare_type(bool),
    "null": _make_bare_type(None),
}
