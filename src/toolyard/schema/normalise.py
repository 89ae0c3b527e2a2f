"""Rewrite the schema dialects of catalogs as JSON Schema, with a note of every change.

Catalogs write `"type": "dict"`, `"required": true` on a property, bare property maps, parameter lists, `desc` and
`choices`, OpenAPI's `nullable` and draft-4 limits. Each is rewritten to what its author meant; what remains invalid is
rejected by the compiler afterwards. The input is never modified.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_schema import JSON_TYPES, SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES, json_type, pointer_of
from toolyard.schema.compile import read_pattern
from toolyard.schema.subschemas import Path
from toolyard.schema.typenames import join_fragments, read_default, read_described, read_flag, read_number, read_type

_MAX_DEPTH = 96
"""Deeper than the budget allows, so that the error comes from the budget check."""

_MAX_NODES = 20_000
"""Likewise above the budget; it stops a schema with shared parts from expanding without limit."""

_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
_SPELLINGS: dict[str, tuple[str, type]] = {
    **dict.fromkeys(("desc", "help", "llm_description"), ("description", str)),
    **dict.fromkeys(("choices", "options", "allowed_values", "possible_values", "enum_values"), ("enum", list)),
    **dict.fromkeys(("data_type", "dataType", "dtype", "type_"), ("type", str)),
    **dict.fromkeys(("default_value", "defaultValue"), ("default", object)),
    **dict.fromkeys(("is_required", "isRequired"), ("required", bool)),
}
"""Other names of keywords in catalogs, with the type that the value must have."""

_FLAGS = ("required", "optional")
_FLAG_WORDS = {"true": True, "yes": True, "required": True, "false": False, "no": False, "optional": False}

_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_ANNOTATIONS = frozenset({"default", "example", "examples", "const"})
_TEXTS = frozenset({"title", "description", "format", "pattern", "$ref", "$id", "$comment"})

_KEYWORDS = frozenset(
    SCHEMA_MAPS | SCHEMA_LISTS | SCHEMA_SINGLES | {"default", "const", "example", "discriminator", "xml"}
)
"""Keywords whose value may be a mapping that contains 'type'."""

ITEM_NAMES = ("name", "parameter", "param", "argument", "arg", "key", "field", "property")
"""Keys that name the items of a parameter list."""

_KNOWN = (
    _KEYWORDS
    | _NUMBERS
    | _COUNTS
    | _ANNOTATIONS
    | _TEXTS
    | {"type", "required", "enum", "uniqueItems", "nullable", "optional", "deprecated", "readOnly", "writeOnly"}
    | {"dependentRequired", "dependencies", "contentEncoding", "contentMediaType", "minContains", "maxContains"}
    | {"strict", "externalDocs", "collectionFormat"}
)
"""Keys of a schema that are not reported as unknown."""

_PLAUSIBLE_NAMES = frozenset({"items", "contains", "not", "if", "then", "else"})
"""Keywords that catalogs also use as parameter names."""


class Change(msgspec.Struct, frozen=True):
    """One rewrite: its place, and a description."""

    pointer: str
    what: str


def normalise(schema: Any, *, is_input: bool = True) -> tuple[dict[str, Any], list[Change]]:
    """The schema as plain JSON Schema, with every change.

    An input schema always describes an object; an output schema may describe anything.
    """
    work = _Normaliser()
    return work.root(schema, is_input), work.changes


class _Normaliser:
    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._old_draft = False
        self._nodes = 0

    def _note_change(self, path: Path, what: str) -> None:
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
            schema = self._read_texts(schema) if _has_descriptions(schema) else self._gather_loose(schema)
        result = self._normalise_node(schema, ())
        if is_input and result.get("type") != "object":
            result = self._object_root(result)
        return result

    def _gather_loose(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`{"type": "object", "city": {"type": "string"}}`: properties written beside the keywords of their schema."""
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

    def _read_texts(self, schema: dict[str, Any]) -> dict[str, Any]:
        """`{"city": "The name of the city", "days": "integer: How many"}`: names mapped to descriptions."""
        self._note_change((), "names with descriptions rewritten as an object schema")
        texts = {name: value for name, value in schema.items() if isinstance(value, str) and read_type(value) is None}
        told = {name: read_described(text) or {"description": text} for name, text in texts.items()}
        return {"type": "object", "properties": {**schema, **told}}

    def _object_root(self, schema: dict[str, Any]) -> dict[str, Any]:
        kind = schema.get("type")
        if kind is None:
            self._note_change((), "type 'object' added")
            if schema.get("nullable") is True:
                self._note_change(("nullable",), "removed; arguments are always an object")
                schema = {key: value for key, value in schema.items() if key != "nullable"}
            return {"type": "object", **schema}
        if isinstance(kind, list) and "object" in kind:
            self._note_change(("type",), "narrowed to 'object'; arguments are always an object")
            return {**schema, "type": "object"}
        raise InvalidSchemaError(f"/type: the input of a tool is an object, not {kind!r}", pointer="/type")

    def _from_list(self, items: list[Any]) -> dict[str, Any]:
        """`[{"name": "city", "type": "string", "required": true}, ...]`."""
        self._note_change((), "parameter list rewritten as an object schema")
        properties: dict[str, Any] = {}
        for index, item in enumerate(items):
            name, sub = _read_parameter_item(item)
            if name in properties:
                raise InvalidSchemaError(f"parameter {name!r} is listed twice", pointer=f"/{index}")
            properties[name] = sub
        return {"type": "object", "properties": properties}

    def _normalise_sub(self, schema: Any, path: Path) -> Any:
        if isinstance(schema, bool):
            return schema
        if isinstance(schema, str):
            fragment = read_described(schema) or read_type(schema)
            if fragment is None:
                raise _invalid(path, f"{schema[:80]!r} is not a type")
            self._note_change(path, f"type name {schema!r} rewritten as a schema")
            return self._flag_property(fragment, schema, path)
        if schema is None:
            self._note_change(path, "null replaced by an empty schema")
            return {}
        if not isinstance(schema, dict):
            raise _invalid(path, f"a schema must be an object, not {json_type(schema)}")
        return self._normalise_node(schema, path)

    def _normalise_node(self, schema: dict[str, Any], path: Path) -> dict[str, Any]:
        if len(path) > 2 * _MAX_DEPTH:
            raise InvalidSchemaError(f"schema nests deeper than {_MAX_DEPTH} levels", pointer=pointer_of(path))
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise InvalidSchemaError(f"schema has more than {_MAX_NODES} subschemas", pointer=pointer_of(path))
        out: dict[str, Any] = {}
        for key, value in self._respell(schema, path).items():
            if not isinstance(key, str):
                self._note_change(path, f"key {key!r} written as text")
                key = str(key)
            if value is None and key not in _ANNOTATIONS and key != "enum":
                self._note_change((*path, key), "null removed")
                continue
            self._normalise_keyword(out, key, value, (*path, key))
        if "pattern" in out:
            self._rewrite_pattern(out, path)
        self._required_flags(out, path)
        self._rewrite_legacy(out, path)
        if isinstance(out.get("default"), str) and "type" in out:
            read = read_default(out, out["default"])
            if read and read["default"] != out["default"] and not isinstance(read["default"], str):
                self._note_change((*path, "default"), f"text {out['default']!r} read as its type says")
                out |= read
        return out

    def _respell(self, schema: dict[str, Any], path: Path) -> dict[str, Any]:
        """Rename alternative spellings of keywords, unless the proper keyword is also present."""
        if str(schema.get("type")).lower() == "enum" and any(key in schema for key in ("enum", "choices", "options")):
            self._note_change((*path, "type"), f"type {schema['type']!r} removed; the values say it")
            schema = {key: value for key, value in schema.items() if key != "type"}
        if _SPELLINGS.keys().isdisjoint(schema):
            return schema
        out: dict[str, Any] = {}
        for key, value in schema.items():
            keyword, kind = _SPELLINGS.get(key, (key, object))
            value = _read_choices(value) if kind is list else value
            if keyword == key or keyword in schema or keyword in out or not _is_value(value, kind):
                keyword = key
            else:
                self._note_change((*path, key), f"{key!r} read as {keyword!r}")
            out[keyword] = value
        return out

    def _normalise_keyword(self, out: dict[str, Any], key: str, value: Any, path: Path) -> None:
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
        elif key in _FLAGS and isinstance(value, str) and value.lower() in _FLAG_WORDS:
            out[key] = self._note_value(path, _FLAG_WORDS[value.lower()], f"text {value!r} read as a boolean")
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
            raise _invalid(path, f"must be text, not {json_type(value)}")
        else:
            _refuse_non_finite(value, path)
            out[key] = value

    def _note_value(self, path: Path, value: Any, what: str) -> Any:
        self._note_change(path, what)
        return value

    def _normalise_map(self, value: Any, path: Path) -> Any:
        if isinstance(value, list) and path[-1] == "properties":
            value = self._from_list(value)["properties"]
        if not isinstance(value, dict):
            raise _invalid(path, f"must be an object, not {json_type(value)}")
        names = {name: str(name) for name in value}
        if len(set(names.values())) < len(names):
            raise _invalid(path, "two keys are the same as text")
        for name in names:
            if not isinstance(name, str):
                self._note_change(path, f"key {name!r} written as text")
        return {names[name]: self._normalise_sub(sub, (*path, names[name])) for name, sub in value.items()}

    def _normalise_type(self, out: dict[str, Any], value: Any, path: Path) -> None:
        if isinstance(value, dict):
            # A property that is itself called "type", or a schema in the place of its type.
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
            raise _invalid(path, f"unknown type {value!r}; JSON Schema knows {', '.join(sorted(JSON_TYPES))}")
        merged = join_fragments([fragment for fragment in fragments if fragment is not None]) or {}
        said = merged.get("type", "anyOf" if "anyOf" in merged else "anything")
        self._note_change(path, f"type {value!r} read as {said!r}")
        for key, sub in self._flag_property(merged, value, path[:-1]).items():
            out.setdefault(key, sub)

    def _flag_property(self, schema: dict[str, Any], written: Any, path: Path) -> dict[str, Any]:
        """`"int, optional"` as the type of a property means the same as `"optional": true`."""
        flag = read_flag(written) if isinstance(written, str) and path[-2:-1] == ("properties",) else None
        return schema if flag is None else {**schema, flag: True}

    def _tuple_items(self, out: dict[str, Any], value: list[Any], path: Path) -> None:
        items = [self._normalise_sub(sub, (*path, index)) for index, sub in enumerate(value)]
        if self._old_draft:
            out["items"] = items
        else:
            self._note_change(path, "list of item schemas renamed prefixItems")
            out["prefixItems"] = items

    def _read_enum(self, value: Any, path: Path) -> list[Any]:
        if isinstance(value, dict):
            return list(self._note_value(path, list(value), "enum given as a mapping; its keys kept"))
        if isinstance(value, (str, int, float)):
            return [self._note_value(path, value, "single value wrapped in a list")]
        raise _invalid(path, f"must be an array, not {json_type(value)}")

    def _read_numeric(self, key: str, value: Any, path: Path) -> Any:
        if isinstance(value, str):
            fixed = read_number(value)
            if fixed is not None:
                return self._note_value(path, fixed, f"text {value!r} read as a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise _invalid(path, "must be a finite number")
        if key in _COUNTS and isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    def _rewrite_pattern(self, out: dict[str, Any], path: Path) -> None:
        read = read_pattern(out)
        if read is not None and read["pattern"] != out["pattern"]:
            form = (
                "its count of characters moved to minLength and maxLength"
                if len(read) > 1
                else "a pattern read as JavaScript does"
            )
            self._note_change((*path, "pattern"), form)
            out |= read

    def _required_flags(self, out: dict[str, Any], path: Path) -> None:
        """Move `"required": true` or `"optional": false` on a property to the `required` list of its parent."""
        properties = out.get("properties")
        if not isinstance(properties, dict):
            return
        flags: dict[str, bool] = {}
        said: set[str] = set()
        for name, sub in list(properties.items()):
            found = {key: sub[key] for key in _FLAGS if isinstance(sub.get(key), bool)} if isinstance(sub, dict) else {}
            if found:
                said |= found.keys()
                flags[name] = found.get("required", not found.get("optional", True))
                properties[name] = {key: value for key, value in sub.items() if key not in found}
                where = (*path, "properties", name, next(iter(found)))
                self._note_change(where, "moved to the 'required' list of its parent")
        if said == {"optional"} and not any(flags.values()) and "required" not in out:
            # If only optional parameters are marked, the others are required,
            # unless they have a default.
            given = {name for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub}
            flags = {name: flags.get(name, name not in given) for name in properties}
        required = out.get("required", [])
        more = [name for name, flag in flags.items() if flag and isinstance(required, list) and name not in required]
        if more:
            out["required"] = [*required, *more]

    def _rewrite_legacy(self, out: dict[str, Any], path: Path) -> None:
        """Rewrite OpenAPI 3.0 and draft-4 spellings in a schema that does not declare an old draft."""
        if isinstance(out.get("required"), bool) and path[-2:-1] != ("properties",):
            self._note_change((*path, "required"), "removed; only a property can be required")
            del out["required"]
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


def _invalid(path: Path, problem: str) -> InvalidSchemaError:
    pointer = pointer_of(path)
    return InvalidSchemaError(f"{pointer}: {problem}", pointer=pointer)


def _is_value(value: Any, kind: type) -> bool:
    """True for a value of that type; a list must be non-empty and contain only scalars, as an enum does."""
    if kind is list and isinstance(value, list):
        return bool(value) and not any(isinstance(item, (dict, list)) for item in value)
    return isinstance(value, kind)


def _read_choices(value: Any) -> Any:
    """`[{"value": "a", "label": ...}, ...]` as `["a", ...]`; anything else unchanged."""
    values = [item.get("value") for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return values if values and len(values) == len(value) and all(isinstance(item, str) for item in values) else value


def _has_repeats(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(n, str) for n in names) and len(set(names)) < len(names)


def _refuse_non_finite(value: Any, path: Path) -> None:
    stack = [value]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise _invalid(path, "NaN and Infinity are not JSON")
        if isinstance(item, (dict, list, tuple)) and id(item) not in seen:
            seen.add(id(item))
            stack.extend(item.values() if isinstance(item, dict) else item)


def _has_descriptions(schema: dict[str, Any]) -> bool:
    """Whether the schema maps names to descriptions, some of which may be schemas."""
    if all(str(key).startswith("x-") or key == "$schema" for key in schema):
        return False  # annotations only, no properties
    if has_typed_descriptions(schema):
        return True
    return _KNOWN.isdisjoint(schema) and all(isinstance(value, (str, dict)) for value in schema.values())


def has_typed_descriptions(schema: dict[str, Any]) -> bool:
    """Whether the schema maps names to sentences, some of which begin with a type, so its keys are not keywords."""
    texts = [value for value in schema.values() if isinstance(value, str)]
    named = not schema.keys() <= _KNOWN and (not isinstance(schema.get("type"), str) or len(schema["type"].split()) > 1)
    return named and len(texts) == len(schema) and any(read_described(text) is not None for text in texts)


def find_unknown_keys(schema: dict[str, Any]) -> list[str]:
    """Keys of an input schema without properties that have no meaning in a schema or in any known dialect."""
    if is_property_map(schema) or _has_descriptions(schema):
        return []
    return [
        key
        for key, value in schema.items()
        if not (key in _KNOWN or str(key).startswith(("x-", "$")) or (isinstance(value, dict) and "type" in value))
    ]


def _read_parameter_item(item: Any) -> tuple[str, Any]:
    """Name and schema of an item of a parameter list: also a bare name, `{"city": {...}}`, and OpenAPI's `schema`."""
    if isinstance(item, str):
        return item, {}
    if isinstance(item, dict):
        key = next((key for key in ITEM_NAMES if isinstance(item.get(key), str)), None)
        if key is not None:
            inner = item["schema"] if isinstance(item.get("schema"), dict) else {}
            rest = {other: value for other, value in item.items() if other != key and value is not inner}
            return item[key], {**inner, **rest}
        if len(item) == 1 and _KNOWN.isdisjoint(item):
            return next((str(name), sub) for name, sub in item.items())
    raise InvalidSchemaError("an array of parameters must hold objects, each with a 'name'")


def is_property_map(schema: dict[str, Any]) -> bool:
    """True for `{"city": {"type": "string"}, ...}`: names mapped to schemas, without the enclosing object schema."""
    if not all(isinstance(value, (dict, str)) for value in schema.values()):
        return False
    if any(isinstance(value, str) for value in schema.values()):
        # {"city": "string", "description": "string"}: only type names, and text stands not beside keywords alone.
        is_schema = schema.keys() <= (_KNOWN if schema.keys() & _TEXTS else _ANNOTATIONS)
        if is_schema or schema.keys() & {"type", "$schema", "$ref", "$id", "$comment"}:
            return False
        return all(isinstance(value, dict) or read_type(value) is not None for value in schema.values())
    # Only dicts: this shape is also that of a keyword that takes a schema or a map of schemas.
    keywords = schema.keys() & (SCHEMA_MAPS | SCHEMA_SINGLES)
    return keywords <= _PLAUSIBLE_NAMES | SCHEMA_MAPS and all(
        isinstance(schema[key].get("type"), str) for key in keywords
    )
