"""How large a refused value may be for its violations to be listed one by one.

A verdict is cheap whatever the value. A list of violations is not: the validator walks every branch of a union again
for each level of a recursive schema, and copies an enum for each value that is not in it, all of it while no other
thread runs. A value beyond these limits is refused with one finding about the whole of it.
"""

from __future__ import annotations

from typing import Any

from toolyard.schema.budget import subschemas
from toolyard.schema.refs import resolve_pointer

_WORK = 1_000_000
_WORK_OF_A_VIOLATION = 40
"""As much as copying an enum of so many values."""
_MAX_DEPTH = 200
_MAX_DEPTH_RECURSIVE = 6
"""Four forms that lead on to each other make 4,096 violations of one wrong value so deep."""


def listing_limits(schema: dict[str, Any] | bool) -> tuple[int, int]:
    """The most values, and levels, of a value whose violations are listed."""
    if not isinstance(schema, dict):
        return _WORK // _WORK_OF_A_VIOLATION, _MAX_DEPTH
    longest, recursive = _survey_schema(schema)
    values = _WORK // (_WORK_OF_A_VIOLATION + longest)
    return (values // 10, _MAX_DEPTH_RECURSIVE) if recursive else (values, _MAX_DEPTH)


def _survey_schema(root: dict[str, Any]) -> tuple[int, bool]:
    """The length of its longest enum, and whether it leads back into itself. Never recurses."""
    longest, recursive = 0, False
    open_nodes: set[int] = set()
    seen: set[int] = set()
    stack: list[tuple[dict[str, Any], bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            open_nodes.discard(id(node))
        elif id(node) in open_nodes:
            recursive = True
        elif id(node) not in seen:
            seen.add(id(node))
            open_nodes.add(id(node))
            enum = node.get("enum")
            longest = max(longest, len(enum) if isinstance(enum, list) else 0)
            below, unknown = _schemas_below(root, node)
            recursive = recursive or unknown
            stack.append((node, True))
            stack.extend((sub, False) for sub in below)
    return longest, recursive


def _schemas_below(root: dict[str, Any], node: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """What a schema leads to, and whether it also leads where only the validator can follow."""
    below = [sub for _, sub in subschemas(node) if isinstance(sub, dict)]
    unknown = "$dynamicRef" in node or "$recursiveRef" in node
    if "$ref" in node:
        target = resolve_pointer(root, node["$ref"])
        if isinstance(target, dict):
            below.append(target)
        else:
            unknown = unknown or not isinstance(target, bool)
    return below, unknown
