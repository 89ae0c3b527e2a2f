"""Rewrite input schemas so that the root is one plain object, as every provider requires.

A root `$ref` or `allOf` is folded in without loss. Root alternatives (`anyOf`, `oneOf`) become one object that accepts
whatever any of them accepts: properties are merged, and `required` keeps only the names all of them require. The call
path still validates arguments against the original schema; the model just sees a looser one.
"""

from __future__ import annotations

from toolyard.dialects.payload import ChangeLog
from toolyard.model import Schema
from toolyard.model.tool import fingerprint
from toolyard.schema.fold import DOCUMENT_KEYWORDS, fold_schema, intersect_schemas
from toolyard.schema.subschemas import REFERENCES, References, SubSchema, map_references, mapping_of, types_of

_ALTERNATIVES = ("anyOf", "oneOf")
_REFUSED = ("not", "enum", "const")
_NOT_PLAIN = frozenset({*REFERENCES, "allOf", *_ALTERNATIVES, *_REFUSED})
_MAX_NESTED_ALTERNATIVES = 8


def object_root(schema: Schema, log: ChangeLog) -> Schema:
    """Return `schema` with `type: object` and `properties` at its root and no keyword that providers refuse there.

    Subschemas are shared with `schema` and never modified.
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
    return {**object_typed(schema, log), "properties": mapping_of(schema, "properties")}


def object_typed(schema: Schema, log: ChangeLog) -> Schema:
    """Return `schema` with `type: object`; log a type that excluded objects."""
    names = types_of(schema.get("type"))
    if names and "object" not in names:
        log.add(("type",), f"type {' or '.join(names)} replaced by object: arguments are always an object")
    return {**schema, "type": "object"}


def _one_object(schema: Schema, refs: References, log: ChangeLog, level: int = 0) -> Schema:
    """Return `schema` without references, `allOf` and alternatives at its root."""
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
    """Merge the variants into one object that accepts whatever any of them accepts."""
    first, *rest = variants
    out = {key: value for key, value in first.items() if all(key in other and other[key] == value for other in rest)}
    offered: dict[str, dict[str, SubSchema]] = {}
    for variant in variants:
        for name, sub in mapping_of(variant, "properties").items():
            offered.setdefault(name, {}).setdefault(fingerprint(sub), sub)
    if "patternProperties" not in out and any("patternProperties" in variant for variant in variants):
        # One variant allows by pattern what the others forbid; the merged object must not forbid it.
        out.pop("additionalProperties", None)
    out["properties"] = {
        name: next(iter(subs.values())) if len(subs) == 1 else {"anyOf": list(subs.values())}
        for name, subs in offered.items()
    }
    required = [_required_names(variant) for variant in variants]
    out["required"] = [name for name in required[0] if all(name in other for other in required[1:])]
    if not out["required"]:
        del out["required"]
    return out


def _required_names(schema: Schema) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _move_references(flat: Schema, before: References) -> Schema:
    """Redirect references to parts that were removed from the root to copies in `$defs`."""
    now = References(flat)
    moved: dict[str, str] = {}
    definitions = dict(mapping_of(flat, "$defs"))

    def repoint(ref: str) -> str:
        is_lost = now.resolve(ref) is None and before.resolve(ref) is not None
        return f"#/$defs/{_new_home(ref, moved, definitions)}" if is_lost else ref

    result = map_references(flat, repoint)
    kept = result.get("$defs", {})
    done: dict[str, SubSchema] = {}
    while len(done) < len(moved):
        for ref, name in list(moved.items())[len(done) :]:
            target = before.resolve(ref)
            done[name] = map_references(target, repoint) if isinstance(target, dict) else bool(target)
    return {**result, "$defs": {**kept, **done}} if done else result


def _new_home(ref: str, moved: dict[str, str], taken: Schema) -> str:
    if ref not in moved:
        number = len(moved) + 1
        while f"moved_{number}" in taken:
            number += 1
        moved[ref] = f"moved_{number}"
        taken[moved[ref]] = True
    return moved[ref]
