"""How large a schema may be before it is refused.

Validation holds the interpreter lock, so a schema that multiplies its own work (24 doublings through
`$ref` cost 0.9 s a call) is an attack on every other call. The counts below are checked at load.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_words import pointer_of
from toolyard.model.keywords import IN_PLACE, SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES
from toolyard.schema.refs import resolve_pointer


class SchemaBudget(msgspec.Struct, frozen=True):
    """Limits on one schema."""

    nodes: int = 10_000
    depth: int = 64
    fan_out: int = 100_000
    """Subschemas that may judge one value, all `$ref`s followed."""
    pattern_length: int = 1_000
    enum: int = 10_000


DEFAULT_BUDGET = SchemaBudget()

Path = tuple[str | int, ...]


def check_budget(schema: dict[str, Any], budget: SchemaBudget = DEFAULT_BUDGET) -> None:
    """Raise `InvalidSchemaError` where the schema exceeds the budget. Never recurses."""
    nodes = 0
    branching = False
    stack: list[tuple[Path, int, Any]] = [((), 0, schema)]
    while stack:
        path, depth, node = stack.pop()
        nodes += 1
        if nodes > budget.nodes:
            raise InvalidSchemaError(f"schema has more than {budget.nodes} subschemas")
        if depth > budget.depth:
            raise _over(path, f"schema nests deeper than {budget.depth} levels")
        if isinstance(node, dict):
            branching = branching or not IN_PLACE.isdisjoint(node)
            _check_node(path, node, budget)
            stack.extend((path + step, depth + 1, sub) for step, sub in subschemas(node))
    if branching:
        _check_fan_out(schema, budget)


def subschemas(node: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The direct subschemas of a node, each with its path below it."""
    for key, value in node.items():
        if isinstance(value, dict):
            if key in SCHEMA_SINGLES:
                yield (key,), value
            elif key in SCHEMA_MAPS:
                for name, sub in value.items():
                    yield (key, name), sub
        elif isinstance(value, list) and (key in SCHEMA_LISTS or key == "items"):
            for index, sub in enumerate(value):
                yield (key, index), sub


def _check_node(path: Path, node: dict[str, Any], budget: SchemaBudget) -> None:
    enum = node.get("enum")
    if isinstance(enum, list) and len(enum) > budget.enum:
        raise _over((*path, "enum"), f"enum has {len(enum)} values; at most {budget.enum} are allowed")
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    if isinstance(node.get("patternProperties"), dict):
        patterns.extend(node["patternProperties"])
    for pattern in patterns:
        if len(pattern) > budget.pattern_length:
            raise _over(path, f"a pattern has {len(pattern)} characters; at most {budget.pattern_length} are allowed")


def _check_fan_out(root: dict[str, Any], budget: SchemaBudget) -> None:
    """Bound the subschemas that judge one and the same value.

    Costs are computed bottom up over the in-place edges alone, with an explicit stack; a reference
    back to a schema still being computed adds nothing, since the validator stops there too.
    """
    cost: dict[int, int] = {}
    for start in _all_nodes(root):
        stack = [(start, False)]
        open_nodes: set[int] = set()
        while stack:
            node, done = stack.pop()
            key = id(node)
            if done:
                open_nodes.discard(key)
                cost[key] = 1 + sum(cost.get(id(sub), 0) for sub in _in_place(root, node))
                if cost[key] > budget.fan_out:
                    raise InvalidSchemaError(
                        f"schema lets more than {budget.fan_out} subschemas judge one value; "
                        "flatten the allOf/anyOf/oneOf/$ref chains"
                    )
            elif key not in cost and key not in open_nodes:
                open_nodes.add(key)
                stack.append((node, True))
                stack.extend((sub, False) for sub in _in_place(root, node))


def _all_nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(sub for _, sub in subschemas(node))


def _in_place(root: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    found = [sub for step, sub in subschemas(node) if step[0] in IN_PLACE and isinstance(sub, dict)]
    for key in ("$ref", "$dynamicRef"):
        target = resolve_pointer(root, node.get(key))
        if isinstance(target, dict):
            found.append(target)
    return found


def _over(path: Path, problem: str) -> InvalidSchemaError:
    pointer = pointer_of(path)
    # Only the outer part of a very deep pointer helps a reader.
    shown = pointer if len(pointer) <= 120 else pointer[:117] + "..."
    return InvalidSchemaError(f"{shown or '(root)'}: {problem}", pointer=pointer)
