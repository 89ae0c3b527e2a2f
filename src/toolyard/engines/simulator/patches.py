"""JSON Patch (RFC 6902) on what is known of an entity: `[{"op": "replace", "path": "/name", "value": "x"}]`."""

from __future__ import annotations

from typing import Any, TypeGuard

from toolyard.model.names import copied
from toolyard.words.identifiers import plain_letters

_OPERATIONS = frozenset(("add", "replace", "remove", "move", "copy", "test"))
_WRITING = frozenset(("add", "replace", "move", "copy"))


def is_patch(body: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a body says what is to be done to an entity, step by step."""
    return isinstance(body, list) and all(
        isinstance(step, dict) and step.get("op") in _OPERATIONS and isinstance(step.get("path"), str) for step in body
    )


def apply_patch(fields: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """The entity as it is afterwards; names may be spelt otherwise, and a step that leads nowhere does nothing."""
    whole: dict[str, Any] = {"": copied(fields)}
    for step in patch:
        operation, value = step["op"], copied(step.get("value"))
        if operation in ("move", "copy"):
            parent, key = _find_place(whole, str(step.get("from", "")))
            value = copied(parent[key]) if _is_there(parent, key) else None
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
    return changed if isinstance(changed, dict) else fields


def _find_place(whole: dict[str, Any], pointer: str) -> tuple[Any, Any]:
    """What a pointer leads into, and under which name or number; None for what is not there."""
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
