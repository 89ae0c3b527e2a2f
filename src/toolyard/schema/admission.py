"""What a tool must satisfy to enter a registry: valid names, schemas that compile, and a size budget.

Validation holds the interpreter lock, so a schema that multiplies its own work (24 doublings through `$ref` cost 0.9 s
a call) blocks every other call: `SchemaBudget` is checked at load.

Most tools in real catalogs are plain: typed properties, descriptions, enums, a few limits. For those, all checks
(dialect rewrites, budget, compile) are decided by one call into compiled code: a schema for schemas that need no work
(`is_plain`). A schema that it rejects is not necessarily wrong; it goes through the full checks. A schema that it
accepts is guaranteed to compile, to stay within the budget and to need no rewrite (`tests/schema/test_plain_schemas.py`
verifies this).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from toolyard.model.errors import DefinitionError, InvalidSchemaError
from toolyard.model.json_schema import (
    IN_PLACE,
    JSON_TYPES,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    SCHEMA_SINGLES,
    pointer_of,
    written_size,
)
from toolyard.model.names import check_namespace, check_tool_name, show
from toolyard.model.report import Rewrite
from toolyard.model.tool import INFERRED, SOURCES, DeferredTool, Schema, Tool
from toolyard.parsing.json_text import json_decoder
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.normalise import Change, normalise
from toolyard.schema.subschemas import Path, iter_children, iter_schemas
from toolyard.schema.weight import InPlaceSchemas, count_positions


class SchemaBudget(msgspec.Struct, frozen=True):
    """Limits on one schema."""

    nodes: int = 10_000
    depth: int = 64
    fan_out: int = 100_000
    """Validation steps, of about 25 nanoseconds, to judge one value, with all `$ref`s followed."""
    pattern_length: int = 1_000
    positions: int = 50_000
    """Characters that its patterns describe one by one. Each takes microseconds and up to a kilobyte to compile."""
    enum: int = 10_000
    bytes: int = 2 << 20
    """Total size of text and values: descriptions, defaults, enums, examples."""


DEFAULT_BUDGET = SchemaBudget()


_LEAST_POSITIONS = 10
"""The minimum cost of compiling a pattern."""
_WEIGHTY = IN_PLACE | {"enum", "const"}


def check_budget(schema: dict[str, Any], budget: SchemaBudget = DEFAULT_BUDGET) -> None:
    """Raise `InvalidSchemaError` where the schema exceeds the budget. Never recurses."""
    nodes = size = positions = 0
    branching = False
    stack: list[tuple[Path, int, Any]] = [((), 0, schema)]
    while stack:
        path, depth, node = stack.pop()
        nodes += 1
        if nodes > budget.nodes:
            raise InvalidSchemaError(f"schema has more than {budget.nodes} subschemas")
        if depth > budget.depth:
            raise _over_budget(path, f"schema nests deeper than {budget.depth} levels")
        if isinstance(node, dict):
            branching = branching or not _WEIGHTY.isdisjoint(node)
            positions += _check_node(path, node, budget)
            if positions > budget.positions:
                raise _over_budget(path, f"the patterns of the schema have more than {budget.positions:,} positions")
            for key, value in node.items():
                if key not in SCHEMA_LISTS | SCHEMA_SINGLES:
                    # Only the names of a map of schemas count here; its schemas are visited as nodes.
                    size += written_size(list(value) if key in SCHEMA_MAPS else value, most=budget.bytes)
                if size > budget.bytes:
                    raise _over_budget((*path, key), f"schema takes more than {budget.bytes:,} bytes")
            stack.extend((path + step, depth + 1, sub) for step, sub in iter_children(node))
    if branching:
        _check_fan_out(schema, budget)


def _check_node(path: Path, node: dict[str, Any], budget: SchemaBudget) -> int:
    """Check the limits of a single node and return the number of positions of its patterns."""
    enum = node.get("enum")
    if isinstance(enum, list) and len(enum) > budget.enum:
        raise _over_budget((*path, "enum"), f"enum has {len(enum)} values; at most {budget.enum} are allowed")
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    if isinstance(node.get("patternProperties"), dict):
        patterns.extend(node["patternProperties"])
    for pattern in patterns:
        if len(pattern) > budget.pattern_length:
            raise _over_budget(
                path, f"a pattern has {len(pattern)} characters; at most {budget.pattern_length} are allowed"
            )
    return sum(max(count_positions(pattern), _LEAST_POSITIONS) for pattern in patterns)


def _check_fan_out(root: dict[str, Any], budget: SchemaBudget) -> None:
    """Limit the cost of the subschemas that apply to the same value; costs of its members are counted at validation.

    Costs are computed bottom up over the in-place edges alone, with an explicit stack; a reference back to a schema
    still being computed adds nothing, since the validator stops there too.
    """
    in_place = InPlaceSchemas(root)
    cost: dict[int, int] = {}
    for start in iter_schemas(root):
        stack = [(start, False)]
        open_nodes: set[int] = set()
        while stack:
            node, done = stack.pop()
            key = id(node)
            if done:
                open_nodes.discard(key)
                cost[key] = in_place.steps(node) + sum(cost.get(id(sub), 0) for sub in in_place.schemas_below(node))
                if cost[key] > budget.fan_out:
                    raise InvalidSchemaError(
                        f"schema takes more than {budget.fan_out} steps to judge one value; "
                        "flatten the allOf/anyOf/oneOf/$ref chains, or shorten the enum of objects"
                    )
            elif key not in cost and key not in open_nodes:
                open_nodes.add(key)
                stack.append((node, True))
                stack.extend((sub, False) for sub in in_place.schemas_below(node))


def _over_budget(path: Path, problem: str) -> InvalidSchemaError:
    pointer = pointer_of(path)
    # Only the outer part of a very deep pointer is useful to a reader.
    shown = pointer if len(pointer) <= 120 else pointer[:117] + "..."
    return InvalidSchemaError(f"{shown or '(root)'}: {problem}", pointer=pointer)


_LEVELS = 12
_MAX_BYTES = 32_768
"""Also limits the number of subschemas to less than the budget: each takes at least four bytes."""

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number"}
# Null is left out because the validator also reads NaN as null, and NaN must not pass.
_SCALAR = {"type": ["string", "boolean", "number"]}
_VALUE = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}

_LEAF_KEYWORDS: dict[str, Any] = {
    **dict.fromkeys(("title", "description", "format"), _TEXT),
    "default": _VALUE,
    "const": _SCALAR,
    "enum": {"type": "array", "minItems": 1, "maxItems": 1_000, "items": _SCALAR},
    "examples": {"type": "array", "items": _VALUE},
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    "uniqueItems": {"type": "boolean"},
    "required": {"type": "array", "items": _TEXT, "uniqueItems": True},
}


@cache
def _plain_checker() -> jsonschema_rs.Validator:
    levels = {f"level{depth}": _level_schema(depth) for depth in range(_LEVELS + 1)}
    return jsonschema_rs.validator_for({"$ref": "#/$defs/level0", "$defs": levels}, offline=True)


def _level_schema(depth: int) -> dict[str, Any]:
    # One definition per nesting level, each referring to the next: this limits the depth.
    keywords = dict(_LEAF_KEYWORDS)
    names = sorted(JSON_TYPES)
    keywords["type"] = {
        "anyOf": [{"enum": names}, {"type": "array", "items": {"enum": names}, "minItems": 1, "uniqueItems": True}]
    }
    if depth < _LEVELS:
        below = {"$ref": f"#/$defs/level{depth + 1}"}
        keywords["items"] = below
        keywords["additionalProperties"] = {"anyOf": [{"type": "boolean"}, below]}
        keywords["properties"] = {"type": "object", "additionalProperties": below}
        keywords["anyOf"] = {"type": "array", "minItems": 1, "maxItems": 16, "items": below}
    if depth == 0:
        keywords[INFERRED] = {"enum": list(SOURCES)}
    # A text default of a property that is not a string may need conversion to the type, so it is not plain.
    textual = {"anyOf": [{"const": "string"}, {"type": "array", "contains": {"const": "string"}}]}
    fits = [{"properties": {"default": {"not": _TEXT}}}, {"properties": {"type": textual}}]
    return {"type": "object", "properties": keywords, "additionalProperties": False, "anyOf": fits}


class Admitted(msgspec.Struct, frozen=True):
    """A schema that compiles and is within the budget, with the changes that were needed."""

    schema: Schema
    changes: tuple[Change, ...] = ()
    compiled: CompiledSchema | None = None
    """Set if admission had to compile the schema."""


def admit_schema(schema: Any, *, is_input: bool = True) -> Admitted:
    """Rewrite dialects, check the budget, compile; `InvalidSchemaError` if it cannot be admitted.

    Plain schemas are recognised in compiled code and returned unchanged.
    """
    if is_plain(schema, is_input=is_input):
        return Admitted(schema)
    normal, changes = normalise(schema, is_input=is_input)
    if changes and is_plain(normal, is_input=is_input):
        return Admitted(normal, tuple(changes))
    check_budget(normal)
    compiled = compile_schema(normal or {"type": "object"})
    return Admitted(normal, tuple(changes), compiled)


def is_plain(schema: Any, *, is_input: bool = True) -> bool:
    """True for a schema that needs no rewrite, compiles, and is within the default budget. False is inconclusive."""
    return bool(_write_plain(schema, is_input=is_input))


def _write_plain(schema: Any, *, is_input: bool = True) -> bytes:
    """The JSON text of a plain schema; empty if it is not known to be plain."""
    if type(schema) is not dict:
        return b""
    if not schema:
        return b"{}"
    if is_input and schema.get("type") != "object":
        return b""
    try:
        written = _encode(schema) if _plain_checker().is_valid(schema) else b""
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError):
        return b""
    return written if len(written) <= _MAX_BYTES else b""


Kept = bytes | Schema
"""A private copy of a schema: its JSON text, or a deep copy if JSON would change it."""


def keep_schema(schema: Schema) -> Kept:
    """Copy the schema as it is now, independent of later changes. Encoding it is the fastest way to copy."""
    try:
        written = _encode(schema)
    except (TypeError, ValueError, RecursionError):
        # An unpaired surrogate, or a value that is not JSON.
        return copy.deepcopy(schema)
    # A long text may come from a small object that contains the same value in many places.
    return written if len(written) <= _LONGEST else copy.deepcopy(schema)


def read_kept(kept: Kept) -> Schema:
    """A new copy of the schema, which the caller may modify."""
    return copy.deepcopy(kept) if isinstance(kept, dict) else _decode(kept)


_MAX_CHANGES = 20
_LONGEST = 1 << 18
_encode = msgspec.json.Encoder().encode
_decode = json_decoder(dict[str, Any])


class AdmittedTool(msgspec.Struct, eq=False):
    """An admitted tool, as sources pass it to a registry."""

    tool: Tool
    compiled: CompiledSchema | None = None
    """The compiled input schema, if admission had to compile it."""
    place: str = ""
    """Where in its source the tool was defined; appended to the source's name."""
    qualified_only: bool = False
    """True if bare names must never resolve to the tool, because its provider is only trusted for its namespace."""
    kept: tuple[Kept, Kept] | None = None
    """Copies of both schemas at admission, used to validate calls. None for a tool that makes its schemas itself."""


def admit_tool(tool: Tool, *, copied: bool = False) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    """The admitted tool and the rewrites that were needed; `DefinitionError` if it cannot be admitted.

    With `copied` the tool gets copies of its schemas: the caller keeps its dicts and may change them later.
    """
    if not isinstance(tool, Tool):
        way = "function_tool(..., namespace=...)" if callable(tool) else "Tool.from_dict, or ToolRegistry.from_dicts,"
        raise DefinitionError(f"expected a Tool, got {type(tool).__name__}; {way} makes one")
    if not isinstance(tool.metadata, dict):
        raise DefinitionError(
            f"metadata of tool {show(tool.name)} must be a mapping, not {type(tool.metadata).__name__}"
        )
    if len(tool.description) > DEFAULT_BUDGET.bytes:
        raise DefinitionError(f"the description of tool {show(tool.name)} has {len(tool.description):,} characters")
    check_namespace(tool.namespace)
    check_tool_name(tool.name)
    for alias in tool.aliases:
        check_tool_name(alias)
    admitted, rewrites = _admit_schemas(tool)
    if copied or admitted.compiled is not None:
        # The compiled validator still refers to its schema, so the tool gets a copy.
        _copy_schemas(admitted)
    return admitted, rewrites


def _admit_schemas(tool: Tool) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    if isinstance(tool, DeferredTool):
        return AdmittedTool(tool), ()
    plain_answer = _write_plain(tool.output_parameters, is_input=False)
    if plain_answer and (plain := _write_plain(tool.parameters)):
        return AdmittedTool(tool, kept=(plain, plain_answer)), ()
    given = _admit_schema(tool, tool.parameters, is_input=True)
    answer = _admit_schema(tool, tool.output_parameters, is_input=False)
    kept = (keep_schema(given.schema), keep_schema(answer.schema))
    if given.schema is not tool.parameters or answer.schema is not tool.output_parameters:
        tool = tool.replace(parameters=given.schema, output_parameters=answer.schema)
    rewrites = (*summarise_changes(tool, given.changes, ""), *summarise_changes(tool, answer.changes, "output "))
    return AdmittedTool(tool, given.compiled, kept=kept), rewrites


def _admit_schema(tool: Tool, schema: Any, *, is_input: bool) -> Admitted:
    try:
        return admit_schema(schema, is_input=is_input)
    except InvalidSchemaError as error:
        part = "parameters" if is_input else "output_parameters"
        name = f"{show(tool.namespace)}::{show(tool.name)}" if not tool.name.isascii() else tool.qualified_name
        raise InvalidSchemaError(
            f"{part} of {name}: {error}", pointer=f"/{part}{error.pointer}", reason=f"{part}: {error}"
        ) from None


def summarise_changes(tool: Tool, changes: Iterable[Change], prefix: str) -> list[Rewrite]:
    """Changes of one tool as report lines; equal changes are counted together."""
    grouped: dict[str, list[Change]] = {}
    for change in changes:
        grouped.setdefault(change.what, []).append(change)
    return [
        Rewrite(tool.qualified_name, items[0].pointer, prefix + what, len(items))
        for what, items in list(grouped.items())[:_MAX_CHANGES]
    ]


def _copy_schemas(admitted: AdmittedTool) -> None:
    """Replace the tool by one with copied schemas; does nothing for a tool that makes its schemas itself."""
    if admitted.kept is None:
        return
    tool, own = admitted.tool, tuple(map(read_kept, admitted.kept))
    if own != (tool.parameters, tool.output_parameters):
        # The JSON text differs from the schema, for instance because it contains a tuple.
        try:
            own = copy.deepcopy((tool.parameters, tool.output_parameters))
        except RecursionError:
            raise InvalidSchemaError("schema nests too deeply or contains itself") from None
    admitted.tool = tool.replace(parameters=own[0], output_parameters=own[1])
