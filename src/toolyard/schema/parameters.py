"""Find the input and output schema in catalog entries of any dialect, as they are written.

Anthropic writes `input_schema`, MCP `inputSchema`, ARP `returns`; other catalogs list parameters under `arguments`,
`inputs`, `input_parameters`, in two lists, of which one is optional, or as Home Assistant's `fields`, whose selectors
are types. What looks like parameters in another place is noted, so that none are lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from toolyard.model.errors import DefinitionError, MalformedSource
from toolyard.model.json_schema import SCHEMA_MAPS, pointer_of
from toolyard.parsing import parse_json
from toolyard.schema.normalise import Change
from toolyard.schema.shapes import ITEM_NAMES, find_unknown_keys, has_typed_descriptions, is_property_map
from toolyard.schema.typenames import read_type

INPUT_KEYS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema", "fn_schema")
_OUTPUT_KEYS = ("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns")

# Other names of the two schemas, without case and separators; they count if their values look like schemas.
_SCHEMA = r"(?:json)?(?:schema|spec|definition|list)?s?"
_PARAMETERS = r"(?:input|param|parameter|arg|argument|kwarg)s?"
_INPUT = re.compile(
    rf"(?:tool|function|api|call|run|request|path|query|body)?{_PARAMETERS}(?:{_PARAMETERS}|fields?)?{_SCHEMA}"
    r"|(?:tool|function|api|call|run|request)?(?:json)?schema"
)
_OUTPUT = re.compile(
    rf"(?:tool|function|api|call)?(?:output|return|response|result)s?(?:{_PARAMETERS}|fields?)?{_SCHEMA}"
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
_SELECTED_TYPES = {
    "boolean": "boolean",
    "number": "number",
    **dict.fromkeys(("text", "template", "select", "date", "time", "datetime", "icon"), "string"),
}
"""Types of the values that a selector of Home Assistant offers; those of other selectors are left open."""
_PARAMETERS_IN_TEXT = re.compile(
    r"^[ \t]*[#* ]*(?:Args|Arguments|Params|Parameters|Inputs?)[:* ]*\n\s*(?:[-*`]|\w+ ?[:(])"
    r"|[:@]param(?:eter)?\s+\S"
    r"|\b(?:required |input |following )(?:parameter|argument)s?:",
    re.MULTILINE | re.IGNORECASE,
)
_SIGNATURE = re.compile(r"\s*(?:async )?(?:def |function )?[\w.]+\(\s*(?:self\s*,\s*)?\w+ *[:,=)][^\n]*\)")


def read_input(entry: Mapping[str, Any], changes: list[Change]) -> tuple[Any, set[str]]:
    """The parameters of the entry as they are written, and the keys that they were found under."""
    found = None if any(entry.get(key) for key in INPUT_KEYS) else _join_locations(entry, changes)
    if found is not None:
        return found
    schema, used = _read_schema(entry, INPUT_KEYS, is_input_key, changes)
    if schema:
        schema, more = _add_required(entry, schema, changes)
        return schema, used | more
    halves = [(key, match) for key in entry if (match := _REQUIRED_OR_OPTIONAL.fullmatch(_fold_key(key)))]
    if halves and all(isinstance(entry[key], list) for key, _ in halves):
        changes.extend(Change(f"/{key}", f"{key!r} read as part of 'parameters'") for key, _ in halves)
        items = [_flag_required(item, match[1] != "optional") for key, match in halves for item in entry[key]]
        return items, used | {key for key, _ in halves}
    fields = _list_fields(entry.get("fields"))
    if any(isinstance(field.get("selector"), dict) for field in fields.values()):
        changes.append(Change("/fields", "'fields' read as 'parameters'"))
        return {name: _read_field(field) for name, field in fields.items()}, used | {"fields"}
    if isinstance(entry.get("properties"), (dict, list)):
        changes.append(Change("/properties", "'properties' beside the name read as 'parameters'"))
        own = {key: entry[key] for key in ("type", "required", "additionalProperties", "$defs") if key in entry}
        return {**own, "type": "object", "properties": entry["properties"]}, used | own.keys() | {"properties"}
    return schema, used


def read_output(entry: Mapping[str, Any], changes: list[Change]) -> tuple[Any, set[str]]:
    """The output schema of the entry as it is written, and the keys that it was found under."""
    return _read_schema(entry, _OUTPUT_KEYS, is_output_key, changes)


def _list_fields(fields: Any) -> dict[str, dict[str, Any]]:
    """The fields of a Home Assistant action, those of collapsed groups among them; empty for anything else."""
    found: dict[str, dict[str, Any]] = {}
    for name, field in fields.items() if isinstance(fields, dict) else ():
        if not isinstance(field, dict | None):
            return {}
        group = field.get("fields") if field else None
        if not isinstance(group, dict):
            found[name] = field or {}
        elif (inside := _list_fields(group)) or not group:
            found |= inside
        else:
            return {}
    return found


def _read_field(field: dict[str, Any]) -> dict[str, Any]:
    selector = field.get("selector")
    rest = {key: value for key, value in field.items() if key != "selector"}
    return {**_read_selector(selector), **rest} if isinstance(selector, dict) else rest


def _read_selector(selector: dict[str, Any]) -> dict[str, Any]:
    kind, said = next(iter(selector.items()), ("", None))
    options = said if isinstance(said, dict) else {}
    schema: dict[str, Any] = {"type": _SELECTED_TYPES[kind]} if kind in _SELECTED_TYPES else {}
    if kind == "number":
        schema |= {limit: options[key] for key, limit in (("min", "minimum"), ("max", "maximum")) if key in options}
    listed = options.get("options")
    if kind == "select" and isinstance(listed, list) and listed and options.get("custom_value") is not True:
        values = [item.get("value") if isinstance(item, dict) else item for item in listed]
        # YAML reads an option such as `1` as a number; then the values are left open, since no text equals it.
        schema = {**schema, "enum": values} if all(isinstance(value, str) for value in values) else {}
    return {"type": "array", "items": schema} if options.get("multiple") is True else schema


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
        other = next((key for key in spelt if looks_like_parameters(_read_text(entry[key]), named=True)), None)
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
    if (said := _read_text(value)) is not value:
        value = said
        changes.append(Change(pointer_of((key,)), "JSON text read as what it says"))
    if isinstance(value, dict) and len(value) == 1:
        around, inner = next(iter(value.items()))
        known = _SCHEMA_WRAPPERS if "schema" in key.lower() else _SCHEMA_WRAPPERS[:2]
        if around in known and isinstance(inner, dict) and isinstance(inner.get("properties"), dict):
            changes.append(Change(pointer_of((key, around)), f"{around!r} around the schema removed"))
            return inner
    return value


def _read_text(value: Any) -> Any:
    """The object or list in JSON text; any other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(MalformedSource):
            return parse_json(value)
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


def is_input_key(key: object) -> bool:
    """Whether catalogs write the parameters of a tool under such a key."""
    return _INPUT.fullmatch(_fold_key(key)) is not None


def is_output_key(key: object) -> bool:
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
        lost = any(map(looks_like_parameters, (value, *within))) or (value and is_input_key(key))
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
