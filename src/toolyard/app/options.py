"""Options of plugins as JSON Schema, and config values as those schemas mean them."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from toolyard.app.env import Variable
from toolyard.calls.settings import SETTINGS_SCHEMA
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.plugins.table import parameters_of
from toolyard.sources.base import ToolLoader

WIRED = ("registry", "name", "sessions", "policy", "tracer", "redactor")
"""Options of engines that come from the rest of the config."""
_ROUTES = ("engines", "sources", "bindings", "default")

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")


def wired_options(cls: type) -> tuple[str, ...]:
    """What a config cannot set of this plugin, because it is made of other parts."""
    if not issubclass(cls, ToolEngine):
        return ()
    return (*WIRED, *_ROUTES) if issubclass(cls, MultiToolEngine) else WIRED


def option_schemas(cls: type) -> dict[str, dict[str, Any]]:
    """Each option a config may give, as JSON Schema; `{}` where the annotation says nothing."""
    hints = _hints(cls)
    shared = inspect.signature(ToolEngine.__init__).parameters if issubclass(cls, ToolEngine) else {}
    hidden = wired_options(cls)
    found: dict[str, dict[str, Any]] = {}
    for parameter in parameters_of(cls).values():
        name = parameter.name
        if name in hidden or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name in SETTINGS_SCHEMA and shared.get(name) == parameter:
            schema = SETTINGS_SCHEMA[name]
        else:
            schema = _of_annotation(hints.get(name, Any))
        if isinstance(parameter.default, str | int | float):
            schema = {**schema, "default": parameter.default}
        found[name] = schema
    return found


def typed_options(cls: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with each value as the class wants it; see `typed`."""
    if not any(map(_may_change, options.values())):
        return dict(options)
    schemas = option_schemas(cls)
    return {name: typed(value, schemas.get(name, {})) for name, value in options.items()}


def typed(value: Any, schema: Any) -> Any:
    """A config value as its schema means it.

    Text that was one variable and nothing else becomes the number or flag it spells, where text is not
    wanted; 3.0 becomes 3 where whole numbers are, since JSON does not tell them apart.
    """
    branches = list(_branches(schema))
    if isinstance(value, dict):
        return {key: typed(item, _inside(branches, key)) for key, item in value.items()}
    if isinstance(value, list):
        items = {"anyOf": [branch["items"] for branch in branches if "items" in branch]}
        return [typed(item, items) for item in value]
    kinds = {kind for branch in branches for kind in _kinds(branch)}
    if isinstance(value, Variable):
        value = _read(str(value), kinds)
    if isinstance(value, float) and value.is_integer() and "integer" in kinds and "number" not in kinds:
        return int(value)
    return value


def _read(text: str, kinds: set[str]) -> Any:
    if not kinds or "string" in kinds:
        return text
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    if kinds & {"integer", "number"} and _NUMBER.fullmatch(text):
        return float(text) if set(text) & set(".eE") else int(text)
    return text


def _may_change(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_may_change, value.values()))
    if isinstance(value, list):
        return any(map(_may_change, value))
    return isinstance(value, Variable) or (isinstance(value, float) and value.is_integer())


def _branches(schema: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    if "anyOf" in schema:
        for branch in schema["anyOf"]:
            yield from _branches(branch)
    else:
        yield schema


def _inside(branches: list[dict[str, Any]], key: str) -> dict[str, Any]:
    found = []
    for branch in branches:
        inner = branch.get("properties", {}).get(key, branch.get("additionalProperties"))
        if isinstance(inner, dict):
            found.append(inner)
    return {"anyOf": found}


def _kinds(branch: dict[str, Any]) -> list[str]:
    kind = branch.get("type")
    if kind is None:
        # An enumeration is of texts here; anything else without a type takes text too.
        return ["string"]
    return list(kind) if isinstance(kind, list) else [kind]


def _of_annotation(annotation: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema = TypeAdapter(annotation).json_schema()
    except (PydanticUserError, TypeError, NameError):
        return {}
    named = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inlined(schema, named)
    return inlined


def _inlined(node: Any, named: Mapping[str, Any]) -> Any:
    """The schema without references: it becomes part of another, whose root is elsewhere."""
    if isinstance(node, list):
        return [_inlined(item, named) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).rpartition("/")[2]
    if name in named:
        return _inlined(named[name], {other: schema for other, schema in named.items() if other != name})
    return {key: _inlined(value, named) for key, value in node.items()}


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
    if issubclass(cls, ToolLoader):
        # Their `__init__` takes any text and refuses the wrong one; the attribute says which are right.
        declared = typing.get_type_hints(ToolLoader)
        found |= {name: declared[name] for name in ("on_error", "on_duplicate") if found.get(name) is str}
    return found
