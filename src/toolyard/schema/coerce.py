"""Lossless repairs of arguments that have the right content in the wrong form.

Models write `"5"` for 5, `"true"` for true, `3.0` for 3 and JSON text for an object. A value is repaired only where the
validator rejected it (or accepted an integral float as an integer), only into the type the schema requires there, and
only if nothing is lost. Every repair is listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.model.json_schema import copy_json, json_type, pointer_of
from toolyard.model.tool import Schema
from toolyard.parsing import parse_json
from toolyard.schema.compile import CompiledSchema
from toolyard.schema.subschemas import mapping_of, resolve_pointer, types_of
from toolyard.schema.violations import MAX_VIOLATIONS, Misfit

_ROUNDS = 4
"""Maximum nesting of JSON text inside JSON text; each round decodes one level."""

_MAX_REPAIRS = 5_000
"""With more wrong values than this, no repair is attempted."""

Path = Sequence[str | int]
_MISSING = object()


class Coercion(msgspec.Struct, frozen=True):
    """One repair: the place, and the JSON types before and after."""

    pointer: str
    before: str
    after: str

    def to_dict(self) -> dict[str, str]:
        """Plain JSON, as it appears in `result.metadata["coercions"]`."""
        return {"pointer": self.pointer, "from": self.before, "to": self.after}


def coerce(
    compiled: CompiledSchema, value: dict[str, Any], found: list[Misfit]
) -> tuple[dict[str, Any], list[Coercion]] | None:
    """A repaired copy that satisfies the schema, with the list of repairs; None if no repair is possible.

    The faults of the original value are appended to `found`.
    """
    repairs: list[Coercion] = []
    fixed: Any = value
    for _ in range(_ROUNDS):
        try:
            faults = _find_faults(compiled, fixed)
        except ValueError:
            return None
        if fixed is value:
            found.extend(faults)
        if len(faults) == _MAX_REPAIRS:
            return None
        if not faults:
            break
        if fixed is value:
            fixed = copy_json(value)
        made = _repair_value(fixed, faults)
        if not made:
            return None
        repairs.extend(made)
    return (fixed, repairs) if compiled.judge(fixed) else None


def _find_faults(compiled: CompiledSchema, value: Any) -> list[Misfit]:
    """The faults of a value; beyond `MAX_VIOLATIONS` only if some of the first ones can be repaired."""
    faults = compiled.faults(value, limit=MAX_VIOLATIONS, repairs=True)
    if len(faults) < MAX_VIOLATIONS or all(_find_repair(value, fault) is None for fault in faults):
        return faults
    return compiled.faults(value, limit=_MAX_REPAIRS, repairs=True)


def _repair_value(value: Any, faults: Iterable[Misfit]) -> list[Coercion]:
    """Repair in place what can be repaired, and list the repairs."""
    made: list[Coercion] = []
    for fault in faults:
        repair = _find_repair(value, fault)
        if repair is not None:
            path, old, new = repair
            _value_at(value, path[:-1])[path[-1]] = new
            made.append(Coercion(pointer_of(path), json_type(old), json_type(new)))
    return made


def _find_repair(value: Any, fault: Misfit) -> tuple[Path, Any, Any] | None:
    """The path, the old value and the repaired value; None if the fault cannot be repaired."""
    for path, types in fault.wants:
        old = _value_at(value, path) if path else _MISSING
        new = _MISSING if old is _MISSING else convert_value(old, types)
        if new is not _MISSING:
            return path, old, new
    return None


def convert_value(value: Any, types: Sequence[str]) -> Any:
    """`value` as one of `types` if that loses nothing, else `_MISSING`."""
    if isinstance(value, float) and "integer" in types and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return _MISSING
    try:
        parsed = parse_json(value)
    except MalformedSource:
        return _MISSING
    kind = json_type(parsed)
    if kind == "integer" and "integer" not in types and "number" in types:
        kind = "number"
    if kind not in types or kind == "string":
        return _MISSING
    # "5" must come back as "5": "5.0", "05" and "1e3" are not the canonical text of the number they parse to.
    if kind in ("integer", "number") and repr(parsed) != value:
        return _MISSING
    return parsed


def convert_integral_floats(value: Any, root: Schema) -> tuple[Any, tuple[Coercion, ...]]:
    """Convert 3.0 to 3 wherever the schema requires an integer; copies the value only if something changes.

    The schema is traversed along with the value, through `properties`, `items` and local `$ref`s.
    """
    found: list[tuple[str | int, ...]] = []
    stack: list[tuple[Any, Any, tuple[str | int, ...]]] = [(value, root, ())]
    while stack:
        node, schema, path = stack.pop()
        here = _resolve_reference(root, schema)
        if not isinstance(here, dict):
            continue
        if isinstance(node, float):
            if math.isfinite(node) and node.is_integer() and _requires_integer(here):
                found.append(path)
        elif isinstance(node, dict):
            known = mapping_of(here, "properties")
            stack.extend((item, known[key], (*path, key)) for key, item in node.items() if key in known)
        elif isinstance(node, list) and _may_require_integers(items := _resolve_reference(root, here.get("items"))):
            stack.extend((item, items, (*path, index)) for index, item in enumerate(node))
    if not found:
        return value, ()
    copy = copy_json(value)
    for path in found:
        holder = _value_at(copy, path[:-1])
        holder[path[-1]] = int(holder[path[-1]])
    listed = [Coercion(pointer_of(path), "number", "integer") for path in found[:_MAX_REPAIRS]]
    if len(found) > _MAX_REPAIRS:
        listed.append(Coercion("", f"{len(found) - _MAX_REPAIRS:,} further numbers", "integer"))
    return copy, tuple(listed)


def mentions_integers(root: Schema) -> bool:
    """Whether the type `integer` occurs anywhere in the schema. If not, `convert_integral_floats` can be skipped."""
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "integer" in types_of(node.get("type")):
                return True
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return False


def _may_require_integers(schema: Any) -> bool:
    """Whether a schema of list items can require integers. If not, the items, which may be many, are skipped."""
    return isinstance(schema, dict) and (
        not schema.keys().isdisjoint(("properties", "items", "$ref")) or _requires_integer(schema)
    )


def _resolve_reference(root: dict[str, Any], node: Any) -> Any:
    return resolve_pointer(root, node["$ref"]) if isinstance(node, dict) and "$ref" in node else node


def _requires_integer(node: dict[str, Any]) -> bool:
    branches = [option for key in ("anyOf", "oneOf") for option in node.get(key) or [] if isinstance(option, dict)]
    flat = {name for said in (node, *branches) for name in types_of(said.get("type"))}
    return "integer" in flat and "number" not in flat


def _value_at(value: Any, path: Path) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return value
