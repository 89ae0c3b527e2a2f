"""The config as JSON Schema, for editors: read off the plugins that are installed here."""

from __future__ import annotations

import inspect
import typing
from typing import Any

from toolyard.app.build import WIRED
from toolyard.app.sessions_block import SESSIONS_SCHEMA
from toolyard.calls.policy import POLICY_SCHEMA
from toolyard.calls.tracing import TRACING_SCHEMA
from toolyard.model.errors import PluginError
from toolyard.plugins import ENGINES, ENRICHMENTS, LOADERS, PluginTable
from toolyard.plugins.table import parameters_of

_NOT_FROM_A_FILE = frozenset({*WIRED, "engines", "sources", "bindings", "default"})
_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_]", "description": "Replaced from the environment."}


def config_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a config file, with the options of every loader, engine and enrichment."""
    sources = {"type": "array", "items": _one_of(LOADERS, engine=True)}
    tools = {
        "type": "object",
        "additionalProperties": False,
        "required": ["registry"],
        "properties": {
            "registry": {**sources, "description": "Where tools come from, in order."},
            "engines": {
                "type": "object",
                "additionalProperties": _one_of(ENGINES),
                "description": "Ways of answering calls, by a name that sources may give as their engine.",
            },
            "enrichments": {"type": "array", "items": _one_of(ENRICHMENTS)},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "toolyard config",
        "type": "object",
        "additionalProperties": False,
        "required": ["tools"],
        "properties": {
            "tools": {"anyOf": [tools, sources]},
            "sessions": SESSIONS_SCHEMA,
            "policy": POLICY_SCHEMA,
            "tracing": TRACING_SCHEMA,
            "server": {"type": "object"},
        },
    }


def _one_of(table: PluginTable[Any], *, engine: bool = False) -> dict[str, Any]:
    """Any plugin of a kind; once the type is known, exactly its options."""
    cases = []
    for name in table.names():
        try:
            cls = table.get(name)
        except PluginError:
            continue  # listed in the table's problems; it cannot be used here either
        cases.append({"if": {"properties": {"type": {"const": name}}}, "then": _options(name, cls, engine)})
    kind = {"type": "object", "required": ["type"]}
    if not cases:
        return {**kind, "properties": {"type": {"type": "string"}}}
    return {**kind, "properties": {"type": {"enum": table.names()}}, "allOf": cases}


def _options(name: str, cls: type, engine: bool) -> dict[str, Any]:
    parameters = parameters_of(cls)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    hints = _hints(cls)
    properties: dict[str, Any] = {"type": {"const": name}}
    if engine:
        properties["engine"] = {"type": "string", "description": "A name under tools.engines."}
    required = ["type"]
    for parameter in parameters.values():
        if parameter.name in _NOT_FROM_A_FILE or parameter.kind is parameter.VAR_KEYWORD:
            continue
        properties[parameter.name] = _value(hints.get(parameter.name, Any), parameter)
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
    closed = {} if open_ended else {"additionalProperties": False}
    return {"properties": properties, "required": required, **closed, "description": inspect.getdoc(cls) or ""}


def _value(annotation: Any, parameter: inspect.Parameter) -> dict[str, Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema = TypeAdapter(annotation).json_schema()
    except (PydanticUserError, TypeError, NameError):
        schema = {}
    if parameter.default is not inspect.Parameter.empty and isinstance(parameter.default, str | int | float | bool):
        schema = {**schema, "default": parameter.default}
    # Numbers and choices may also be written as a variable.
    return {"anyOf": [schema, _VARIABLE]} if schema.get("type") != "string" and schema else schema


def _hints(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        try:
            found.update(typing.get_type_hints(init))
        except (NameError, TypeError):
            continue  # an annotation that only type checkers can resolve says nothing here
    return found
