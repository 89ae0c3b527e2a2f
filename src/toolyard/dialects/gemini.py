"""Gemini's generateContent: function declarations and their schema, and calls and responses as parts of contents.

The schema is a subset of OpenAPI 3.0. References are inlined, `allOf` is folded, null becomes `nullable`. Types are
upper case, as in the REST reference. A union is an `anyOf` with nothing beside it, since Vertex AI refuses even a
description there: description and `nullable` move into the alternatives. For a schema of one type, keywords are
converted group by group (`write_...`); those Gemini does not support are logged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from toolyard.dialects.base import Dialect, RawCall, drop_none
from toolyard.dialects.input_schema import object_root
from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    answer_fields,
    arguments_object,
    entries,
    error_of,
    error_value,
    fields,
    pick,
    records,
)
from toolyard.model import Schema, Tool, ToolCall, ToolResult
from toolyard.model.json_schema import JSON_TYPES, json_type
from toolyard.schema.fold import DOCUMENT_KEYWORDS, fold_schema, join_schemas
from toolyard.schema.subschemas import Path, References, SubSchema, allowed_values, is_schema, mapping_of, types_of

_CALL = ("functionCall", "function_call")


class GeminiDialect(Dialect):
    """generateContent: `functionDeclarations`, `functionCall` and `functionResponse`."""

    name = "gemini"

    def _wrap_tools(self, wire: list[Json]) -> list[Json]:
        return [{"functionDeclarations": wire}] if wire else []

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        declaration: Json = {"name": wire_name, "description": tool.description}
        parameters = gemini_schema(tool.parameters, log)
        return declaration if parameters is None else {**declaration, "parameters": parameters}

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        for part in _list_parts(response):
            call = fields(pick(part, *_CALL))
            if call:
                yield RawCall(call.get("name"), call.get("args"), call.get("id"))

    def add_event(self, answer: list[Json], event: object) -> str:
        """Add a `GenerateContentResponse`; `answer` becomes one content.

        Parts are kept unchanged, since they may be signed.
        """
        candidates = entries(answer_fields(event).get("candidates"))
        content = fields(fields(candidates[0]).get("content")) if candidates else {}
        parts = [drop_none(fields(part)) for part in entries(content.get("parts"))]
        if not answer:
            answer.append({"role": "model", "parts": []})
        answer[0]["parts"] += parts
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought"))

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """Return one content of role `model`.

        Models that sign their thoughts reject a current turn rebuilt this way: send their own content back instead, and
        use this for calls that come from elsewhere.
        """
        parts: list[Json] = []
        for call in calls:
            body: Json = {"name": self._wire_name(call), "args": arguments_object(call.arguments)}
            parts.append({_CALL[0]: body if call.call_id is None else {"id": call.call_id, **body}})
        return [{"role": "model", "parts": parts}] if parts else []

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """Return one content of role `user`; each response is `{"result": ...}` or `{"error": {...}}`."""
        parts: list[Json] = []
        for result in results:
            info = error_of(result)
            response = {"result": result.result} if info is None else error_value(info)
            body: Json = {"name": self._names.encode_name(result.name, result.overload), "response": response}
            parts.append({"functionResponse": body if result.call_id is None else {"id": result.call_id, **body}})
        return [{"role": "user", "parts": parts}] if parts else []


def _list_parts(payload: object) -> Iterator[Json]:
    """The parts of a response's first candidate, of one content or several, or a list of parts."""
    for record in records(payload):
        candidates = entries(record.get("candidates"))
        content = fields(fields(candidates[0]).get("content")) if candidates else fields(record.get("content"))
        parts = (content or record).get("parts")
        if isinstance(parts, (list, tuple)):
            yield from map(fields, parts)
        elif isinstance(record.get("contents"), (list, tuple)):
            yield from _list_parts(record["contents"])
        elif "args" in record and "name" in record:
            yield {_CALL[0]: record}
        else:
            yield record


GEMINI_KEYWORDS = frozenset(
    {"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"}
    | {"required", "propertyOrdering", "minProperties", "maxProperties", "minimum", "maximum", "minLength"}
    | {"maxLength", "pattern", "example", "default", "anyOf"}
)
"""All keywords of Gemini's Schema object; a request with any other is refused."""

_NUMERIC = ("integer", "number")
_TYPES_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"), ("string",)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMERIC),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"), ("array",)),
    **dict.fromkeys(("contains", "minContains", "maxContains", "unevaluatedItems"), ("array",)),
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), ("object",)),
    **dict.fromkeys(("propertyNames", "minProperties", "maxProperties", "dependentRequired"), ("object",)),
    **dict.fromkeys(("dependentSchemas", "unevaluatedProperties"), ("object",)),
}
"""The types each keyword applies to; beside any other type it has no effect."""

_FORMATS = {"string": ("date-time", "enum"), "number": ("float", "double"), "integer": ("int32", "int64")}
_VOID_WHEN_FALSE = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
_HANDLED_KEYWORDS = GEMINI_KEYWORDS | {"const", "examples", "exclusiveMinimum", "exclusiveMaximum", "prefixItems"}


def implied_types(flat: Schema) -> list[str]:
    """The types that the other keywords of a schema without `type` imply; empty if there is no evidence."""
    values = allowed_values(flat)
    if values is not None:
        return list(dict.fromkeys(json_type(value) for value in values if value is not None))
    found = [name for key in flat for name in _TYPES_OF.get(key, ())[-1:]]
    return list(dict.fromkeys(found))


def add_description(out: Schema, text: object, *, first: bool = False) -> None:
    """Add a sentence to the description of `out`, unless it already contains it."""
    if not isinstance(text, str) or not text:
        return
    old = out.get("description", "")
    if text not in old:
        out["description"] = " ".join(part for part in ((text, old) if first else (old, text)) if part)


def write_texts(flat: Schema, kind: str, path: Path, log: ChangeLog) -> Schema:
    """Convert title, description, default, example and format, and a string's pattern."""
    out: Schema = {}
    for key in ("title", "description", *(("pattern",) if kind == "string" else ())):
        if isinstance(flat.get(key), str):
            out[key] = flat[key]
        elif key in flat:
            log.add((*path, key), f"{key} dropped: it is not text")
    if flat.get("default") is not None:
        out["default"] = flat["default"]
    elif "default" in flat:
        log.add((*path, "default"), "the default null is dropped: Gemini has no such value")
    if "example" in flat:
        out["example"] = flat["example"]
    elif isinstance(flat.get("examples"), list) and flat["examples"]:
        out["example"] = flat["examples"][0]
        if len(flat["examples"]) > 1:
            log.add((*path, "examples"), "only the first of the examples is kept")
    name = flat.get("format")
    if name in _FORMATS.get(kind, ()):
        out["format"] = name
    elif name is not None:
        log.add((*path, "format"), f"format {name!r} dropped: Gemini does not accept it for {kind}")
    return out


def write_values(flat: Schema, kind: str, path: Path, log: ChangeLog) -> Schema:
    """Convert `enum` and `const`: an `enum` for strings, a sentence in the description for other types."""
    allowed = allowed_values(flat)
    if allowed is None:
        return {}
    key = "const" if "const" in flat else "enum"
    kinds = ("integer", "number") if kind == "number" else (kind,)
    fitting = [value for value in allowed if json_type(value) in kinds]
    names = list(dict.fromkeys(value for value in fitting if isinstance(value, str) and value))
    if not fitting:
        log.add((*path, key), f"{key} dropped: none of its values is of type {kind}")
        return {}
    if names and "" not in fitting:
        return {"enum": names}
    if names:
        log.add((*path, key), f"{key} without the empty text, which Gemini refuses there")
        return {"enum": names, "description": "May also be empty."}
    log.add((*path, key), f"{key} moved to the description: Gemini has it for text alone")
    return {"description": f"Allowed values: {', '.join(map(json.dumps, fitting))}."}


def write_counts(flat: Schema, keys: tuple[str, ...], path: Path, log: ChangeLog) -> Schema:
    """Convert limits that must be non-negative integers."""
    out: Schema = {}
    for key in keys:
        value = flat.get(key)
        if is_number(value) and value >= 0 and value == int(value):
            out[key] = int(value)
        elif value is not None:
            log.add((*path, key), f"{key} dropped: it is not a whole number")
    return out


_PLAIN_BOUNDS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "minimum",
    "exclusiveMaximum": "maximum",
}
"""The bounds, and the one that Gemini has in place of each."""


def write_bounds(flat: Schema, kind: str, path: Path, log: ChangeLog) -> Schema:
    """Convert numeric bounds; an exclusive bound of an integer becomes the next integer inside it."""
    out: Schema = {}
    for key, plain in _PLAIN_BOUNDS.items():
        value = flat.get(key)
        if not is_number(value):
            if key in flat:
                log.add((*path, key), f"{key} dropped: it is not a number")
            continue
        if key != plain and kind == "integer":
            value = math.floor(value) + 1 if plain == "minimum" else math.ceil(value) - 1
        elif key != plain:
            log.add((*path, key), f"{key} became {plain}: Gemini cannot exclude the bound itself")
        out[plain] = (max if plain == "minimum" else min)(out.get(plain, value), value)
    return out


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether the value is a finite JSON number."""
    # An integer may be too large for `isfinite`.
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)


def log_unknown(flat: Schema, kind: str, path: Path, log: ChangeLog) -> None:
    """Log the keywords that apply to this type and that Gemini does not support."""
    for key, value in flat.items():
        if key in _HANDLED_KEYWORDS or key in DOCUMENT_KEYWORDS or (value is False and key in _VOID_WHEN_FALSE):
            continue
        if key not in _TYPES_OF:
            log.add((*path, key), f"{key} dropped: Gemini has no such keyword")
        elif kind in _TYPES_OF[key]:
            state = "false " if value is False else ""
            log.add((*path, key), f"{key} {state}dropped: Gemini has no such keyword")


_MAX_UNROLLED = 2
"""How many times a recursive definition is expanded inside itself."""
_MAX_NODES = 3_000
_MAX_DEPTH = 100
_MAX_ALTERNATIVES = 32
_ANNOTATIONS = frozenset({"title", "description", "default", "example", "examples", "nullable"})


def gemini_schema(schema: Schema, log: ChangeLog) -> Schema | None:
    """Return a declaration's `parameters`; None for a tool without any, since Gemini refuses an empty object."""
    root = object_root(schema, log)
    written = _GeminiWriter(References(root), log).node(root, (), ())
    return written if written.get("properties") else None


class _GeminiWriter:
    def __init__(self, refs: References, log: ChangeLog) -> None:
        self._refs = refs
        self._log = log
        self._nodes = 0

    def node(self, schema: SubSchema, path: Path, trail: tuple[str, ...]) -> Schema:
        """Convert one schema; `trail` holds the references followed on the way to it."""
        self._nodes += 1
        if not isinstance(schema, dict):
            if schema is False:
                self._log.add(path, "a schema that accepts nothing became one that accepts anything")
            return self._write_anything({}, path)
        if self._nodes > _MAX_NODES or len(path) > _MAX_DEPTH:
            self._log.add(path, "left open: the schema is too large once its references are written out")
            return _open_object(schema, "Any object.")
        flat, followed = fold_schema(schema, self._refs, lambda change: self._log.add(path, change))
        again = next((ref for ref in followed if trail.count(ref) >= _MAX_UNROLLED), None)
        if again is not None:
            self._log.add(path, f"recursion through {again} cut after {_MAX_UNROLLED} levels")
            return _open_object(flat, f"Recursive: the same shape as {again.rpartition('/')[2]} above.")
        trail += followed
        branches = self._write_alternatives(flat, path)
        if branches is not None:
            return self._write_union(flat, branches, path, trail)
        return self._write_typed(flat, path, trail)

    def _write_alternatives(self, flat: Schema, path: Path) -> list[SubSchema] | None:
        """Remove `anyOf` and `oneOf` from `flat` and return the branches; None if it has neither."""
        found: list[list[SubSchema]] = []
        is_told_apart = "oneOf" in flat and "discriminator" in flat
        if is_told_apart:
            del flat["discriminator"]
            self._log.add((*path, "discriminator"), "discriminator dropped: Gemini has no such keyword")
        for key in ("anyOf", "oneOf"):
            listed = flat.pop(key, None)
            if not isinstance(listed, list):
                continue
            branches: list[SubSchema] = [branch for branch in listed if is_schema(branch) and branch is not False]
            if key == "oneOf" and not is_told_apart and not _has_exclusive_branches(branches):
                self._log.add((*path, key), "oneOf became anyOf: Gemini cannot demand exactly one")
            if branches:
                found.append(branches)
            else:
                self._log.add((*path, key), f"{key} dropped: it accepts nothing")
        if len(found) == 2 and len(found[0]) * len(found[1]) > _MAX_ALTERNATIVES:
            self._log.add((*path, "oneOf"), "oneOf beside a long anyOf dropped")
            found.pop()
        if len(found) == 2:
            return [join_schemas(one, other) for one in found[0] for other in found[1]]
        return found[0] if found else None

    def _write_union(self, base: Schema, branches: list[SubSchema], path: Path, trail: tuple[str, ...]) -> Schema:
        names = types_of(base.get("type"))
        real = [branch for branch in branches if not _is_null(branch)]
        nullable = base.get("nullable") is True or (len(real) < len(branches) and (not names or "null" in names))
        if len(real) <= 1:
            only = {"allOf": [base, *real]} if real else {**base, "type": "null"}
            return _with_null(self.node(only, path, trail)) if nullable else self.node(only, path, trail)
        limits = {key: value for key, value in base.items() if key not in _ANNOTATIONS | DOCUMENT_KEYWORDS}
        written: list[Schema] = []
        for index, branch in enumerate(real):
            sub = self.node({"allOf": [limits, branch]} if limits else branch, (*path, "anyOf", index), trail)
            written.extend(item for item in sub.get("anyOf", [sub]) if item not in written)
        for key in ("title", "default", "example", "examples"):
            if base.get(key) is not None:
                self._log.add((*path, key), f"{key} dropped: Gemini allows nothing beside anyOf")
        return _any_of(_one_enum(written), base.get("description"), nullable=nullable)

    def _write_typed(self, flat: Schema, path: Path, trail: tuple[str, ...]) -> Schema:
        declared = types_of(flat.get("type"))
        names = [name for name in dict.fromkeys(declared) if name in JSON_TYPES]
        if len(names) < len(set(declared)):
            self._log.add((*path, "type"), "a type that JSON Schema does not have was dropped")
        allowed = allowed_values(flat)
        nullable = "null" in names or flat.get("nullable") is True or (not names and None in (allowed or ()))
        nullable = nullable and (allowed is None or None in allowed)
        kinds = [name for name in names if name != "null" and not (name == "integer" and "number" in names)]
        if not names:
            kinds = implied_types(flat)
            if kinds and allowed is None:
                self._log.add(path, f"type {' or '.join(kinds)} read from the keywords beside it")
            elif not kinds and not nullable:
                return self._write_anything(flat, path)
        if not kinds:
            return {"type": "NULL", **write_texts({**flat, "format": None}, "null", path, self._log)}
        if len(kinds) > 1:
            rest = {key: value for key, value in flat.items() if key not in ("type", "nullable")}
            null: list[SubSchema] = [{"type": "null"}] if nullable else []
            return self._write_union(rest, [*({"type": kind} for kind in kinds), *null], path, trail)
        out = self._of_kind(kinds[0], flat, path, trail)
        return _with_null(out) if nullable else out

    def _of_kind(self, kind: str, flat: Schema, path: Path, trail: tuple[str, ...]) -> Schema:
        out: Schema = {"type": kind.upper(), **write_texts(flat, kind, path, self._log)}
        limits = write_values(flat, kind, path, self._log)
        add_description(out, limits.pop("description", None))
        if kind == "string":
            limits |= write_counts(flat, ("minLength", "maxLength"), path, self._log)
        elif kind in ("integer", "number"):
            limits |= write_bounds(flat, kind, path, self._log)
        elif kind == "array":
            limits |= self._write_array(flat, path, trail)
        elif kind == "object":
            limits |= self._write_object(flat, path, trail)
        log_unknown(flat, kind, path, self._log)
        return {**out, **limits}

    def _write_object(self, flat: Schema, path: Path, trail: tuple[str, ...]) -> Schema:
        out: Schema = write_counts(flat, ("minProperties", "maxProperties"), path, self._log)
        properties: Schema = {}
        for name, sub in mapping_of(flat, "properties").items():
            place = (*path, "properties", name)
            if sub is False:
                self._log.add(place, "a property that is never allowed was dropped")
            else:
                properties[name] = self.node(sub if is_schema(sub) else True, place, trail)
        if properties:
            out["properties"] = properties
        asked = flat["required"] if isinstance(flat.get("required"), list) else []
        required = [name for name in dict.fromkeys(map(str, asked)) if name in properties]
        if required:
            out["required"] = required
        if len(required) < len(set(map(str, asked))):
            self._log.add((*path, "required"), "required names that are not declared were dropped")
        return out

    def _write_array(self, flat: Schema, path: Path, trail: tuple[str, ...]) -> Schema:
        out: Schema = write_counts(flat, ("minItems", "maxItems"), path, self._log)
        items = flat.get("items", True)
        prefix = items if isinstance(items, list) else flat.get("prefixItems")
        rest = flat.get("additionalItems", True) if isinstance(items, list) else items
        if isinstance(prefix, list) and prefix:
            self._log.add((*path, "prefixItems"), "the positions of a tuple are no longer distinguished")
            if rest is False:
                out["maxItems"] = min(out.get("maxItems", len(prefix)), len(prefix))
            places = [sub for sub in (*prefix, rest) if isinstance(sub, dict)]
            items = {"anyOf": places} if places else True
        elif items is False:
            out["maxItems"] = 0
            items = {"type": "string"}
        return {**out, "items": self.node(items if is_schema(items) else True, (*path, "items"), trail)}

    def _write_anything(self, flat: Schema, path: Path) -> Schema:
        """Write a value of any type as a union of all types, since Gemini requires a type everywhere."""
        self._log.add(path, "a value of any type became a union of the JSON types")
        kinds: list[Schema] = [{"type": name} for name in ("STRING", "NUMBER", "BOOLEAN", "OBJECT")]
        kinds.append({"type": "ARRAY", "items": {"type": "STRING"}})
        return _any_of(kinds, flat.get("description"), nullable=True)


def _open_object(schema: Schema, note: str) -> Schema:
    out: Schema = {"type": "OBJECT"}
    add_description(out, schema.get("description"))
    add_description(out, note)
    return out


def _with_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {"anyOf": [_with_null(branch) for branch in schema["anyOf"]]}
    return schema if schema["type"] == "NULL" else {**schema, "nullable": True}


def _any_of(branches: list[Schema], description: object, *, nullable: bool) -> Schema:
    out = [dict(branch) for branch in branches]
    for branch in out:
        add_description(branch, description, first=True)
    union = out[0] if len(out) == 1 else {"anyOf": out}
    return _with_null(union) if nullable else union


def _one_enum(branches: list[Schema]) -> list[Schema]:
    """Merge alternatives that are all string enums into one."""
    if any(branch.keys() != {"type", "enum"} for branch in branches):
        return branches
    return [{"type": "STRING", "enum": list(dict.fromkeys(value for branch in branches for value in branch["enum"]))}]


def _is_null(branch: SubSchema) -> bool:
    if not isinstance(branch, dict):
        return False
    return types_of(branch.get("type")) == ["null"] or branch.get("enum") == [None] or branch.get("const", 0) is None


def _has_exclusive_branches(branches: list[SubSchema]) -> bool:
    """Whether no value can match two branches, judged by their constants or types alone."""
    allowed = [allowed_values(branch) if isinstance(branch, dict) else None for branch in branches]
    if all(values is not None for values in allowed):
        marks = [{repr(value) for value in values or ()} for values in allowed]
    else:
        marks = [_list_types(branch) for branch in branches]
    return all(marks) and sum(map(len, marks)) == len(set().union(*marks))


def _list_types(branch: SubSchema) -> set[str]:
    names = types_of(branch.get("type")) if isinstance(branch, dict) else []
    return {"number" if name == "integer" else name for name in names}
