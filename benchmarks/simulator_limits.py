"""Detects schemas that no value satisfies, so that a simulator cannot be expected to generate one."""

from __future__ import annotations

from typing import Any

from toolyard.model.tool import canonical
from toolyard.schema.fold import find_ways
from toolyard.schema.subschemas import resolve_pointer

_SAID = frozenset(("type", "properties", "required"))
_NOTES = frozenset(("description", "title", "examples", "example", "default", "deprecated", "readOnly"))


def allows_nothing(root: dict[str, Any], node: Any = None, seen: tuple[str, ...] = ()) -> bool:
    """True if a required part is a `oneOf` in which every value that matches one branch also matches another."""
    node = root if node is None else node
    if not isinstance(node, dict):
        return node is False
    ref = node.get("$ref")
    if isinstance(ref, str):
        return ref not in seen and allows_nothing(root, resolve_pointer(root, ref), (*seen, ref))
    branches = node.get("oneOf")
    if isinstance(branches, list) and len(branches) > 1:
        plain = [_plain(root, branch) for branch in branches]
        if all(_repeated(at, plain) for at in range(len(plain))):
            return True
    if any(allows_nothing(root, part, seen) for part in node.get("allOf") or ()):
        return True
    properties = node.get("properties")
    required = node.get("required") or ()
    return isinstance(properties, dict) and any(
        allows_nothing(root, properties[name], seen) for name in required if name in properties
    )


def _plain(root: dict[str, Any], node: Any) -> dict[str, Any] | None:
    ways = find_ways(root, node)
    if len(ways) != 1 or ways[0].checked:
        return None
    found = canonical(_bare(ways[0].schema))
    return found if isinstance(found, dict) else None


def _bare(node: Any) -> Any:
    """A schema without annotations."""
    if not isinstance(node, dict):
        return node
    bare = {key: value for key, value in node.items() if key not in _NOTES}
    if isinstance(bare.get("properties"), dict):
        bare["properties"] = {name: _bare(sub) for name, sub in bare["properties"].items()}
    return bare


def _repeated(at: int, branches: list[dict[str, Any] | None]) -> bool:
    return any(_covers(branches[at], other) for index, other in enumerate(branches) if index != at)


def _covers(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """True if every value of `one` is also valid for `other`."""
    if one is None or other is None or not other.keys() <= _SAID or one.get("type") != other.get("type"):
        return False
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    same = all(name in mine and mine[name] == theirs[name] for name in theirs)
    return same and set(other.get("required", ())) <= set(one.get("required", ()))
