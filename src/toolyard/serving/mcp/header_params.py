"""`x-mcp-header`: arguments that a request repeats in headers, so that whoever routes it need not read its body."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolyard.serving.mcp.json_rpc import HEADER_MISMATCH, RpcFault

_KEY = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TYPES = frozenset({"string", "integer", "boolean"})
_WRAPPED = re.compile(r"=\?base64\?(.*)\?=")
_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.0+)?")
_ONE = ("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties")
_ONE_SCHEMA = frozenset({*_ONE, "not", "if", "then", "else", "contentSchema"})
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_BY_NAME = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})


class HeaderParam(msgspec.Struct, frozen=True):
    """One argument, and the header that repeats it."""

    path: tuple[str, ...]
    header: bytes
    """Lower case, as headers are read."""
    name: str
    is_integer: bool


def find_header_params(schema: Mapping[str, Any]) -> tuple[HeaderParam, ...]:
    """The arguments of a tool that headers repeat; none if one of its annotations is not valid.

    Clients leave out a tool with an annotation that is not valid, so nobody can be expected to send its headers.
    """
    found: dict[bytes, HeaderParam] = {}
    for path, place in _walk_schemas(schema):
        if _KEY not in place:
            continue
        name, kind = place[_KEY], place.get("type")
        if not path or type(name) is not str or not _TOKEN.fullmatch(name) or type(kind) is not str:
            return ()
        header = f"mcp-param-{name.lower()}".encode()
        if kind not in _TYPES or header in found:
            return ()
        found[header] = HeaderParam(path, header, f"Mcp-Param-{name}", kind == "integer")
    return tuple(found.values())


def _walk_schemas(root: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...] | None, Mapping[str, Any]]]:
    """Every schema in a schema, with the way to it where that leads through properties alone."""
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while waiting:
        path, place = waiting.pop()
        if not isinstance(place, dict):
            continue
        yield path, place
        for key, value in place.items():
            if key == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, name), sub) for name, sub in value.items()]
            elif key in _ONE_SCHEMA:
                waiting.append((None, value))
            elif key in _SCHEMAS and isinstance(value, list):
                waiting += [(None, sub) for sub in value]
            elif key in _BY_NAME and isinstance(value, dict):
                waiting += [(None, sub) for sub in value.values()]


def check_header_params(
    wanted: tuple[HeaderParam, ...], arguments: Mapping[str, Any], headers: list[tuple[bytes, bytes]]
) -> None:
    """Refuse a request whose headers do not say what its arguments say."""
    for each in wanted:
        given = [value for name, value in headers if name == each.header]
        if len(given) > 1:
            raise _mismatch(f"{each.name} is there more than once")
        shown = _header_text(_find_value(arguments, each.path))
        argument = ".".join(each.path)
        if shown is None:
            if given:
                raise _mismatch(f"{each.name} is there, but nothing it could repeat at {argument!r}")
            continue
        if not given:
            raise _mismatch(f"{each.name} is missing; it must repeat the argument {argument!r}")
        said = decode_header(given[0])
        if said is None:
            raise _mismatch(f"{each.name} is not valid base64 of UTF-8")
        if said != shown and not (
            each.is_integer and _normal_int(said) is not None and _normal_int(said) == _normal_int(shown)
        ):
            raise _mismatch(f"{each.name} does not say what the argument {argument!r} says")


def decode_header(header: bytes) -> str | None:
    """The text a header stands for; None if it is not spelt as it must be."""
    text = header.strip(b" \t").decode("latin-1")
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is None:
        return text
    try:
        raw = base64.b64decode(wrapped[1], validate=True)
        # Two spellings of one value would let two readers disagree.
        return raw.decode() if base64.b64encode(raw).decode() == wrapped[1] else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _find_value(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(key)
    return arguments


def _header_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:
        # More digits than the interpreter is willing to write.
        return None


def _normal_int(text: str) -> str | None:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    sign, digits = ("-", found[1][1:]) if found[1].startswith("-") else ("", found[1])
    digits = digits.lstrip("0") or "0"
    return digits if digits == "0" else sign + digits


def _mismatch(text: str) -> RpcFault:
    return RpcFault(HEADER_MISMATCH, text)
