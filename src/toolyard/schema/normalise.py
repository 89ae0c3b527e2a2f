"""Catalog dialects -> fields of a `Tool` and JSON Schema, with a note of every change.

OpenAI wraps a function, Anthropic says `input_schema`, MCP `inputSchema` and `annotations`, ARP `returns`. Keys
that mean nothing here are the user's and go to `metadata`. Schemas are written as `"type": "dict"`, with
`"required": true` on a property, as bare property maps, parameter lists, OpenAPI's `nullable` and draft-4 limits.
Each is rewritten to what its author meant; what cannot be read is refused by the compiler afterwards. The input is
never modified.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.errors import DefinitionError, InvalidSchemaError
from toolyard.model.json_words import JSON_TYPES, SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES, json_type, pointer_of
from toolyard.model.tool import Effects, Tool
from toolyard.schema.typenames import join, read_type

_MAX_DEPTH = 96
"""Deeper than the budget allows, so that the budget's own message is the one a reader sees."""

_MAX_NODES = 20_000
"""Likewise more than the budget's; it stops a schema that shares parts from unfolding without end."""

_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_ANNOTATIONS = frozenset({"default", "example", "examples", "const"})
_TEXTS = frozenset({"title", "description", "format", "pattern", "$ref", "$id", "$comment"})

_KEYWORDS = frozenset(
    SCHEMA_MAPS | SCHEMA_LISTS | SCHEMA_SINGLES | {"default", "const", "example", "discriminator", "xml"}
)
"""Keywords whose value may be a mapping with a 'type' in it."""

_PLAUSIBLE_NAMES = frozenset({"items", "contains", "not", "if", "then", "else"})
"""Keywords that catalogs also use as parameter names."""


class Change(msgspec.Struct, frozen=True):
    """One rewrite: where, and what was done."""

    pointer: str
    what: str


def normalise(schema: Any, *, is_input: bool = True) -> tuple[dict[str, Any], list[Change]]:
    """The schema in plain JSON Schema, and every change that took.

    An input schema always describes an object; an output schema may describe anything.
    """
    work = _Normaliser()
    return work.root(schema, is_input), work.changes


class _Normaliser:
    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._old_draft = False
        self._nodes = 0

    def _note_change(self, path: tuple[str | int, ...], what: str) -> None:
        self.changes.append(Change(pointer_of(path), what))

    def root(self, schema: Any, is_input: bool) -> dict[str, Any]:
        if schema is None:
            self._note_change((), "null replaced by an empty schema")
            return {}
        if isinstance(schema, bool) and not is_input:
            return {} if schema else {"not": {}}
        if isinstance(schema, list):
            schema = self._from_list(schema)
        if not isinstance(schema, dict):
            raise InvalidSchemaError(f"a schema must be an object, not {json_type(schema)}")
        if not schema:
            return {}
        draft = schema.get("$schema")
        self._old_draft = isinstance(draft, str) and any(old in draft for old in _OLD_DRAFTS)
        if is_property_map(schema):
            self._note_change((), "bare property map wrapped as an object schema")
            schema = {"type": "object", "properties": schema}
        elif "properties" not in schema:
            schema = self._gather_loose(schema)
        result = self._normalise_node(schema, ())
        if is_input and result.get("type") != "object":
            result = self._object_root(result)
        return result

    def _gather_loose(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`{"type": "object", "city": {"type": "string"}}`: a property map mixed with the schema around it."""
        loose = [
            key
            for key, value in schema.items()
            if key not in _KEYWORDS and not str(key).startswith("x-") and isinstance(value, dict) and "type" in value
        ]
        if not loose:
            return schema
        self._note_change((), f"{', '.join(map(repr, loose[:5]))} moved under 'properties'")
        rest = {key: value for key, value in schema.items() if key not in loose}
        return {**rest, "properties": {key: schema[key] for key in loose}}

    def _object_root(self, schema: dict[str, Any]) -> dict[str, Any]:
        kind = schema.get("type")
        if kind is None:
            self._note_change((), "type 'object' added")
            return {"type": "object", **schema}
        if isinstance(kind, list) and "object" in kind:
            self._note_change(("type",), "narrowed to 'object'; arguments are always an object")
            return {**schema, "type": "object"}
        raise InvalidSchemaError(f"/type: the input of a tool is an object, not {kind!r}", pointer="/type")

    def _from_list(self, items: list[Any]) -> dict[str, Any]:
        """`[{"name": "city", "type": "string", "required": true}, ...]`."""
        if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
            raise InvalidSchemaError("a list of parameters must hold mappings, each with a 'name'")
        self._note_change((), "parameter list rewritten as an object schema")
        properties: dict[str, Any] = {}
        for index, item in enumerate(items):
            if item["name"] in properties:
                raise InvalidSchemaError(f"parameter {item['name']!r} is listed twice", pointer=f"/{index}")
            properties[item["name"]] = {key: value for key, value in item.items() if key != "name"}
        return {"type": "object", "properties": properties}

    def _normalise_sub(self, schema: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(schema, bool):
            return schema
        if isinstance(schema, str):
            fragment = read_type(schema)
            if fragment is None:
                raise InvalidSchemaError(f"{pointer_of(path)}: {schema[:80]!r} is not a type", pointer=pointer_of(path))
            self._note_change(path, f"type name {schema!r} rewritten as a schema")
            return fragment
        if schema is None:
            self._note_change(path, "null replaced by an empty schema")
            return {}
        if not isinstance(schema, dict):
            where = pointer_of(path)
            raise InvalidSchemaError(f"{where}: a schema must be an object, not {json_type(schema)}", pointer=where)
        return self._normalise_node(schema, path)

    def _normalise_node(self, schema: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
        if len(path) > 2 * _MAX_DEPTH:
            raise InvalidSchemaError(f"schema nests deeper than {_MAX_DEPTH} levels", pointer=pointer_of(path))
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise InvalidSchemaError(f"schema has more than {_MAX_NODES} subschemas", pointer=pointer_of(path))
        out: dict[str, Any] = {}
        for key, value in schema.items():
            if not isinstance(key, str):
                self._note_change(path, f"key {key!r} written as text")
                key = str(key)
            if value is None and key not in _ANNOTATIONS and key != "enum":
                self._note_change((*path, key), "null removed")
                continue
            self._normalise_keyword(out, key, value, (*path, key))
        self._required_flags(out, path)
        self._rewrite_legacy(out, path)
        return out

    def _normalise_keyword(self, out: dict[str, Any], key: str, value: Any, path: tuple[str | int, ...]) -> None:
        if key == "type":
            self._normalise_type(out, value, path)
        elif key in SCHEMA_MAPS:
            out[key] = self._normalise_map(value, path)
        elif key in SCHEMA_LISTS and isinstance(value, list):
            out[key] = [self._normalise_sub(sub, (*path, index)) for index, sub in enumerate(value)]
        elif key == "items" and isinstance(value, list):
            self._tuple_items(out, value, path)
        elif key in SCHEMA_SINGLES:
            out[key] = self._normalise_sub(value, path)
        elif key == "required" and value in ("true", "false"):
            out[key] = self._note_value(path, value == "true", f"text {value!r} read as a boolean")
        elif key == "required" and isinstance(value, str):
            out[key] = self._note_value(path, [value], f"{value!r} wrapped in a list")
        elif key == "required" and _has_repeats(value):
            out[key] = self._note_value(path, list(dict.fromkeys(value)), "repeated names removed")
        elif key == "enum" and not isinstance(value, list):
            out[key] = self._read_enum(value, path)
        elif key == "examples" and not isinstance(value, list):
            out[key] = [self._note_value(path, value, "single value wrapped in a list")]
        elif key in _NUMBERS or key in _COUNTS:
            out[key] = self._read_numeric(key, value, path)
        elif key in _TEXTS and not isinstance(value, str):
            raise InvalidSchemaError(
                f"{pointer_of(path)}: must be text, not {json_type(value)}", pointer=pointer_of(path)
            )
        else:
            _refuse_non_finite(value, path)
            out[key] = value

    def _note_value(self, path: tuple[str | int, ...], value: Any, what: str) -> Any:
        self._note_change(path, what)
        return value

    def _normalise_map(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, list) and path[-1] == "properties":
            value = self._from_list(value)["properties"]
        if not isinstance(value, dict):
            where = pointer_of(path)
            raise InvalidSchemaError(f"{where}: must be an object, not {json_type(value)}", pointer=where)
        names = {name: str(name) for name in value}
        if len(set(names.values())) < len(names):
            raise InvalidSchemaError(f"{pointer_of(path)}: two keys are the same as text", pointer=pointer_of(path))
        for name in names:
            if not isinstance(name, str):
                self._note_change(path, f"key {name!r} written as text")
        return {names[name]: self._normalise_sub(sub, (*path, names[name])) for name, sub in value.items()}

    def _normalise_type(self, out: dict[str, Any], value: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(value, dict):
            # A property that is itself called "type", or a schema written where its type should be.
            self._note_change(path, "schema given as type, merged into its parent")
            out.update(self._normalise_node(value, path))
            return
        names = value if isinstance(value, list) else [value]
        if all(isinstance(name, str) and name in JSON_TYPES for name in names) and names:
            repeated = len(set(names)) < len(names)
            out["type"] = (
                self._note_value(path, list(dict.fromkeys(names)), "repeated names removed") if repeated else value
            )
            return
        fragments = [read_type(name) if isinstance(name, str) else None for name in names]
        if any(fragment is None for fragment in fragments):
            where = pointer_of(path)
            known = ", ".join(sorted(JSON_TYPES))
            raise InvalidSchemaError(f"{where}: unknown type {value!r}; JSON Schema knows {known}", pointer=where)
        merged = join([fragment for fragment in fragments if fragment is not None]) or {}
        said = merged.get("type", "anyOf" if "anyOf" in merged else "anything")
        self._note_change(path, f"type {value!r} read as {said!r}")
        for key, sub in merged.items():
            out.setdefault(key, sub)

    def _tuple_items(self, out: dict[str, Any], value: list[Any], path: tuple[str | int, ...]) -> None:
        items = [self._normalise_sub(sub, (*path, index)) for index, sub in enumerate(value)]
        if self._old_draft:
            out["items"] = items
        else:
            self._note_change(path, "list of item schemas renamed prefixItems")
            out["prefixItems"] = items

    def _read_enum(self, value: Any, path: tuple[str | int, ...]) -> list[Any]:
        if isinstance(value, dict):
            return list(self._note_value(path, list(value), "enum given as a mapping; its keys kept"))
        if isinstance(value, (str, int, float)):
            return [self._note_value(path, value, "single value wrapped in a list")]
        raise InvalidSchemaError(
            f"{pointer_of(path)}: must be a list, not {json_type(value)}", pointer=pointer_of(path)
        )

    def _read_numeric(self, key: str, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, str):
            fixed = _read_number(value)
            if fixed is not None:
                return self._note_value(path, fixed, f"text {value!r} read as a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidSchemaError(f"{pointer_of(path)}: must be a finite number", pointer=pointer_of(path))
        if key in _COUNTS and isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    def _required_flags(self, out: dict[str, Any], path: tuple[str | int, ...]) -> None:
        """`"required": true` on a property belongs in the list of its parent."""
        properties = out.get("properties")
        if not isinstance(properties, dict):
            return
        for name, sub in properties.items():
            flag = sub.get("required") if isinstance(sub, dict) else None
            if isinstance(flag, bool):
                properties[name] = {key: value for key, value in sub.items() if key != "required"}
                self._note_change((*path, "properties", name, "required"), "moved to the 'required' list of its parent")
                required = out.get("required", [])
                if flag and isinstance(required, list) and name not in required:
                    out["required"] = [*required, name]

    def _rewrite_legacy(self, out: dict[str, Any], path: tuple[str | int, ...]) -> None:
        """OpenAPI 3.0 and draft-4 spellings inside a schema that claims no old draft."""
        if out.get("nullable") is True and isinstance(out.get("type"), str):
            self._note_change((*path, "nullable"), "written as type 'null'")
            out["type"] = [out["type"], "null"]
            if isinstance(out.get("enum"), list) and None not in out["enum"]:
                out["enum"] = [*out["enum"], None]
            del out["nullable"]
        if out.get("nullable") is True and ("$ref" in out or "anyOf" in out or "oneOf" in out):
            self._note_change((*path, "nullable"), "written as anyOf with type 'null'")
            rest = {key: value for key, value in out.items() if key != "nullable"}
            out.clear()
            out["anyOf"] = [rest, {"type": "null"}]
        if self._old_draft:
            return
        for flag, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(out.get(flag), bool):
                self._note_change((*path, flag), f"draft-4 flag merged with {limit!r}")
                if out.pop(flag) and limit in out:
                    out[flag] = out.pop(limit)


def is_property_map(schema: dict[str, Any]) -> bool:
    """True for `{"city": {"type": "string"}, ...}`: names to schemas, without the object around it."""
    if not all(isinstance(value, (dict, str)) for value in schema.values()):
        return False
    if any(isinstance(value, str) for value in schema.values()):
        # {"city": "string"}: all type words, and none of them where a keyword of that name takes text.
        return not (schema.keys() & (_TEXTS | {"type", "$schema"})) and all(
            isinstance(value, dict) or read_type(value) is not None for value in schema.values()
        )
    # Only dicts: a keyword that takes a schema or a map of schemas would also look like this.
    keywords = schema.keys() & (SCHEMA_MAPS | SCHEMA_SINGLES)
    return keywords <= _PLAUSIBLE_NAMES | SCHEMA_MAPS and all(
        isinstance(schema[key].get("type"), str) for key in keywords
    )


def _has_repeats(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(n, str) for n in names) and len(set(names)) < len(names)


def _refuse_non_finite(value: Any, path: tuple[str | int, ...]) -> None:
    stack = [value]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if isinstance(item, (dict, list, tuple)):
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, float) and not math.isfinite(item):
            where = pointer_of(path)
            raise InvalidSchemaError(f"{where}: NaN and Infinity are not JSON", pointer=where)
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)


def _read_number(text: str) -> int | float | None:
    for convert in (int, float):
        try:
            value = convert(text)
        except ValueError:
            continue
        return value if math.isfinite(value) else None
    return None


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
        fields["effects"] = hinted_effects(metadata.get("annotations"))
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


def hinted_effects(annotations: Any) -> Effects:
    """What the annotations of an MCP tool say it does."""
    if isinstance(annotations, Mapping):
        if annotations.get("readOnlyHint") is True:
            return Effects.READ
        if annotations.get("destructiveHint") is True or annotations.get("readOnlyHint") is False:
            return Effects.WRITE
    return Effects.UNKNOWN
