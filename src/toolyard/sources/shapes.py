"""The shapes a catalog file may have, told apart without guessing.

shape 1   {weather_api: [tool, ...], hr_api: [...]}   namespaces to lists
shape 2   [tool, ...]                                  a bare list
shape 3   {get_weather: {...}, ...}                    names to definitions
          {namespace: weather_api, tools: [...]}       a list with its namespace beside it
          {name: get_weather, parameters: ...}         one tool
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.model.json_words import json_type, pointer_of

_CONTAINERS = ("tools", "functions", "functionDeclarations")
"""Keys under which other systems list their tools."""


class CatalogEntry(msgspec.Struct, frozen=True):
    """One definition in a file: what, where, and what the file says about its names."""

    raw: Any
    pointer: str
    namespace: str | None = None
    name: str | None = None


def entries(document: Any, where: str) -> Iterator[CatalogEntry]:
    """Every definition of a parsed catalog, in file order; `MalformedSource` for any other shape."""
    if isinstance(document, list):
        return _read_list(document, (), None)
    if not isinstance(document, dict):
        what = "is empty" if document is None else f"holds {json_type(document)}"
        raise MalformedSource(f"{what}; a catalog is a list of tools or a mapping", where=where)
    if _is_tool(document):
        return iter([CatalogEntry(document, "")])
    listed = next((key for key in _CONTAINERS if _holds_tools(document.get(key))), None)
    if listed is not None:
        return _read_container(document, listed, where)
    namespace = document.get("namespace")
    if isinstance(namespace, str):
        return _read_mapping({key: value for key, value in document.items() if key != "namespace"}, namespace, where)
    return _read_mapping(document, None, where)


def _holds_tools(value: Any) -> bool:
    """A list, or names to definitions; a mapping with a definition's own keys is a tool of that name."""
    if isinstance(value, list):
        return True
    if not isinstance(value, dict) or _is_tool(value) or value.keys() & {"parameters", "inputSchema", "input_schema"}:
        return False
    return all(isinstance(item, dict) for item in value.values())


def _is_tool(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("name"), str) or (value.get("type") == "function" and "function" in value)


def _read_container(document: dict[str, Any], key: str, where: str) -> Iterator[CatalogEntry]:
    namespace = document.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise MalformedSource(f"'namespace' must be text, not {json_type(namespace)}", where=where)
    extra = sorted(set(document) - {key, "namespace", "$schema", "version", "description", "nextCursor", "_meta"})
    if extra:
        raise MalformedSource(
            f"key {extra[0]!r} beside {key!r} means nothing; a catalog has namespace and {key}", where=where
        )
    tools = document[key]
    return _read_named(tools, (key,), namespace) if isinstance(tools, dict) else _read_list(tools, (key,), namespace)


def _read_mapping(document: dict[str, Any], namespace: str | None, where: str) -> Iterator[CatalogEntry]:
    kinds = {json_type(value) for value in document.values()}
    if kinds == {"object"}:
        yield from _read_named(document, (), namespace)
    elif kinds == {"array"}:
        for key, tools in document.items():
            yield from _read_list(tools, (key,), key)
    elif document:
        scalars = [key for key, value in document.items() if not isinstance(value, (dict, list))]
        odd = scalars[0] if scalars else next(reversed(document))
        raise MalformedSource(
            f"key {odd!r} holds {json_type(document[odd])}; a catalog maps namespaces to lists of tools, "
            "or tool names to definitions, not both",
            where=where,
        )


def _read_named(tools: dict[str, Any], path: tuple[str, ...], namespace: str | None) -> Iterator[CatalogEntry]:
    for name, raw in tools.items():
        yield CatalogEntry(raw, pointer_of((*path, name)), namespace, name)


def _read_list(tools: list[Any], path: tuple[str, ...], namespace: str | None) -> Iterator[CatalogEntry]:
    prefix = pointer_of(path)
    for index, raw in enumerate(tools):
        yield CatalogEntry(raw, f"{prefix}/{index}", namespace)
