"""Utilities for reading schemas: subschemas, references, allowed types and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeGuard
from urllib.parse import unquote, urldefrag, urljoin

from toolyard.model import Schema
from toolyard.model.json_schema import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES, split_pointer


def resolve_pointer(root: dict[str, Any], ref: object) -> Any:
    """The value that `#/...` refers to inside `root`; None for anything else or a dangling pointer."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    node: Any = root
    for key in split_pointer(unquote(ref[1:])):
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node


def declared_properties(root: dict[str, Any]) -> frozenset[str]:
    """Names of the properties an object schema declares, in any branch, with `$ref`s followed."""
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
"""A place in a schema: the keys and indexes from its root."""

REFERENCES = ("$ref", "$dynamicRef")


def iter_children(schema: Schema) -> Iterator[tuple[Path, SubSchema]]:
    """The direct subschemas, each with its path below `schema`."""
    for key, value in schema.items():
        # `dependencies` maps names to schemas or to lists of names.
        if (key in SCHEMA_MAPS or key == "dependencies") and isinstance(value, dict):
            yield from (((key, name), sub) for name, sub in value.items() if is_schema(sub))
        elif key in SCHEMA_LISTS or key in SCHEMA_SINGLES:
            if isinstance(value, list):
                yield from (((key, index), sub) for index, sub in enumerate(value) if is_schema(sub))
            elif key in SCHEMA_SINGLES and is_schema(value):
                yield (key,), value


def map_children(schema: Schema, convert: Callable[[Schema], Schema]) -> Schema:
    """A copy of `schema` with `convert` applied to its direct subschemas; everything else is shared."""

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


def map_references(schema: Schema, change: Callable[[str], str]) -> Schema:
    """A copy of `schema` with `change` applied to each of its references, also of its subschemas."""

    def convert(part: Schema) -> Schema:
        out = map_children(part, convert)
        return out | {key: change(out[key]) for key in REFERENCES if isinstance(out.get(key), str)}

    return convert(schema)


def is_schema(value: object) -> TypeGuard[SubSchema]:
    """Whether a value can be a schema."""
    return isinstance(value, (dict, bool))


class References:
    """Resolves references within one schema document: `#`, `#/pointer`, `#anchor` and `$id`s inside it; no others."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._bases: dict[int, str] = {}

    def resolve(self, ref: object) -> SubSchema | None:
        """The schema a reference leads to; None if the target is not in this document."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        if ref != "#" and not ref.startswith("#/"):
            return next(iter(self._anchors.get(unquote(ref[1:]), [])), None)
        node = resolve_pointer(self.root, ref)
        return node if is_schema(node) else None

    def targets(self, node: Schema, *, every: bool = True) -> list[SubSchema]:
        """The targets of a schema's references; with `every`, all targets that a validator might choose."""
        found: list[SubSchema | None] = []
        for word in REFERENCES:
            ref = node.get(word)
            if isinstance(ref, str):
                named = self._anchors.get(unquote(ref.rpartition("#")[2]), []) if every or word == "$dynamicRef" else []
                found.extend(named if every else named[:1] or [self._resolve_from(node, ref)])
                if every:
                    found += [self._resolve_from(node, ref), self.resolve(ref)]
        if "$recursiveRef" in node:
            found.append(self.root)
        return list({id(target): target for target in found if target is not None}.values())

    @cached_property
    def is_plain(self) -> bool:
        """True if every reference has one target in this document, independent of the path that led there."""
        return not any(
            "$dynamicRef" in node
            or "$recursiveRef" in node
            or (node is not self.root and is_address(node))
            or self.leads_out(node)
            for node in iter_schemas(self.root)
        )

    def leads_out(self, node: Schema) -> bool:
        """True if its `$ref` leads out of the document; such a reference compiles only if it names a meta-schema."""
        return "$ref" in node and self._resolve_from(node, node["$ref"]) is None

    def _resolve_from(self, node: Schema, ref: object) -> SubSchema | None:
        if not isinstance(ref, str):
            return None
        if not self._resources:
            return self.resolve(ref)
        base, fragment = urldefrag(urljoin(self._bases.get(id(node), ""), ref))
        resource = self._resources.get(base)
        if resource is None:
            return self.resolve(ref)
        return References(resource).resolve("#" + fragment)

    @cached_property
    def _anchors(self) -> dict[str, list[Schema]]:
        anchors: dict[str, list[Schema]] = {}
        for node in iter_schemas(self.root):
            for key in ("$anchor", "$dynamicAnchor", "$id", "id"):
                name = node.get(key)
                # Older drafts write an anchor as an `$id` that is a fragment.
                if isinstance(name, str) and ("nchor" in key or name.startswith("#")):
                    anchors.setdefault(name.lstrip("#"), []).append(node)
        return anchors

    @cached_property
    def _resources(self) -> dict[str, Schema]:
        """Schemas with an `$id` by their address; empty for nearly every document."""
        found: dict[str, Schema] = {}
        if not any(is_address(node) for node in iter_schemas(self.root)):
            return found
        stack = [(self.root, "")]
        while stack:
            node, base = stack.pop()
            for key in ("$id", "id"):
                if isinstance(node.get(key), str):
                    base = urldefrag(urljoin(base, node[key]))[0]
                    found.setdefault(base, node)
            self._bases[id(node)] = base
            stack.extend((sub, base) for _, sub in iter_children(node) if isinstance(sub, dict))
        found.setdefault("", self.root)
        return found


def is_address(node: Schema) -> bool:
    """True if the schema declares an address (`$id`) by which others may refer to it."""
    return isinstance(node.get("$id"), str) or isinstance(node.get("id"), str)


def iter_schemas(root: Schema) -> Iterator[Schema]:
    """The root and every schema below it, in document order."""
    stack: list[SubSchema] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(reversed([sub for _, sub in iter_children(node)]))


def prefix_items(node: Schema) -> tuple[list[Any], Any]:
    """The schemas of the first items, and the schema of all others."""
    items = node.get("items")
    if isinstance(node.get("prefixItems"), list):
        return node["prefixItems"], items
    return (items, node.get("additionalItems")) if isinstance(items, list) else ([], items)


def types_of(value: object) -> list[str]:
    """The names in a `type` keyword."""
    names = value if isinstance(value, list) else [value]
    return [name for name in names if isinstance(name, str)]


def mapping_of(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The mapping under a keyword such as `properties`; empty if there is none."""
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def allowed_values(schema: Schema) -> list[Any] | None:
    """The values of `const` or `enum`; None if the schema has neither."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None
