"""Local references: the only kind that is ever followed."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote


def resolve_pointer(root: dict[str, Any], ref: object) -> Any:
    """What `#/...` points at inside `root`; None for anything else or a dangling pointer."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    node: Any = root
    for part in unquote(ref[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def declared_properties(root: dict[str, Any]) -> frozenset[str]:
    """Names of the properties an object schema declares, in any branch, `$ref`s followed."""
    names: set[str] = set()
    seen: set[int] = set()
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        stack.append(resolve_pointer(root, node.get("$ref")))
        properties = node.get("properties")
        if isinstance(properties, dict):
            names.update(properties)
        for keyword in ("allOf", "anyOf", "oneOf"):
            if isinstance(node.get(keyword), list):
                stack.extend(node[keyword])
    return frozenset(names)
