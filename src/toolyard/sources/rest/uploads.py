"""Files in a multipart body, wherever its schema has them: base64 text in the schema, parts in the binding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from toolyard.links.http.media import media_kind
from toolyard.model.bindings import OTHER_PARTS, RestPart
from toolyard.sources.rest.schemas import Node, SchemaPart

BASE64: Node = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": r"^\s*(?:(?:[A-Za-z0-9+/]\s*){4})*(?:(?:[A-Za-z0-9+/]\s*){2,3})?(?:=\s*)*$",
}
"""Bytes as an argument: what the engine can read, also in lines, and with or without the signs at the end."""

SAID = ("description", "title", "examples", "deprecated")
"""What a schema says to people, and keeps when its value is written in another way."""

_BRANCHES = ("anyOf", "oneOf", "allOf")
_COMPOUND = frozenset({*_BRANCHES, "$ref", "properties", "items"})
_MAX_DEPTH = 64
_MAX_SIZE = 5_000
"""Subschemas of a component that is written out where it is named, because there are files in it."""


class Found(NamedTuple):
    """A schema, what is known of the files in its values, and its size where components were written out in it."""

    node: Any
    part: RestPart | None = None
    text: bool = False
    """Whether its values may be other text than that of a file."""
    size: int = 0


class Uploads:
    """Finds the files in the schema of one body; `content_types` are those of its properties, where it says them."""

    def __init__(self, content_types: Mapping[str, str | None], targets: Mapping[str, SchemaPart]) -> None:
        self.targets = dict(targets)
        """What the schemas that were found refer to."""
        self._content_types = content_types
        self._components: dict[tuple[str, str | None, bool], Found] = {}

    def find(self, node: Any, content_type: str | None = None, depth: int = 0, *, is_body: bool = False) -> Found:
        """The schema of the body, or of a property with such a content type, with base64 text in place of files."""
        # In a part that is JSON bytes are text.
        if type(node) is not dict or depth > _MAX_DEPTH or media_kind(content_type or "*/x") == "json":
            return Found(node)
        if is_file(node, content_type):
            said = {key: node[key] for key in (*SAID, "contentMediaType") if key in node}
            return Found({**said, **BASE64, "type": node.get("type", "string")}, RestPart(binary=True))
        out, depth = dict(node), depth + 1
        inside = self._find_fields(node, out, depth, is_body)
        for key in _BRANCHES:
            if key in node:
                found = [self.find(item, content_type, depth, is_body=is_body) for item in node[key]]
                inside += found
                out[key] = [item.node for item in found]
        if type(node.get("items")) is dict:
            inside.append(self.find(node["items"], content_type, depth))
            out["items"] = inside[-1].node
        if type(node.get("$ref")) is str:
            inside.append(self._find_component(node["$ref"][8:], content_type, depth, is_body))
            if inside[-1].part is not None:
                del out["$ref"]
                out = {"allOf": [inside[-1].node], **out} if out else inside[-1].node
        part = merge_parts(found.part for found in inside if found.part is not None)
        text = "string" in list_types(node) or any(found.text for found in inside)
        if part is None:
            return Found(node, text=text)
        if part.binary and text:
            part = RestPart(binary=True, text=True, parts=part.parts)
        return Found(out, part, text, sum(found.size for found in inside))

    def _find_fields(self, node: Node, out: Node, depth: int, is_body: bool) -> list[Found]:
        """What is inside an object, as one."""
        fields: dict[str, Found] = {}
        if type(node.get("additionalProperties")) is dict:
            fields[OTHER_PARTS] = self.find(node["additionalProperties"], None, depth)
            out["additionalProperties"] = fields[OTHER_PARTS].node
        if "properties" in node:
            types = self._content_types if is_body else {}
            named = {name: self.find(sub, types.get(name), depth) for name, sub in node["properties"].items()}
            out["properties"] = {name: found.node for name, found in named.items()}
            fields |= named
        # Where those not named are files, those that are named must be named as parts, too.
        others = RestPart() if OTHER_PARTS in fields and fields[OTHER_PARTS].part else None
        parts = {name: part for name, found in fields.items() if (part := found.part or others)}
        size = sum(found.size for found in fields.values())
        return [Found(None, RestPart(parts=parts), size=size)] if parts else []

    def _find_component(self, name: str, content_type: str | None, depth: int, is_body: bool) -> Found:
        """Once for each place; one that leads back to itself is left as it is there."""
        key = (name, content_type, is_body)
        if key not in self._components:
            component = self.targets[name]
            self.targets |= component.refs
            self._components[key] = Found(None)
            found = self.find(component.node, content_type, depth, is_body=is_body)
            size = component.count + found.size
            self._components[key] = found._replace(size=size) if size <= _MAX_SIZE else Found(None, text=found.text)
        return self._components[key]


def merge_parts(parts: Iterable[RestPart]) -> RestPart | None:
    """What holds for a value of any of these; None for none."""
    merged: RestPart | None = None
    for part in parts:
        if merged is None:
            merged = part
            continue
        names = {**merged.parts, **part.parts}
        both = {name: [side.parts[name] for side in (merged, part) if name in side.parts] for name in names}
        inner = {name: found for name, sides in both.items() if (found := merge_parts(sides))}
        merged = RestPart(binary=merged.binary or part.binary, text=merged.text or part.text, parts=inner)
    return merged


def is_file(node: Node, content_type: str | None) -> bool:
    """Whether a schema alone says that its values are bytes."""
    if not list_types(node) <= {"string"} or "contentEncoding" in node or node.keys() & _COMPOUND:
        return False
    described = str(node.get("contentMediaType") or content_type or "text/plain")
    return node.get("format") == "binary" or ("enum" not in node and media_kind(described) == "binary")


def list_types(node: Node) -> set[str]:
    """The types a converted schema allows beside null; none if it does not say."""
    kind = node.get("type", ())
    return {kind} - {"null"} if type(kind) is str else set(kind) - {"null"}
