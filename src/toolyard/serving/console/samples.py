"""Sample values for a schema, for users to edit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolyard.schema.fold import fold_schema
from toolyard.schema.subschemas import References, allowed_values, types_of

Schema = dict[str, Any]

MAX_STEPS = 200
"""Limit on the values in all samples of one form, since schemas may be deep, wide and recursive."""
_DEPTH, _WIDTH = 4, 8
_BY_FORMAT = {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z"}


def fold_part(part: Any, refs: References) -> Schema:
    """The subschema with its `$ref` and `allOf` merged in. Approximate: calls are validated by the complete schema."""
    return fold_schema(part, refs, lambda lost: None)[0] if isinstance(part, dict) else {}


def make_sample(part: Any, refs: References, steps: Iterator[int], depth: int = 0) -> Any:
    """The default or an example, if any; else the required properties, or some optional ones if none is required."""
    is_over = next(steps, None) is None or depth >= _DEPTH
    core = fold_part(part, refs)
    for keyword in ("oneOf", "anyOf"):
        branches = (fold_part(one, refs) for one in core.get(keyword) or ())
        core = {**core, **next((one for one in branches if one.get("type") != "null"), {})}
    values = core.get("examples") or allowed_values(core)
    if given := [core[keyword] for keyword in ("default", "example") if keyword in core]:
        return given[0]
    if isinstance(values, list) and values:
        return values[0]
    kind = next((one for one in types_of(core.get("type")) if one != "null"), None)
    if kind == "object" or "properties" in core:
        return {} if is_over else _sample_object(core, refs, steps, depth)
    if kind == "array":
        items, each = core.get("prefixItems") or [core.get("items")], core.get("items")
        # A list of strings has its own control, which starts empty.
        is_empty = is_over or (depth == 0 and isinstance(each, dict) and each.get("type") == "string")
        return [] if is_empty else [make_sample(one, refs, steps, depth + 1) for one in items[:_WIDTH] if one]
    if kind in ("integer", "number"):
        least = core.get("minimum", 0)
        return least if isinstance(least, int | float) and least > 0 else 0
    if kind == "string":
        return _BY_FORMAT.get(str(core.get("format")), "")
    return False if kind == "boolean" else {}


def _sample_object(core: Schema, refs: References, steps: Iterator[int], depth: int) -> Schema:
    properties, demanded = core.get("properties"), types_of(core.get("required"))
    known = (
        {name: part for name, part in properties.items() if part is not False} if isinstance(properties, dict) else {}
    )
    wanted = [name for name in known if name in demanded] or list(known)
    return {name: make_sample(known[name], refs, steps, depth + 1) for name in wanted[:_WIDTH]}
