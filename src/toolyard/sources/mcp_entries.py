"""One entry of `tools/list` -> a `Tool`. Nothing a server says can reach beyond its own namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from toolyard.dialects.mcp import hinted_effects
from toolyard.dialects.mcp_wrapping import plain_output
from toolyard.model.bindings import McpBinding, McpServer
from toolyard.model.errors import DefinitionError
from toolyard.model.json_words import json_type
from toolyard.model.keywords import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES
from toolyard.model.names import show
from toolyard.model.tool import Tool
from toolyard.schema.normalise import Change

HEADER = "x-mcp-header"
_FIELDS = frozenset({"name", "description", "inputSchema", "outputSchema"})
_MIRRORABLE = ("string", "integer", "boolean")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEEPEST = 100
_encode = msgspec.json.Encoder().encode

Path = tuple[str, ...]


def read_entry(raw: Any, *, namespace: str, source: str, server: McpServer) -> tuple[Tool, list[Change]]:
    """The tool, and what was read otherwise than written; `DefinitionError` says why it is none.

    Title, icons, annotations, `_meta` and whatever else the server says go to `metadata`, as they are.
    """
    if not isinstance(raw, dict):
        raise DefinitionError(f"a tool must be an object, not {json_type(raw)}")
    name, description = raw.get("name"), raw.get("description")
    if not isinstance(name, str):
        raise DefinitionError("a tool needs a 'name'" if name is None else f"'name' must be text, not {show(name)}")
    if description is not None and not isinstance(description, str):
        raise DefinitionError(f"'description' must be text, not {json_type(description)}")
    changes: list[Change] = []
    given, answer = _input(raw, changes), _output(raw, changes)
    annotations = raw.get("annotations")
    tool = Tool(
        name,
        namespace,
        description or "",
        given,
        answer,
        {key: value for key, value in raw.items() if key not in _FIELDS},
        effects=hinted_effects(annotations if isinstance(annotations, dict) else {}),
        source=source,
        binding=McpBinding(server.name, name, server, _mirrored(given)),
    )
    return tool, changes


def _input(raw: dict[str, Any], changes: list[Change]) -> Any:
    schema = raw.get("inputSchema")
    if schema is None:
        changes.append(Change("/inputSchema", "missing; read as one that allows anything"))
        return {}
    if not isinstance(schema, dict):
        raise DefinitionError(f"'inputSchema' must be an object, not {json_type(schema)}")
    return schema


def _output(raw: dict[str, Any], changes: list[Change]) -> Any:
    schema = raw.get("outputSchema")
    if schema is None:
        return {}
    if not isinstance(schema, dict):
        raise DefinitionError(f"'outputSchema' must be an object, not {json_type(schema)}")
    plain = plain_output(schema)
    if plain is None:
        return schema
    changes.append(Change("/outputSchema", "taken out of the wrapper 'result', and so are the values"))
    return plain


def _mirrored(schema: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Arguments that are repeated in headers; a rule broken there is the tool's end, as the protocol wants it."""
    try:
        if HEADER.encode() not in _encode(schema):
            return ()
    except (TypeError, ValueError, RecursionError):
        return ()  # what is wrong with the schema is said by who admits it
    found: dict[str, tuple[str, str]] = {}
    for path, node in _nodes(schema, (), 0):
        if HEADER not in node:
            continue
        header = node[HEADER]
        if not path:
            raise DefinitionError(f"{HEADER} is allowed on properties only, not inside of other keywords")
        where = ".".join(path)
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise DefinitionError(f"{HEADER} of {show(where)} is no name of a header")
        if node.get("type") not in _MIRRORABLE:
            raise DefinitionError(f"{HEADER} of {show(where)}: only text, integers and booleans fit into a header")
        if header.lower() in found:
            raise DefinitionError(f"{HEADER} {show(header)} stands for two arguments")
        if len(path) > 1 and any("." in part for part in path):
            raise DefinitionError(f"{HEADER} of {show(where)}: a dot in the name of a nested argument")
        found[header.lower()] = (where, header)
    return tuple(found.values())


def _nodes(schema: Any, path: Path | None, depth: int) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every place of a schema where a keyword may stand, with the arguments that lead there by properties alone."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    yield path, schema
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            for name, sub in value.items():
                below = (*path, name) if key == "properties" and path is not None else None
                yield from _nodes(sub, below, depth + 1)
        elif key in SCHEMA_LISTS and isinstance(value, list):
            for sub in value:
                yield from _nodes(sub, None, depth + 1)
        elif key in SCHEMA_SINGLES:
            for sub in value if isinstance(value, list) else [value]:
                yield from _nodes(sub, None, depth + 1)
