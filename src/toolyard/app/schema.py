"""The JSON Schema of configs, for editors, generated from the installed plugins."""

from __future__ import annotations

import inspect
from typing import Any

from toolyard.app.blocks import MEMORY, ServerBlock, SessionsBlock
from toolyard.app.config import common_options, list_wired_options, options_of_store, plugin_options, store_names
from toolyard.calls.policy import PolicyOptions
from toolyard.calls.tracer import TracingOptions
from toolyard.model.errors import PluginError
from toolyard.plugins import ENGINES, ENRICHMENTS, LOADERS, PluginTable, parameters_of
from toolyard.schema.options_schema import option_schema, options_schema
from toolyard.sessions.state import EXECUTIONS, SETUP

VARIABLE_DESCRIPTION = "Replaced from the environment."
_HAS_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_]", "description": VARIABLE_DESCRIPTION}
_IS_VARIABLE = {
    "type": "string",
    "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}$",
    "description": VARIABLE_DESCRIPTION,
}


def config_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a config file, with the options of every loader, engine and enrichment."""
    sources = {"type": "array", "items": _plugins_schema(LOADERS, engine=True)}
    tools = {
        "type": "object",
        "additionalProperties": False,
        "required": ["registry"],
        "properties": {
            "registry": {**sources, "description": "Where tools come from, in order."},
            "engines": {
                "type": ["object", "null"],
                "propertyNames": {"minLength": 1, "not": {"enum": [EXECUTIONS, SETUP]}},
                "additionalProperties": _plugins_schema(ENGINES),
                "description": "Ways of answering calls, by a name that sources may give as their engine.",
            },
            "enrichments": {
                "type": ["array", "null"],
                "items": _plugins_schema(ENRICHMENTS),
                "description": "What is learned about the tools once they are loaded.",
            },
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "toolyard config",
        "type": "object",
        "additionalProperties": False,
        "required": ["tools"],
        "properties": {
            "tools": {"anyOf": [tools, sources], "description": "Tools and how they are answered; or sources alone."},
            "sessions": _block_schema(_sessions_schema()),
            "policy": _block_schema(options_schema(PolicyOptions)),
            "tracing": _block_schema(options_schema(TracingOptions)),
            "server": _block_schema(options_schema(ServerBlock)),
        },
    }


def _sessions_schema() -> dict[str, Any]:
    """JSON Schema of the block, which accepts exactly what `read_sessions` accepts."""
    common = {key: option_schema(option) for key, option in common_options().items()}
    common["store"] = {**common["store"], "enum": store_names()}
    of_stores = {store: options_of_store(store) for store in store_names()}
    keys = {key: option_schema(option) for options in of_stores.values() for key, option in options.items()}
    rules = []
    for store, options in of_stores.items():
        # Each rule requires its store by name, so a store given as a variable matches none.
        chosen: dict[str, Any] = {"properties": {"store": {"const": store}}}
        if store != MEMORY:
            chosen["required"] = ["store"]
        needed = [key for key, option in options.items() if option.required]
        foreign = {key: False for key in keys if key not in options}
        rules.append({"if": chosen, "then": {"properties": foreign, "required": needed}})
    return {**options_schema(SessionsBlock), "properties": {**common, **keys}, "allOf": rules}


def _block_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a block that may be empty and contain variables."""
    return {**_with_variables(schema), "type": ["object", "null"]}


def _with_variables(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a value before expansion: texts may contain variables, numbers and flags may be one."""
    made = dict(schema)
    if "properties" in schema:
        made["properties"] = {key: _with_variables(item) for key, item in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = _with_variables(schema[key])
    if "anyOf" in schema:
        made["anyOf"] = [_with_variables(item) for item in schema["anyOf"]]
        return made
    kinds = schema.get("type", "string")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if not kinds & {"number", "integer", "boolean"} and not schema.keys() & {"enum", "const", "pattern"}:
        return made
    about: dict[str, Any] = {key: made.pop(key) for key in ("description", "default") if key in made}
    variable = _IS_VARIABLE if kinds & {"number", "integer", "boolean"} else _HAS_VARIABLE
    return {"anyOf": [made, variable], **about}


def _plugins_schema(table: PluginTable[Any], *, engine: bool = False) -> dict[str, Any]:
    """The schema of any plugin in the table, with exactly the options of its type."""
    cases = []
    for name in table.names():
        try:
            cls = table.get(name)
        except PluginError:
            continue  # cannot be used here
        cases.append({"if": {"properties": {"type": {"const": name}}}, "then": _plugin_schema(name, cls, engine)})
    kind = {"type": "object", "required": ["type"]}
    if not cases:
        return {**kind, "properties": {"type": {"type": "string"}}}
    return {**kind, "properties": {"type": {"enum": table.names()}}, "allOf": cases}


def _plugin_schema(name: str, cls: type, engine: bool) -> dict[str, Any]:
    parameters = parameters_of(cls)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = plugin_options(cls)
    properties: dict[str, Any] = {"type": {"const": name}}
    if engine:
        properties["engine"] = {"type": ["string", "null"], "description": "A name under tools.engines."}
    properties |= {name: _with_variables(option_schema(option)) for name, option in known.items()}
    if open_ended:
        properties |= dict.fromkeys(list_wired_options(cls), False)
    needed = [name for name, option in known.items() if option.required]
    closed = {} if open_ended else {"additionalProperties": False}
    return {
        "properties": properties,
        "required": ["type", *needed],
        **closed,
        "description": inspect.getdoc(cls) or "",
    }
