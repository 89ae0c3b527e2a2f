"""Reading schemas: where their subschemas are, where references lead, and which types and values are allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeGuard
from urllib.parse import unquote

from toolyard.model import Schema
from toolyard.model.json_words import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES


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


SubSchema = Schema | bool
Path = tuple[str | int, ...]
"""Where in a schema: the keys and indexes that lead there from its root."""

REFERENCES = ("$ref", "$dynamicRef")


def children(schema: Schema) -> Iterator[tuple[Path, SubSchema]]:
    """The direct subschemas, each with its path below `schema`."""
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            yield from (((key, name), sub) for name, sub in value.items() if is_schema(sub))
        elif key in SCHEMA_LISTS or key in SCHEMA_SINGLES:
            if isinstance(value, list):
                yield from (((key, index), sub) for index, sub in enumerate(value) if is_schema(sub))
            elif key in SCHEMA_SINGLES and is_schema(value):
                yield (key,), value


def rebuild(schema: Schema, convert: Callable[[Schema], Schema]) -> Schema:
    """A copy of `schema` whose direct subschemas went through `convert`; everything else is shared."""

    def each(value: Any) -> Any:
        return convert(value) if isinstance(value, dict) else value

    out: Schema = {}
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            out[key] = {name: each(sub) for name, sub in value.items()}
        elif key in SCHEMA_LISTS or key in SCHEMA_SINGLES:
            out[key] = [each(sub) for sub in value] if isinstance(value, list) else each(value)
        else:
            out[key] = value
    return out


def is_schema(value: object) -> TypeGuard[SubSchema]:
    """Whether a value can be a schema at all."""
    return isinstance(value, (dict, bool))


def reference_path(ref: str) -> tuple[str, ...]:
    """Where in the document a `#/pointer` leads; an anchor has no path, and counts as the root."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in unquote(ref).split("/")[1:])


class References:
    """Resolves the references of one schema document: `#`, `#/pointer` and `#anchor`, never a remote one."""

    def __init__(self, root: Schema) -> None:
        self.root = root

    def resolve(self, ref: object) -> SubSchema | None:
        """The schema a reference leads to, or None if it leads nowhere in this document."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        if ref != "#" and not ref.startswith("#/"):
            return self._anchors.get(unquote(ref[1:]))
        node = resolve_pointer(self.root, ref)
        return node if is_schema(node) else None

    @cached_property
    def _anchors(self) -> dict[str, Schema]:
        anchors: dict[str, Schema] = {}
        stack: list[SubSchema] = [self.root]
        while stack:
            node = stack.pop()
            if isinstance(node, dict):
                for key in ("$anchor", "$dynamicAnchor"):
                    if isinstance(node.get(key), str):
                        anchors.setdefault(node[key], node)
                stack.extend(sub for _, sub in children(node))
        return anchors


def types_of(value: object) -> list[str]:
    """The names in a `type` keyword."""
    names = value if isinstance(value, list) else [value]
    return [name for name in names if isinstance(name, str)]


def allowed_values(schema: Schema) -> list[Any] | None:
    """The values of `const` or `enum`; None when neither limits them."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None
