"""JSON Patch on the fields of an entity."""

from __future__ import annotations

from typing import Any, TypeGuard

from toolyard.engines.simulator.draw import encode
from toolyard.model.errors import ToolFailed
from toolyard.model.json_schema import copy_json
from toolyard.words.identifiers import plain_letters

_OPERATIONS = frozenset(("add", "replace", "remove", "move", "copy", "test"))
_WRITING = frozenset(("add", "replace", "move", "copy"))
_MOST_STEPS = 1000
_LARGEST = 1024 * 1024
"""Maximum bytes of JSON that a patch may copy, and of the entity after it."""


def is_patch(body: Any) -> TypeGuard[list[dict[str, Any]]]:
    """True if a body is a JSON Patch."""
    return isinstance(body, list) and all(
        isinstance(step, dict) and step.get("op") in _OPERATIONS and isinstance(step.get("path"), str) for step in body
    )


def apply_patch(fields: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """The patched entity. The spelling of names is ignored, and steps with a missing target have no effect."""
    if len(patch) > _MOST_STEPS:
        raise _excess_error(f"has more than {_MOST_STEPS} steps")
    whole: dict[str, Any] = {"": copy_json(fields)}
    doubled = 0
    for step in patch:
        operation, value = step["op"], copy_json(step.get("value"))
        if operation in ("move", "copy"):
            parent, key = _find_place(whole, str(step.get("from", "")))
            value = parent[key] if _is_there(parent, key) else None
        if operation == "copy":
            # Measured before copying, since repeated copies grow exponentially.
            doubled += len(encode(value))
            if doubled > _LARGEST:
                raise _excess_error(f"copies more than {_LARGEST} bytes")
            value = copy_json(value)
        if operation in ("move", "remove"):
            parent, key = _find_place(whole, str(step.get("from", "")) if operation == "move" else step["path"])
            if _is_there(parent, key):
                del parent[key]
        if operation in _WRITING:
            parent, key = _find_place(whole, step["path"])
            if isinstance(parent, list) and operation != "replace":
                parent.insert(key, value)
            elif isinstance(parent, dict) or _is_there(parent, key):
                parent[key] = value
    changed = whole.get("")
    if doubled and len(encode(changed)) > _LARGEST:
        raise _excess_error(f"copies until there are more than {_LARGEST} bytes")
    return changed if isinstance(changed, dict) else fields


def _excess_error(what: str) -> ToolFailed:
    return ToolFailed(f"the patch {what}", hint="send the values themselves, or several patches", effect="none")


def _find_place(whole: dict[str, Any], pointer: str) -> tuple[Any, Any]:
    """The container that a pointer leads into, and the key or index there; None where it does not exist."""
    node: Any = None
    key: Any = None
    for part in pointer.split("/"):
        node = whole if node is None and key is None else node[key] if _is_there(node, key) else None
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            key = int(key) if key.isdecimal() and len(key) < 6 else len(node)
        elif isinstance(node, dict):
            key = next((name for name in node if plain_letters(name) == plain_letters(key)), key)
    return node, key


def _is_there(node: Any, key: Any) -> bool:
    return key in node if isinstance(node, dict) else isinstance(node, list) and key < len(node)
