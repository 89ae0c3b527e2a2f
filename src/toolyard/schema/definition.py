"""Read catalog entries of any dialect into the fields of a `Tool`, with a note of every change.

OpenAI and Bedrock wrap a function, other catalogs have other names for the name and the description. Unknown keys
belong to the user and go to `metadata`. The schemas are found by `parameters`, and their contents read by `normalise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.errors import DefinitionError
from toolyard.model.json_schema import json_type, pointer_of
from toolyard.model.names import find_similar, show
from toolyard.model.tool import Effects, Tool
from toolyard.schema.normalise import Change
from toolyard.schema.parameters import (
    INPUT_KEYS,
    is_input_key,
    is_output_key,
    looks_like_parameters,
    note_lost_parameters,
    read_input,
    read_output,
)

_SOURCE_KEYS = frozenset({"path", "spec", "target", "url", "command"})
_SOURCE_HINT = "if this is a source, sources are a list, each with its type: `tools: [{type: file, path: ...}]`"
_NAME_KEYS = ("name", "api_name", "function_name", "tool_name", "functionName", "toolName", "identifier")
_PLAIN_KEYS = frozenset({"name", "description", "parameters"})
_FIELDS = frozenset({"name", "namespace", "description", "metadata", "version", "tags", "aliases", "effects", "source"})
_COMMON_FIELDS = frozenset({"name", "namespace", "version", "source"})
"""The fields that do not distinguish a tool from other objects."""
_DESCRIPTION_KEYS = (
    "desc",
    "summary",
    "tool_description",
    "function_description",
    "api_description",
    "doc",
    "docstring",
    "functionality",
)


def read_definition(
    raw: Any, *, namespace: str, name: str | None = None, source: str | None = None
) -> tuple[Tool, list[Change]]:
    """The tool that a catalog entry defines, with its schemas as written; `DefinitionError` says what is missing.

    The entry's `namespace` takes precedence over the argument; `name` is the default for an entry without a name.
    """
    if type(raw) is dict and raw.keys() <= _PLAIN_KEYS and _is_plain(raw, name):
        # A shortcut for most entries of most catalogs; the rest of this function would return the same.
        return Tool(raw["name"], namespace, raw.get("description", ""), raw["parameters"], source=source), []
    if not isinstance(raw, Mapping):
        raise DefinitionError(f"a tool definition must be a mapping, not {json_type(raw)}")
    changes: list[Change] = []
    entry = _unwrap_function(raw, changes)
    fields = {key: entry[key] for key in _FIELDS if entry.get(key) is not None}
    named = find_name(entry) if "name" in fields or name is None else None
    if named is None and name is None and isinstance(entry.get("properties"), dict) and entry.get("title"):
        named = "title", entry["title"]  # A schema of the parameters is all that some libraries export.
    if "name" not in fields and named is not None:
        fields["name"] = named[1]
        changes.append(Change(f"/{named[0]}", f"{named[0]!r} read as 'name'"))
    fields.setdefault("name", name)
    fields.setdefault("namespace", namespace)
    if name is not None and fields["name"] != name:
        changes.append(Change("/name", f"listed under {name!r}, which differs from its name"))
    fields["name"] = trim_name(_bare_name(fields["name"], fields["namespace"], entry), changes)
    says_little = entry is raw and raw.get("type") != "function" and fields.keys() <= _COMMON_FIELDS
    found = set(_read_description(entry, fields, changes))
    fields["parameters"], read = read_input(entry, changes)
    found |= read
    # A recorded API call also has the API's name and a result, so an output schema does not show that this is a tool.
    is_call = named is not None and named[0] != "name" and not found
    fields["output_parameters"], read = read_output(entry, changes)
    found |= read
    used = _FIELDS | found | ({named[0]} if named else set())
    if says_little and (is_call or not found):
        _refuse_foreign(raw, is_call)
    if entry.get("type") == "custom" and not found and "format" in entry:
        raise DefinitionError("a custom tool takes text; write it as a function with one parameter, a string")
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise DefinitionError(f"'metadata' must be a mapping, not {json_type(metadata)}")
    metadata = {**metadata, **{key: value for key, value in entry.items() if key not in used}}
    note_lost_parameters(metadata, fields["parameters"], fields.get("description"), changes)
    if "effects" not in fields:
        fields["effects"] = read_effects(metadata.get("annotations"))
    if source is not None:
        fields["source"] = source
    return _build_tool(fields, metadata), changes


def find_name(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """The name in a definition, with its key; for the API of a service, the name of the API."""
    return next(((key, entry[key]) for key in _NAME_KEYS if isinstance(entry.get(key), str)), None)


def _refuse_foreign(entry: Mapping[str, Any], is_call: bool) -> None:
    """Raise for objects of other programs: they have keys, but none that belongs to a tool definition."""
    unknown = [str(key)[:40] for key in entry if key not in _FIELDS]
    meant = (is_input_key(key) or (not is_call and is_output_key(key)) for key in unknown)
    if (
        unknown
        and "annotations" not in entry
        and not any(meant)
        and not any(map(looks_like_parameters, entry.values()))
    ):
        form = "a tool is written {name: ..., description: ..., parameters: {...}}"
        raise DefinitionError(
            f"this is no definition of a tool: it has neither 'description' nor 'parameters', but {unknown[0]!r}; "
            f"{form if _SOURCE_KEYS.isdisjoint(entry) else _SOURCE_HINT}{_hint_at_provider(entry)}"
        )


def _is_plain(raw: dict[str, Any], name: str | None) -> bool:
    own, text, schema = raw.get("name"), raw.get("description", ""), raw.get("parameters")
    if type(own) is not str or type(text) is not str or type(schema) is not dict or not schema.get("properties"):
        return False
    return (name is None or name == own) and own.strip() == own


def _build_tool(fields: dict[str, Any], metadata: dict[str, Any]) -> Tool:
    given, answer = fields.pop("parameters"), fields.pop("output_parameters")
    tool = Tool.from_dict({**fields, "metadata": metadata})
    # Schemas in unusual shapes (lists, property maps) are left to the normaliser, so they skip `from_dict`'s checks.
    return tool.replace(parameters=given, output_parameters=answer)


def _unwrap_function(raw: Mapping[str, Any], changes: list[Change]) -> Mapping[str, Any]:
    inner = raw.get("function")
    if isinstance(inner, Mapping) and raw.get("type", "function") == "function" and "name" in inner:
        changes.append(Change("/function", "OpenAI wrapper removed"))
        rest = {key: value for key, value in raw.items() if key not in ("type", "function")}
        hidden = sorted(key for key in rest if key in inner and rest[key] != inner[key])
        if hidden:
            changes.append(Change(f"/{hidden[0]}", "the value in the function replaced that of the wrapper"))
        return {**rest, **inner}
    if isinstance(raw.get("toolSpec"), Mapping) and len(raw) == 1:
        changes.append(Change("/toolSpec", "Bedrock wrapper removed"))
        return dict(raw["toolSpec"])
    inside = [
        key for key, value in raw.items() if isinstance(value, Mapping) and _is_definition_inside(key, value, raw)
    ]
    if len(inside) == 1:
        key = inside[0]
        changes.append(Change(pointer_of((key,)), f"what is in {key!r} read as the definition"))
        return {**{other: value for other, value in raw.items() if other not in ("type", key)}, **raw[key]}
    if raw.get("type") == "function" and "parameters" in raw:
        changes.append(Change("/type", "'function' removed"))
        return {key: value for key, value in raw.items() if key != "type"}
    return raw


def _is_definition_inside(key: str, inner: Mapping[str, Any], outer: Mapping[str, Any]) -> bool:
    """Whether the inner mapping describes the tool: an author or an owner has a name and a description, too."""
    name = inner.get("name")
    if not isinstance(name, str) or find_name(outer) not in (None, ("name", name)):
        return False
    wraps = key in ("data", "metadata") and find_name(outer) is None
    telling = {"description", *INPUT_KEYS} if wraps else set(INPUT_KEYS)
    return not telling.isdisjoint(inner) and telling.isdisjoint(outer)


def _bare_name(name: Any, namespace: Any, entry: Mapping[str, Any]) -> str:
    if not isinstance(name, str):
        near = find_similar("name", [key for key in entry if isinstance(key, str) and key not in _FIELDS])
        missing = "a tool definition needs a 'name'" + (f"; did you mean 'name' by {near[0]!r}?" if near else "")
        if not near:
            missing += _hint_at_provider(entry) or _hint_at_text(entry)
        if not near and not _SOURCE_KEYS.isdisjoint(entry):
            missing += f"; {_SOURCE_HINT}"
        raise DefinitionError(missing if name is None else f"'name' must be text, not {json_type(name)}")
    # `to_dicts(qualified=True)` repeats the namespace in the name; drop it when reading.
    return name.removeprefix(f"{namespace}{TOOL_NAMESPACE_SEP}")


def _hint_at_provider(entry: Mapping[str, Any]) -> str:
    kind = next(iter(entry)) if len(entry) == 1 and isinstance(next(iter(entry.values())), dict) else entry.get("type")
    if not isinstance(kind, str) or kind in ("function", "object", "tool", "custom"):
        return ""
    return f"; if {show(kind)} is a tool that a provider runs, name it in requests to that provider"


def _hint_at_text(entry: Mapping[str, Any]) -> str:
    """A hint for dataset rows that contain their tools in the text of a prompt."""
    for key, value in entry.items():
        if isinstance(value, str) and '"name"' in value and '"parameters"' in value:
            return f"; tools in the text of {show(str(key))} are not read, list them under 'tools'"
    return ""


def trim_name(name: str, changes: list[Change]) -> str:
    """Strip white space around the name, which is invisible and would not be repeated by callers."""
    trimmed = name.strip()
    if trimmed != name and trimmed:
        changes.append(Change("/name", f"white space around {name!a} removed"))
        return trimmed
    return name


def _read_description(entry: Mapping[str, Any], fields: dict[str, Any], changes: list[Change]) -> Iterable[str]:
    key = next((key for key in _DESCRIPTION_KEYS if isinstance(entry.get(key), str)), None)
    if "description" in fields or key is None:
        return ()
    fields["description"] = entry[key]
    changes.append(Change(f"/{key}", f"{key!r} read as 'description'"))
    return (key,)


def read_effects(annotations: Any) -> Effects:
    """The effects that the annotations of an MCP tool declare."""
    if isinstance(annotations, Mapping):
        if annotations.get("readOnlyHint") is True:
            return Effects.READ
        if annotations.get("destructiveHint") is True or annotations.get("readOnlyHint") is False:
            return Effects.WRITE
    return Effects.UNKNOWN
