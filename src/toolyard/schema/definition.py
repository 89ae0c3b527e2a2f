"""Tool definitions as other systems write them -> the fields of a `Tool`.

OpenAI wraps a function, Anthropic says `input_schema`, MCP `inputSchema` and `annotations`, ARP
`returns`. Keys that mean nothing here are the user's and go to `metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.errors import DefinitionError
from toolyard.model.json_words import json_type
from toolyard.model.tool import Effects, Tool
from toolyard.schema.normalise import Change

_INPUT_KEYS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema")
_OUTPUT_KEYS = ("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns")
_PLAIN_KEYS = frozenset({"name", "description", "parameters"})
_FIELDS = frozenset({"name", "namespace", "description", "metadata", "version", "tags", "aliases", "effects", "source"})


def read_definition(
    raw: Any, *, namespace: str, name: str | None = None, source: str | None = None
) -> tuple[Tool, list[Change]]:
    """The tool a catalog entry defines, schemas as written; `DefinitionError` says what is missing.

    The entry's own `namespace` wins over the argument; `name` serves an entry that has none.
    """
    if type(raw) is dict and raw.keys() <= _PLAIN_KEYS and _is_plain(raw, name):
        # Most entries of most catalogs; the rest of this function would come to the same.
        return Tool(raw["name"], namespace, raw.get("description", ""), raw["parameters"], source=source), []
    if not isinstance(raw, Mapping):
        raise DefinitionError(f"a tool definition must be a mapping, not {json_type(raw)}")
    changes: list[Change] = []
    entry = _unwrap_function(raw, changes)
    fields = {key: entry[key] for key in _FIELDS if entry.get(key) is not None}
    fields.setdefault("name", name)
    fields.setdefault("namespace", namespace)
    if name is not None and fields["name"] != name:
        changes.append(Change("/name", f"listed under {name!r}, which is not its name"))
    fields["name"] = _own_name(fields["name"], fields["namespace"])
    fields["parameters"] = _read_schema(entry, _INPUT_KEYS, changes)
    fields["output_parameters"] = _read_schema(entry, _OUTPUT_KEYS, changes)
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise DefinitionError(f"'metadata' must be a mapping, not {json_type(metadata)}")
    metadata = dict(metadata)
    used = _FIELDS | {key for keys in (_INPUT_KEYS, _OUTPUT_KEYS) for key in keys if _is_schema(entry, key)}
    metadata.update((key, value) for key, value in entry.items() if key not in used)
    if "effects" not in fields:
        fields["effects"] = _hinted_effects(metadata.get("annotations"))
    if source is not None:
        fields["source"] = source
    return _build_tool(fields, metadata), changes


def _is_plain(raw: dict[str, Any], name: str | None) -> bool:
    own, text, schema = raw.get("name"), raw.get("description", ""), raw.get("parameters")
    return type(own) is str and type(text) is str and type(schema) is dict and (name is None or name == own)


def _build_tool(fields: dict[str, Any], metadata: dict[str, Any]) -> Tool:
    given, answer = fields.pop("parameters"), fields.pop("output_parameters")
    tool = Tool.from_dict({**fields, "metadata": metadata})
    # Schemas in odd shapes (lists, property maps) are for the normaliser, so they skip from_dict's checks.
    return tool.replace(parameters=given, output_parameters=answer)


def _unwrap_function(raw: Mapping[str, Any], changes: list[Change]) -> Mapping[str, Any]:
    inner = raw.get("function")
    if isinstance(inner, Mapping) and raw.get("type", "function") == "function" and "name" in inner:
        changes.append(Change("/function", "OpenAI wrapper removed"))
        rest = {key: value for key, value in raw.items() if key not in ("type", "function")}
        hidden = sorted(key for key in rest if key in inner and rest[key] != inner[key])
        if hidden:
            changes.append(Change(f"/{hidden[0]}", "the wrapper's own value gave way to the function's"))
        return {**rest, **inner}
    if raw.get("type") == "function" and "parameters" in raw:
        changes.append(Change("/type", "'function' removed"))
        return {key: value for key, value in raw.items() if key != "type"}
    return raw


def _own_name(name: Any, namespace: Any) -> str:
    if not isinstance(name, str):
        missing = "a tool definition needs a 'name'"
        raise DefinitionError(missing if name is None else f"'name' must be text, not {json_type(name)}")
    # `to_dicts(qualified=True)` writes the namespace twice; reading it back must not.
    return name.removeprefix(f"{namespace}{TOOL_NAMESPACE_SEP}")


def _is_schema(entry: Mapping[str, Any], key: str) -> bool:
    return key in entry and (key != "returns" or isinstance(entry[key], dict))


def _read_schema(entry: Mapping[str, Any], keys: tuple[str, ...], changes: list[Change]) -> Any:
    present = [key for key in keys if _is_schema(entry, key)]
    if not present:
        return {}
    if len(present) > 1 and any(entry[key] != entry[present[0]] for key in present[1:]):
        raise DefinitionError(f"{present[0]!r} and {present[1]!r} say different things; keep one")
    if present[0] != keys[0]:
        changes.append(Change(f"/{present[0]}", f"{present[0]!r} read as {keys[0]!r}"))
    value = entry[present[0]]
    return {} if value is None else value


def _hinted_effects(annotations: Any) -> Effects:
    if isinstance(annotations, Mapping):
        if annotations.get("readOnlyHint") is True:
            return Effects.READ
        if annotations.get("destructiveHint") is True or annotations.get("readOnlyHint") is False:
            return Effects.WRITE
    return Effects.UNKNOWN
