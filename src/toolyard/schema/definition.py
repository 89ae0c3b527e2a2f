"""Read catalog entries of any dialect into the fields of a `Tool`, with a note of every change.

OpenAI and Bedrock wrap a function, other catalogs have other names for the name and the description. Unknown keys
belong to the user and go to `metadata`.

The schemas are returned as written, and their contents are read by `normalise`. Anthropic writes `input_schema`, MCP
`inputSchema`, ARP `returns`; other catalogs list parameters under `arguments`, `inputs`, `input_parameters`, in two
lists, of which one is optional. What looks like parameters in another place is noted, so that none are lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.errors import DefinitionError
from toolyard.model.json_schema import SCHEMA_MAPS, file_type, pointer_of
from toolyard.model.names import find_similar, show
from toolyard.model.tool import Effects, Tool
from toolyard.parsing.json_text import read_embedded
from toolyard.schema.normalise import ITEM_NAMES, Change, find_unknown_keys, has_typed_descriptions, is_property_map
from toolyard.schema.typenames import read_type

_INPUT_KEYS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema", "fn_schema")
_OUTPUT_KEYS = ("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns")

# Other names of the two schemas, without case and separators; they count if their values look like schemas.
_SCHEMA = r"(?:json)?(?:schema|spec|definition|list)?s?"
_PARAMETERS = r"(?:input|param|parameter|arg|argument|kwarg)s?"
_INPUT = re.compile(
    rf"(?:tool|function|api|call|run|request|path|query|body)?{_PARAMETERS}(?:{_PARAMETERS}|fields?)?{_SCHEMA}"
    r"|(?:tool|function|api|call|run|request)?(?:json)?schema"
)
_OUTPUT = re.compile(
    rf"(?:tool|function|api|call)?(?:output|return|response|result)s?(?:{_PARAMETERS}|fields?|data)?{_SCHEMA}"
)
_REQUIRED_OR_OPTIONAL = re.compile(rf"(required|mandatory|optional)({_PARAMETERS})")
_LOCATIONS = re.compile(rf"(?:path|query|url|header|body)({_PARAMETERS})")
_SEPARATORS = re.compile(r"[\s_-]")

_SCHEMA_WRAPPERS = ("jsonSchema", "json_schema", "json", "schema")
"""Keys that Bedrock and others wrap around a schema. The last two may also be names of parameters."""

_EMPTY_KEYWORDS = SCHEMA_MAPS | {"type", "required", "additionalProperties", "$schema", "title", "description"}
_PARAMETER_KEYWORDS = frozenset(
    {"type", "description", "desc", "enum", "default", "required", "schema", "$ref", "anyOf"}
)
_PARAMETERS_IN_TEXT = re.compile(
    r"^[ \t]*[#* ]*(?:Args|Arguments|Params|Parameters|Inputs?)[:* ]*\n\s*(?:[-*`]|\w+ ?[:(])"
    r"|[:@]param(?:eter)?\s+\S"
    r"|\b(?:required |input |following )(?:parameter|argument)s?:",
    re.MULTILINE | re.IGNORECASE,
)
_SIGNATURE = re.compile(r"\s*(?:async )?(?:def |function )?[\w.]+\(\s*(?:self\s*,\s*)?\w+ *[:,=)][^\n]*\)")

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

_TEXTS = ("llm", "en_US", "en-US", "en")
"""Keys of a description that is several texts: that for models (Dify), or the English one."""


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
        raise DefinitionError(f"a tool definition must be a mapping, not {file_type(raw)}")
    changes: list[Change] = []
    entry = _unwrap_function(raw, changes)
    fields = {key: entry[key] for key in _FIELDS if entry.get(key) is not None}
    named = find_name(entry) if "name" in fields or name is None else None
    if named is None and name is None:
        named = _find_other_name(entry)
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
    parameters, read = read_input(entry, changes)
    found |= read
    # A recorded API call also has the API's name and a result, so an output schema does not show that this is a tool.
    is_call = named is not None and named[0] != "name" and not found
    output, read = read_output(entry, changes)
    found |= read
    used = _FIELDS | found | ({named[0]} if named and entry[named[0]] == named[1] else set())
    if says_little and (is_call or not found):
        _refuse_foreign(raw, is_call)
    if entry.get("type") == "custom" and not found and "format" in entry:
        raise DefinitionError("a custom tool takes text; write it as a function with one parameter, a string")
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise DefinitionError(f"'metadata' must be a mapping, not {file_type(metadata)}")
    metadata = {**metadata, **{key: value for key, value in entry.items() if key not in used}}
    note_lost_parameters(metadata, parameters, fields.get("description"), changes)
    fields.setdefault("effects", read_effects(metadata.get("annotations")))
    if source is not None:
        fields["source"] = source
    # Schemas in unusual shapes (lists, property maps) are left to the normaliser, so they skip `from_dict`'s checks.
    tool = Tool.from_dict({**fields, "metadata": metadata}).replace(parameters=parameters, output_parameters=output)
    return tool, changes


def find_name(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """The name in a definition, with its key; for the API of a service, the name of the API."""
    return next(((key, entry[key]) for key in _NAME_KEYS if isinstance(entry.get(key), str)), None)


def _find_other_name(entry: Mapping[str, Any]) -> tuple[str, Any] | None:
    """What serves as the name of a definition that has parameters and no name, with its key."""
    if isinstance(entry.get("properties"), dict) and entry.get("title"):
        return "title", entry["title"]  # A schema of the parameters is all that some libraries export.
    identity = entry.get("identity")
    if isinstance(identity, dict) and isinstance(identity.get("name"), str):
        return "identity", identity["name"]  # Dify
    # Calls and rows of data have an id, too, but what they call `input` or `arguments` are no parameters.
    is_tool = isinstance(entry.get("id"), str) and read_input(entry, [])[1]
    return ("id", entry["id"]) if is_tool else None


def _refuse_foreign(entry: Mapping[str, Any], is_call: bool) -> None:
    """Raise for objects of other programs: they have keys, but none that belongs to a tool definition."""
    unknown = [str(key)[:40] for key in entry if key not in _FIELDS]
    meant = (_is_input_key(key) or (not is_call and _is_output_key(key)) for key in unknown)
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
    telling = {"description", *_INPUT_KEYS} if wraps else set(_INPUT_KEYS)
    return not telling.isdisjoint(inner) and telling.isdisjoint(outer)


def _bare_name(name: Any, namespace: Any, entry: Mapping[str, Any]) -> str:
    if not isinstance(name, str):
        near = find_similar("name", [key for key in entry if isinstance(key, str) and key not in _FIELDS])
        missing = "a tool definition needs a 'name'" + (f"; did you mean 'name' by {near[0]!r}?" if near else "")
        if not near:
            missing += _hint_at_provider(entry) or _hint_at_text(entry)
        if not near and not _SOURCE_KEYS.isdisjoint(entry):
            missing += f"; {_SOURCE_HINT}"
        raise DefinitionError(missing if name is None else f"'name' must be text, not {file_type(name)}")
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
    texts = fields.get("description")
    forms = [key for key in _TEXTS if isinstance(texts.get(key), str)] if isinstance(texts, dict) else []
    if isinstance(texts, dict) and forms:
        fields["description"] = texts[forms[0]]
        changes.append(Change(f"/description/{forms[0]}", f"{forms[0]!r} of several texts read as 'description'"))
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


def read_input(entry: Mapping[str, Any], changes: list[Change]) -> tuple[Any, set[str]]:
    """The parameters of the entry as they are written, and the keys that they were found under."""
    found = None if any(entry.get(key) for key in _INPUT_KEYS) else _join_locations(entry, changes)
    if found is not None:
        return found
    halves = [(key, match) for key in entry if (match := _REQUIRED_OR_OPTIONAL.fullmatch(_fold_key(key)))]
    listed = bool(halves) and all(isinstance(entry[key], list) for key, _ in halves)
    items = [item for key, _ in halves for item in entry[key]] if listed else []
    # ToolBench has the schema of the result under `schema`, beside two lists that describe the parameters.
    described = listed and len(items or halves[1:]) > 0 and all(isinstance(item, dict) for item in items)
    schema, used = _read_schema(entry, _INPUT_KEYS, (lambda _: False) if described else _is_input_key, changes)
    if schema:
        schema, more = _add_required(entry, schema, changes)
        return schema, used | more
    if listed:
        changes.extend(Change(f"/{key}", f"{key!r} read as part of 'parameters'") for key, _ in halves)
        items = [_flag_required(item, match[1] != "optional") for key, match in halves for item in entry[key]]
        return items, used | {key for key, _ in halves}
    if isinstance(entry.get("properties"), (dict, list)):
        changes.append(Change("/properties", "'properties' beside the name read as 'parameters'"))
        own = {key: entry[key] for key in ("type", "required", "additionalProperties", "$defs") if key in entry}
        return {**own, "type": "object", "properties": entry["properties"]}, used | own.keys() | {"properties"}
    return schema, used


def read_output(entry: Mapping[str, Any], changes: list[Change]) -> tuple[Any, set[str]]:
    """The output schema of the entry as it is written, and the keys that it was found under."""
    return _read_schema(entry, _OUTPUT_KEYS, _is_output_key, changes)


def _join_locations(entry: Mapping[str, Any], changes: list[Change]) -> tuple[Any, set[str]] | None:
    """Merge parameters that are grouped by location; None unless there are several groups without duplicates."""
    places = [
        key for key in entry if _LOCATIONS.fullmatch(_fold_key(key)) and looks_like_parameters(entry[key], named=True)
    ]
    parts = [entry[key] for key in places]
    if len(parts) < 2:
        return None
    found: Any = None
    if all(isinstance(part, list) for part in parts):
        found = [item for part in parts for item in part]
        names = {str(_flag_required(item, True).get("name", item)) for item in found}
    elif all(isinstance(part, dict) and is_property_map(part) for part in parts):
        found = {name: sub for part in parts for name, sub in part.items()}
        names = set(found)
    if found is None or len(names) < sum(map(len, parts)):
        return None
    changes.extend(Change(f"/{key}", f"{key!r} read as part of 'parameters'") for key in places)
    return found, set(places)


def _flag_required(item: Any, required: bool) -> Any:
    named = {"name": item} if isinstance(item, str) else item
    return {"required": required, **named} if isinstance(named, dict) else item


def _read_schema(
    entry: Mapping[str, Any], keys: tuple[str, ...], is_other_name: Callable[[object], bool], changes: list[Change]
) -> tuple[Any, set[str]]:
    present = [key for key in keys if key in entry and (key != "returns" or isinstance(entry[key], dict))]
    if len(present) > 1 and any(entry[key] != entry[present[0]] for key in present[1:]):
        raise DefinitionError(f"{present[0]!r} and {present[1]!r} say different things; keep one")
    used = set(present)
    found = present[0] if present else None
    if found is None or not entry[found]:
        spelt = [key for key in entry if key not in used and is_other_name(key)]
        other = next((key for key in spelt if looks_like_parameters(read_embedded(entry[key]), named=True)), None)
        # An empty value under such a name means the same as an empty schema.
        other = other or next((key for key in spelt if found is None and entry[key] in ({}, [])), None)
        found = other or found
    if found is None:
        return {}, used
    if found != keys[0]:
        changes.append(Change(pointer_of((found,)), f"{found!r} read as {keys[0]!r}"))
    value = _unwrap_schema(entry[found], found, changes)
    return {} if value is None or value == [] else value, used | {found}


def _unwrap_schema(value: Any, key: str, changes: list[Change]) -> Any:
    """Unwrap a schema that is written as JSON text or enclosed in a single key such as `json`."""
    if (said := read_embedded(value)) is not value:
        value = said
        changes.append(Change(pointer_of((key,)), "JSON text read as what it says"))
    if isinstance(value, dict) and len(value) == 1:
        around, inner = next(iter(value.items()))
        known = _SCHEMA_WRAPPERS if "schema" in key.lower() else _SCHEMA_WRAPPERS[:2]
        if around in known and isinstance(inner, dict) and isinstance(inner.get("properties"), dict):
            changes.append(Change(pointer_of((key, around)), f"{around!r} around the schema removed"))
            return inner
    return value


def _add_required(entry: Mapping[str, Any], schema: Any, changes: list[Change]) -> tuple[Any, set[str]]:
    """Move a `required` list from beside the schema into it, if it names properties of the schema."""
    names, properties = entry.get("required"), schema.get("properties") if isinstance(schema, dict) else None
    if properties is None and isinstance(schema, dict) and is_property_map(schema):
        properties = schema
    if not isinstance(names, list) or not isinstance(properties, dict) or not names:
        return schema, set()
    if "required" in schema or not all(isinstance(name, str) and name in properties for name in names):
        return schema, set()
    changes.append(Change("/required", "'required' beside the parameters read as theirs"))
    own = schema if properties is not schema else {"type": "object", "properties": schema}
    return {**own, "required": names}, {"required"}


def _is_input_key(key: object) -> bool:
    """Whether catalogs write the parameters of a tool under such a key."""
    return _INPUT.fullmatch(_fold_key(key)) is not None


def _is_output_key(key: object) -> bool:
    """Whether catalogs write the output schema of a tool under such a key."""
    return _OUTPUT.fullmatch(_fold_key(key)) is not None


def _fold_key(key: object) -> str:
    return _SEPARATORS.sub("", str(key)).lower()


def looks_like_parameters(value: Any, *, named: bool = False) -> bool:
    """True for an object schema, a map of names to schemas, or a list of parameters.

    If the key already suggests parameters (`named`), bare names, type words and sentences that begin with a type are
    enough.
    """
    if isinstance(value, list):
        return bool(value) and all(_is_parameter(item) or (named and _is_name(item)) for item in value)
    if not isinstance(value, dict) or not value:
        return False
    if isinstance(value.get("properties"), (dict, list)) or (named and value.get("type") == "object"):
        return True
    if named and has_typed_descriptions(value):
        return True
    if any(isinstance(value.get(key), str) for key in ("type", "$schema")):
        return False
    return all(
        (isinstance(sub, dict) and not _PARAMETER_KEYWORDS.isdisjoint(sub))
        or (named and isinstance(sub, str) and read_type(sub) is not None)
        for sub in value.values()
    ) and (named or all("type" in sub for sub in value.values()))


def _is_parameter(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    if any(isinstance(item.get(key), str) for key in ITEM_NAMES):
        return not _PARAMETER_KEYWORDS.isdisjoint(item)
    # [{"city": {"type": "string"}}, ...]
    return len(item) == 1 and looks_like_parameters(item)


def _is_name(item: Any) -> bool:
    return isinstance(item, str) and re.fullmatch(r"[^\W\d][\w.-]*", item) is not None


def note_lost_parameters(metadata: Mapping[str, Any], parameters: Any, description: Any, changes: list[Change]) -> None:
    """Note parameters that seem to be in another place than where they were looked for."""
    for key, value in metadata.items():
        within = value.values() if isinstance(value, dict) and not parameters else ()
        lost = any(map(looks_like_parameters, (value, *within))) or (value and _is_input_key(key))
        if lost or (key == "fields" and isinstance(value, dict) and looks_like_parameters(value, named=True)):
            changes.append(Change(pointer_of((key,)), f"{key!r} looks like parameters; it is kept as metadata"))
    unread = find_unknown_keys(parameters) if isinstance(parameters, dict) and "properties" not in parameters else ()
    for key in unread:
        changes.append(Change(pointer_of(("parameters", key)), f"{key!r} means nothing in a schema; left as it is"))
    empty = not parameters or (
        isinstance(parameters, dict) and not parameters.get("properties") and parameters.keys() <= _EMPTY_KEYWORDS
    )
    if empty and isinstance(description, str) and _PARAMETERS_IN_TEXT.search(description):
        changes.append(Change("/parameters", "none are declared, but the description names some"))
    for key in [key for key, value in metadata.items() if empty and isinstance(value, str) and _SIGNATURE.match(value)]:
        changes.append(Change(pointer_of((key,)), f"none are declared, but {key!r} is a signature that names some"))
