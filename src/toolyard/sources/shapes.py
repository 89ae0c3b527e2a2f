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
from toolyard.schema.violations import json_type, pointer_of


class Entry(msgspec.Struct, frozen=True):
    """One definition in a file: what, where, and what the file says about its names."""

    raw: Any
    pointer: str
    namespace: str | None = None
    name: str | None = None


def entries(document: Any, where: str) -> Iterator[Entry]:
    """Every definition of a parsed catalog, in file order; `MalformedSource` for any other shape."""
    if isinstance(document, list):
        return _listed(document, (), None)
    if not isinstance(document, dict):
        what = "is empty" if document is None else f"holds {json_type(document)}"
        raise MalformedSource(f"{what}; a catalog is a list of tools or a mapping", where=where)
    if _is_tool(document):
        return iter([Entry(document, "")])
    if isinstance(document.get("tools"), (list, dict)) and not _is_tool(document["tools"]):
        return _container(document, where)
    return _mapping(document, where)


def _is_tool(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("name"), str) or (value.get("type") == "function" and "function" in value)


def _container(document: dict[str, Any], where: str) -> Iterator[Entry]:
    namespace = document.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise MalformedSource(f"'namespace' must be text, not {json_type(namespace)}", where=where)
    extra = sorted(set(document) - {"namespace", "tools", "$schema", "version", "description", "nextCursor", "_meta"})
    if extra:
        raise MalformedSource(
            f"key {extra[0]!r} beside 'tools' means nothing; a catalog has namespace and tools", where=where
        )
    tools = document["tools"]
    if isinstance(tools, dict):
        return _named(tools, ("tools",), namespace)
    return _listed(tools, ("tools",), namespace)


def _mapping(document: dict[str, Any], where: str) -> Iterator[Entry]:
    kinds = {json_type(value) for value in document.values()}
    if kinds == {"object"}:
        yield from _named(document, (), None)
    elif kinds == {"array"}:
        for namespace, tools in document.items():
            yield from _listed(tools, (namespace,), namespace)
    elif document:
        scalars = [key for key, value in document.items() if not isinstance(value, (dict, list))]
        odd = scalars[0] if scalars else next(reversed(document))
        raise MalformedSource(
            f"key {odd!r} holds {json_type(document[odd])}; a catalog maps namespaces to lists of tools, "
            "or tool names to definitions, not both",
            where=where,
        )


def _named(tools: dict[str, Any], path: tuple[str, ...], namespace: str | None) -> Iterator[Entry]:
    for name, raw in tools.items():
        yield Entry(raw, pointer_of((*path, name)), namespace, name)


def _listed(tools: list[Any], path: tuple[str, ...], namespace: str | None) -> Iterator[Entry]:
    prefix = pointer_of(path)
    for index, raw in enumerate(tools):
        yield Entry(raw, f"{prefix}/{index}", namespace)
