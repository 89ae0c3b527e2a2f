"""Infer output schemas from recorded results: types only, none of the values."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolyard.model.errors import ConfigError, MalformedSource, SourceError
from toolyard.model.json_schema import json_type
from toolyard.model.tool import Schema, Tool
from toolyard.parsing import iter_json_lines, parse_json, parse_yaml, read_bytes

_SQLITE = (".db", ".sqlite", ".sqlite3")
_YAML = (".yaml", ".yml")
_JSONL = (".jsonl", ".ndjson")
_MOST_EXAMPLES = 200
"""Maximum number of results used per tool."""
_MOST_ITEMS = 50
_MOST_PROPERTIES = 200
_MOST_LEVELS = 12
_MAX_BYTES = 1024 * 1024 * 1024
_FORMATS = (
    ("date-time", re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?")),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("uuid", re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")),
    ("email", re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")),
    ("uri", re.compile(r"[a-z][a-z0-9+.-]*://\S+")),
)


class Example(msgspec.Struct, frozen=True):
    """A recorded result and its call."""

    name: str
    result: Any
    arguments: Mapping[str, Any] = {}
    overload: str | None = None


def read_examples(results: str | Path | Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """Iterate over the successful results of a cassette, a trace, a list, or the file of an SQLite session store."""
    if not isinstance(results, str | Path):
        for place, item in enumerate(results):
            yield from _read_example(item, f"results[{place}]")
        return
    path = Path(results).expanduser()
    if not path.is_file():
        raise ConfigError(f"results: there is no file {path}")
    suffix = path.suffix.lower()
    if suffix in _SQLITE:
        yield from _from_sessions(path)
        return
    data = read_bytes(path, max_bytes=_MAX_BYTES)
    if suffix in _JSONL:
        for number, line in iter_json_lines(data):
            yield from _read_example(parse_json(line, what=f"{path}:{number}"), f"{path}:{number}")
        return
    if suffix not in (*_YAML, ".json"):
        raise ConfigError(f"results: {path} must end in .jsonl, .json, .yaml, or .db, which say how it is written")
    items = (parse_yaml if suffix in _YAML else parse_json)(data, what=str(path))
    if not isinstance(items, list):
        raise MalformedSource("recorded results are a list", where=str(path))
    for place, item in enumerate(items):
        yield from _read_example(item, f"{path}[{place}]")


def _read_example(item: Any, where: str) -> Iterator[Example]:
    """Read a cassette entry, a trace event or a session entry; yields nothing for a failed call."""
    if not isinstance(item, Mapping):
        raise MalformedSource(f"a recorded result is a mapping, not {json_type(item)}", where=where)
    call, output = item.get("tool_call", item), item.get("tool_output", item)
    name = call.get("name") if isinstance(call, Mapping) else None
    if not isinstance(name, str) or not isinstance(output, Mapping):
        raise MalformedSource("a recorded result needs the 'name' of its tool, and a 'result'", where=where)
    if "result" not in output or any(output.get(key) is not None for key in ("error", "error_info", "code", "fault")):
        return
    arguments = call.get("arguments")
    overload = call.get("overload")
    yield Example(
        name,
        output["result"],
        arguments if isinstance(arguments, Mapping) else {},
        overload if isinstance(overload, str) else None,
    )


def _from_sessions(path: Path) -> Iterator[Example]:
    from toolyard.sessions.store.base import Key
    from toolyard.sessions.store.sqlite import SqliteStore

    try:
        store = SqliteStore(path)
    except sqlite3.Error as error:
        raise SourceError(f"results: {path}: {error}") from error
    try:
        for info in store.sessions():
            stored = store.load(Key(info.owner, info.session_id))
            for kept in () if stored is None else stored.entries:
                yield from _read_example(msgspec.json.decode(kept.entry), f"{path}, session {info.session_id}")
    finally:
        store.close()


def group_by_tool(tools: Sequence[Tool], examples: Iterable[Example]) -> dict[int, list[Any]]:
    """Group results by tool index. A bare name counts only if it is unambiguous."""
    places: dict[str, list[int]] = {}
    for place, tool in enumerate(tools):
        for name in (tool.qualified_name, tool.name):
            places.setdefault(name, []).append(place)
    found: dict[int, list[Any]] = {}
    for example in examples:
        for place in _resolve_tool(tools, places.get(example.name, []), example):
            results = found.setdefault(place, [])
            if len(results) < _MOST_EXAMPLES:
                results.append(example.result)
    return found


def _resolve_tool(tools: Sequence[Tool], places: Sequence[int], example: Example) -> Sequence[int]:
    if len({tools[place].qualified_name for place in places}) > 1:
        return ()
    if len(places) < 2:
        return places
    if example.overload is not None:
        return [place for place in places if tools[place].fingerprint.startswith(example.overload)]
    taking = [place for place in places if example.arguments.keys() <= _list_parameters(tools[place])]
    return taking if len(taking) == 1 else ()


def _list_parameters(tool: Tool) -> set[str]:
    properties = tool.parameters.get("properties")
    return set(properties) if isinstance(properties, dict) else set()


def infer_schema(values: Sequence[Any], level: int = 0) -> Schema:
    """Infer a schema that all values match; mixed types and null are listed in `type`."""
    kinds = {json_type(value) for value in values}
    nullable = "null" in kinds
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if not kinds or level >= _MOST_LEVELS:
        return {}
    if len(kinds) > 1:
        plain = not kinds & {"object", "array"}
        return {"type": sorted(kinds | ({"null"} if nullable else set()))} if plain else {}
    (kind,) = kinds
    made: dict[str, Any] = {"type": [kind, "null"] if nullable else kind}
    present = [value for value in values if value is not None]
    if kind == "object":
        properties = _infer_properties(present, level)
        if properties:
            made["properties"] = properties
    elif kind == "array":
        items = infer_schema([item for value in present for item in value[:_MOST_ITEMS]], level + 1)
        if items:
            made["items"] = items
    elif kind == "string":
        forms = [name for name, pattern in _FORMATS if all(map(pattern.fullmatch, present))]
        made |= {"format": forms[0]} if forms else {}
    return made


def _infer_properties(values: Sequence[dict[str, Any]], level: int) -> dict[str, Schema]:
    seen: dict[str, list[Any]] = {}
    for value in values:
        for key, item in value.items():
            if isinstance(key, str):
                seen.setdefault(key, []).append(item)
    if len(seen) > _MOST_PROPERTIES:
        return {}  # the keys are data, such as ids or dates
    return {key: infer_schema(items, level + 1) for key, items in seen.items()}
