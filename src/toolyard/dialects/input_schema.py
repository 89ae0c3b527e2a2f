"""Input schemas as providers want them: with an object at the root, and for OpenAI's strict mode.

Every provider asks for one plain object, no alternatives. A root `$ref` or `allOf` is folded in without loss. Root
alternatives (`anyOf`, `oneOf`) become one object that accepts what any of them accepts: properties joined,
`required` cut to what all of them require. The call path still validates arguments against the real schema; the
model just sees a looser one.

Strict mode wants every property required, nothing undeclared, few keywords. An optional property becomes a required
one that may be null; `without_added_nulls` takes those nulls out of the arguments again, so the tool sees what its
own schema allows. A schema strict mode cannot carry at all (an object of free keys, a value of any type) is better
sent as it is, without strict.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from toolyard.dialects.payload import ChangeLog
from toolyard.model import Schema
from toolyard.model.names import JSON_TYPES, json_type
from toolyard.model.tool import fingerprint
from toolyard.schema.fold import DOCUMENT_KEYWORDS, fold_schema, intersect_schemas
from toolyard.schema.subschemas import (
    REFERENCES,
    Path,
    References,
    SubSchema,
    allowed_values,
    rebuild,
    reference_path,
    types_of,
)

_ALTERNATIVES = ("anyOf", "oneOf")
_REFUSED = ("not", "enum", "const")
_NOT_PLAIN = frozenset({*REFERENCES, "allOf", *_ALTERNATIVES, *_REFUSED})
_MAX_NESTED_ALTERNATIVES = 8


def object_root(schema: Schema, log: ChangeLog) -> Schema:
    """`schema` with `type: object` and `properties` at its root and nothing a provider refuses there.

    Subschemas are shared with `schema`, never changed.
    """
    if _NOT_PLAIN.isdisjoint(schema):
        return _as_object(schema, log)
    refs = References(schema)
    flat = _one_object(schema, refs, log)
    for key in _REFUSED:
        if key in flat:
            del flat[key]
            log.add((key,), f"{key} dropped: the provider refuses it at the root")
    return _move_references(_as_object(flat, log), refs)


def _as_object(schema: Schema, log: ChangeLog) -> Schema:
    properties = schema.get("properties")
    return {**object_typed(schema, log), "properties": properties if isinstance(properties, dict) else {}}


def object_typed(schema: Schema, log: ChangeLog) -> Schema:
    """`schema` with `type: object`, whatever it said before."""
    names = types_of(schema.get("type"))
    if names and "object" not in names:
        log.add(("type",), f"type {' or '.join(names)} replaced by object: arguments are always an object")
    return {**schema, "type": "object"}


def _one_object(schema: Schema, refs: References, log: ChangeLog, level: int = 0) -> Schema:
    """`schema` without references, `allOf` and alternatives at its root."""
    flat, _ = fold_schema(schema, refs, lambda change: log.add((), change))
    for key in _ALTERNATIVES:
        branches = flat.pop(key, None)
        if not isinstance(branches, list):
            continue
        if level == _MAX_NESTED_ALTERNATIVES:
            log.add((key,), f"{key} dropped: alternatives nest too deeply")
            continue
        variants = [_make_variant(flat, branch, refs, log, level) for branch in branches if _may_be_object(branch)]
        if len(variants) > 1:
            log.add((key,), f"{key} joined into one object: all properties, required only where every one requires it")
        flat = _join_variants(variants) if variants else flat
    return flat


def _may_be_object(branch: SubSchema) -> bool:
    if not isinstance(branch, dict):
        return branch is True
    names = types_of(branch.get("type"))
    return not names or "object" in names


def _make_variant(base: Schema, branch: SubSchema, refs: References, log: ChangeLog, level: int) -> Schema:
    inner = _one_object(branch, refs, log, level + 1) if isinstance(branch, dict) else {}
    own = {key: value for key, value in inner.items() if key not in DOCUMENT_KEYWORDS}
    return intersect_schemas(base, own, lambda change: log.add((), change))


def _join_variants(variants: list[Schema]) -> Schema:
    """The loosest object among the variants: whatever one of them accepts, it accepts."""
    first, *rest = variants
    out = {key: value for key, value in first.items() if all(key in other and other[key] == value for other in rest)}
    offered: dict[str, dict[str, SubSchema]] = {}
    for variant in variants:
        properties = variant.get("properties")
        for name, sub in (properties if isinstance(properties, dict) else {}).items():
            offered.setdefault(name, {}).setdefault(fingerprint(sub), sub)
    if "patternProperties" not in out and any("patternProperties" in variant for variant in variants):
        # One variant allows by pattern what the others forbid; the joined object must not forbid it.
        out.pop("additionalProperties", None)
    out["properties"] = {name: _any_of(list(subs.values())) for name, subs in offered.items()}
    required = [_required_names(variant) for variant in variants]
    out["required"] = [name for name in required[0] if all(name in other for other in required[1:])]
    if not out["required"]:
        del out["required"]
    return out


def _required_names(schema: Schema) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _any_of(subs: list[SubSchema]) -> SubSchema:
    return subs[0] if len(subs) == 1 else {"anyOf": subs}


def _move_references(flat: Schema, before: References) -> Schema:
    """`flat` with references into parts that are gone from the root pointed at copies in `$defs`."""
    now = References(flat)
    moved: dict[str, str] = {}
    definitions: Schema = dict(flat["$defs"]) if isinstance(flat.get("$defs"), dict) else {}

    def repoint(node: Schema) -> Schema:
        out = rebuild(node, repoint)
        for key in REFERENCES:
            ref = out.get(key)
            if isinstance(ref, str) and now.resolve(ref) is None and before.resolve(ref) is not None:
                out[key] = f"#/$defs/{_new_home(ref, moved, definitions)}"
        return out

    result = repoint(flat)
    kept = result.get("$defs", {})
    done: dict[str, SubSchema] = {}
    while len(done) < len(moved):
        for ref, name in list(moved.items())[len(done) :]:
            target = before.resolve(ref)
            done[name] = repoint(target) if isinstance(target, dict) else bool(target)
    return {**result, "$defs": {**kept, **done}} if done else result


def _new_home(ref: str, moved: dict[str, str], taken: Schema) -> str:
    if ref not in moved:
        number = len(moved) + 1
        while f"moved_{number}" in taken:
            number += 1
        moved[ref] = f"moved_{number}"
        taken[moved[ref]] = True
    return moved[ref]


_KEPT = frozenset(
    {"title", "description", "enum", "const", "pattern", "multipleOf", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)
_HANDLED = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "format"}
    | {"nullable"}
)
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_ANNOTATIONS = frozenset({"title", "description"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_NOT_LIMITS = frozenset({"default", "example", "examples", "discriminator"})
_NULL: Schema = {"type": "null"}
_MAX_DEPTH = 128
_MAX_HOPS = 16
"""Alternatives of alternatives of one value: more than this is a schema that refers to itself."""


class _NotStrict(Exception):
    """Strict mode has no words for the schema at `path`."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what


def strict_schema(schema: Schema, log: ChangeLog) -> Schema | None:
    """The strict form of a schema with an object root, or None where the tool must go without strict."""
    attempt = ChangeLog()
    writer = _StrictWriter(References(schema), attempt)
    try:
        strict = writer.root(schema)
    except _NotStrict as reason:
        log.add(reason.path, f"sent without strict, which cannot describe {reason.what}")
        return None
    log.update(attempt)
    return strict


class _StrictWriter:
    def __init__(self, refs: References, log: ChangeLog) -> None:
        self._refs = refs
        self._log = log
        self._names: dict[str, str] = {}
        """Definition name of each reference met; only what is referred to is carried over."""

    def root(self, schema: Schema) -> Schema:
        out = self._write_typed(schema, ())
        definitions: Schema = {}
        while len(definitions) < len(self._names):
            for ref, name in list(self._names.items())[len(definitions) :]:
                target = self._refs.resolve(ref)
                definitions[name] = self._write_node(True if target is None else target, reference_path(ref))
        return {**out, "$defs": definitions} if definitions else out

    def _write_node(self, node: SubSchema, path: Path) -> Schema:
        if not isinstance(node, dict) or not node:
            raise _NotStrict(path, "a value of any type")
        if len(path) > _MAX_DEPTH:
            raise _NotStrict(path, "a schema that nests without end")
        if node.keys() - DOCUMENT_KEYWORDS == {"$ref"}:
            return self._write_reference(node["$ref"], path)
        flat, _ = fold_schema(node, self._refs, lambda change: self._log.add(path, change))
        for key in ("anyOf", "oneOf"):
            if isinstance(flat.get(key), list):
                return self._write_alternatives(flat, key, path)
        return self._write_typed(flat, path)

    def _write_reference(self, ref: object, path: Path) -> Schema:
        if not isinstance(ref, str) or self._refs.resolve(ref) is None:
            raise _NotStrict(path, "a reference that leads nowhere")
        if ref == "#":
            return {"$ref": ref}
        if ref not in self._names:
            base = _UNSAFE.sub("_", ref.rpartition("/")[2])
            taken = self._names.values()
            self._names[ref] = next(name for n in count(1) if (name := f"{base}_{n}" if n > 1 else base) not in taken)
        return {"$ref": f"#/$defs/{self._names[ref]}"}

    def _write_alternatives(self, flat: Schema, key: str, path: Path) -> Schema:
        if key == "oneOf":
            self._log.add((*path, key), "oneOf became anyOf: strict mode cannot demand exactly one")
        base: Schema = {}
        for name, value in flat.items():
            if name in _NOT_LIMITS:
                self._log.add((*path, name), f"{name} dropped: strict mode does not support it")
            elif name != key and name not in _ANNOTATIONS and name not in DOCUMENT_KEYWORDS:
                base[name] = value
        branches = [branch for branch in flat[key] if branch is not False]
        if not branches:
            raise _NotStrict(path, "a value that nothing fits")
        joined = [{"allOf": [base, branch]} if base else branch for branch in branches]
        out = {name: flat[name] for name in _ANNOTATIONS if name in flat}
        return {**out, "anyOf": [self._write_node(branch, (*path, key, i)) for i, branch in enumerate(joined)]}

    def _write_typed(self, flat: Schema, path: Path) -> Schema:
        names = [name for name in types_of(flat.get("type")) if name in JSON_TYPES] or _implied_types(flat)
        if not names:
            raise _NotStrict(path, "a value of any type")
        if flat.get("nullable") is True and "null" not in names:
            names = [*names, "null"]
        out: Schema = {"type": names[0] if len(names) == 1 else names}
        for key, value in flat.items():
            if key in _KEPT or (key == "format" and value in _FORMATS):
                out[key] = value
            elif key not in _HANDLED and key not in DOCUMENT_KEYWORDS:
                self._log.add((*path, key), f"{key} dropped: strict mode does not support it")
            elif key == "format":
                self._log.add((*path, key), f"format {value!r} dropped: strict mode does not support it")
        if "object" in names:
            out |= self._write_object(flat, path)
        if "array" in names:
            out["items"] = self._write_items(flat, path)
        return out

    def _write_object(self, flat: Schema, path: Path) -> Schema:
        properties = _properties_of(flat)
        # A tool without parameters has an empty root; anywhere else an object without properties is a free one.
        is_free = bool(path) and not properties
        extra = flat.get("additionalProperties", is_free)
        if not properties and extra is not False:
            raise _NotStrict(path, "an object of free keys")
        if extra is not False:
            self._log.add((*path, "additionalProperties"), "undeclared properties can no longer be sent")
        required = flat["required"] if isinstance(flat.get("required"), list) else []
        out: Schema = {}
        for name, sub in properties.items():
            if sub is False:
                self._log.add((*path, "properties", name), "a property that is never allowed was dropped")
                continue
            written = self._write_node(sub, (*path, "properties", name))
            out[name] = written if name in required or accepts_null(sub, self._refs) else make_nullable(written)
        return {"properties": out, "required": list(out), "additionalProperties": False}

    def _write_items(self, flat: Schema, path: Path) -> Schema:
        items = flat.get("items", True)
        if isinstance(flat.get("prefixItems"), list) or isinstance(items, list):
            prefix = items if isinstance(items, list) else flat["prefixItems"]
            self._log.add((*path, "prefixItems"), "the places of a tuple are no longer told apart")
            rest = [] if isinstance(items, (list, bool)) else [items]
            items = {"anyOf": [*prefix, *rest]} if len(prefix) + len(rest) > 1 else (prefix or rest or [True])[0]
        return self._write_node(items, (*path, "items"))


def _implied_types(flat: Schema) -> list[str]:
    values = allowed_values(flat)
    if values:
        return list(dict.fromkeys(map(json_type, values)))
    if isinstance(flat.get("properties"), dict):
        return ["object"]
    return ["array"] if "items" in flat or "prefixItems" in flat else []


def make_nullable(schema: Schema) -> Schema:
    """A schema that accepts null, too; one without a type does already."""
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    if "$ref" in schema or "const" in schema:
        return {"anyOf": [schema, _NULL]}
    out = dict(schema)
    if "type" in out:
        out["type"] = list(dict.fromkeys([*types_of(out["type"]), "null"]))
    if isinstance(out.get("enum"), list):
        out["enum"] = [*out["enum"], None]
    return out


def accepts_null(schema: SubSchema, refs: References, hops: int = _MAX_HOPS) -> bool:
    """Whether null is a valid value as far as types, enums and alternatives tell."""
    if not isinstance(schema, dict) or not hops:
        return schema is True
    flat, _ = fold_schema(schema, refs, _ignore_loss)
    if "const" in flat:
        return flat["const"] is None
    if isinstance(flat.get("enum"), list) and None not in flat["enum"]:
        return False
    if flat.get("nullable") is True:
        return True
    for key in ("anyOf", "oneOf"):
        branches = flat.get(key)
        if isinstance(branches, list) and not any(accepts_null(branch, refs, hops - 1) for branch in branches):
            return False
    names = types_of(flat.get("type"))
    return not names or "null" in names


def without_added_nulls(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` less the nulls that stand for "left out": optional properties that cannot be null."""
    root = object_root(schema, ChangeLog())
    pruned: dict[str, Any] = _prune_arguments(root, arguments, References(root))
    return pruned


def _prune_arguments(schema: SubSchema, value: Any, refs: References, hops: int = _MAX_HOPS) -> Any:
    if not isinstance(schema, dict) or not isinstance(value, (dict, list)):
        return value
    flat, _ = fold_schema(schema, refs, _ignore_loss)
    if isinstance(value, list):
        return [_prune_arguments(flat.get("items", True), item, refs) for item in value]
    for key in ("anyOf", "oneOf"):
        for branch in flat.get(key, ()) if hops else ():
            if (
                isinstance(branch, dict)
                and value.keys() <= _properties_of(fold_schema(branch, refs, _ignore_loss)[0]).keys()
            ):
                return _prune_arguments(branch, value, refs, hops - 1)
    properties, required = _properties_of(flat), flat.get("required", ())
    return {
        name: _prune_arguments(properties.get(name, True), item, refs)
        for name, item in value.items()
        if item is not None or name in required or accepts_null(properties.get(name, True), refs)
    }


def _properties_of(schema: Schema) -> dict[str, SubSchema]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _ignore_loss(_change: str) -> None:
    """Losses are reported when the schema is sent, not when arguments come back."""
