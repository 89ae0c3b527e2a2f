"""Bodies: which of the media types offered is sent, what arguments make it up, and what a call gives back.

Files in a multipart body, wherever its schema has them, are base64 text in the schema and parts in the binding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolyard.links.http.media import MediaKind, bare_media_type, choose_media_type, media_kind
from toolyard.model.bindings import OTHER_PARTS, RestPart
from toolyard.sources.rest.document import MAIN, Files, Notes, ResolvedRef
from toolyard.sources.rest.schemas import Node, SchemaPart, Schemas
from toolyard.sources.rest.swagger2 import Swagger

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


_PLAIN_OBJECT = frozenset(
    {
        *("type", "properties", "required", "description", "title", "allOf", "$ref", "additionalProperties"),
        *("examples", "default", "deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords of an object that is the sum of its properties."""

_MAX_HOPS = 32
_END: Any = object()
_JSON_LIKE = frozenset({"object", "array"})
_ONLY_FILE = "file"
"""The name of the part where a multipart body is nothing but a file, which the document gives no name."""
_PLAIN_PART = RestPart()
_ANY_BODY = ResolvedRef({"content": {"application/json": {}}}, MAIN)
_PART_STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


class RequestBody:
    """A request body, and the arguments it is made of."""

    __slots__ = ("binary", "media_type", "node", "part", "parts", "properties", "required", "sent", "targets")

    def __init__(self, media_type: str, part: SchemaPart, *, sent: bool) -> None:
        self.media_type = media_type
        self.part = part
        self.sent = sent
        """Whether the operation must have a body."""
        self.node: Any = part.node
        """The schema of the whole body, where it is one argument."""
        self.properties: Node | None = None
        """Schemas of the properties, where each is an argument."""
        self.required: list[str] = []
        self.parts: dict[str, RestPart] = {}
        self.binary = False
        self.targets = part.refs


class Bodies:
    """Reads the request bodies of one document."""

    def __init__(self, schemas: Schemas, files: Files, notes: Notes) -> None:
        self._schemas = schemas
        self._files = files
        self._notes = notes

    def read(self, here: ResolvedRef, place: str) -> RequestBody | None:
        """The body an operation takes; None if nothing can be told about it."""
        settled = self._files.settle(here)
        if settled.node is None:
            settled = _ANY_BODY  # It has been noted why.
        raw = settled.node
        content = self._files.settle(settled.inside("content"))
        if type(content.node) is not dict or not content.node:
            self._notes.add(f"{place}/requestBody", "the request body says nothing about its content; left out")
            return None
        media_type = choose_media_type(map(str, content.node))
        media = self._files.settle(content.inside(str(media_type)))
        schema = media.inside("schema")
        part = self._schemas.convert({} if schema.node is None else schema.node, schema.file)
        body = RequestBody(str(media_type), part, sent=raw.get("required") is True)
        self._shape_body(body, self._read_encoding(media))
        for name, said in body.parts.items():
            if said.text:
                self._notes.add(f"{place}/requestBody", f"{name!r} is a file or text: base64 is sent as a file")
            if said.parts:
                self._notes.add(f"{place}/requestBody", f"{name!r} holds files: it is sent as parts like {name}[field]")
        if body.properties and all(map(_is_read_only, body.properties.values())):
            self._notes.add(
                f"{place}/requestBody",
                "every property is readOnly, which leaves nothing to send; all are read as arguments",
            )
        if body.properties is None and type(raw.get("description")) is str and type(body.node) is dict:
            body.node = {**body.node, "description": raw["description"]}
        return body

    def _read_encoding(self, media: ResolvedRef) -> Node:
        """What is said of the parts of a body, by property."""
        found = self._files.settle(media.inside("encoding"))
        named = (
            {name: self._files.settle(found.inside(name)).node for name in found.node or ()}
            if type(found.node) is dict
            else {}
        )
        return {name: said for name, said in named.items() if type(said) is dict}

    def _shape_body(self, body: RequestBody, encoding: Node) -> None:
        kind = media_kind(body.media_type)
        resolved = resolve_part(body.part.node, body.targets)
        types = list_types(resolved)
        if kind == "binary" and types and types <= _JSON_LIKE:
            kind = "json"  # A type of somebody's own for what is plainly data.
        if kind in ("text", "binary"):
            self._shape_whole(body, resolved, kind)
            return
        if bare_media_type(body.media_type) in ("*/*", "application/*", "*"):
            body.media_type = "application/json"
        found = flatten_object(body.part)
        if kind == "multipart" and is_file(resolved, None):
            found = {_ONLY_FILE: resolved}, [_ONLY_FILE] if body.sent else [], {}
        if found is not None:
            body.properties, body.required, body.targets = found
        elif type(body.node) is not dict:
            body.node = {}
        if kind in ("form", "multipart"):
            # Also where the body is one argument: each of its properties is a part that may hold bytes.
            self._encode_parts(body, encoding, kind)

    def _shape_whole(self, body: RequestBody, resolved: Node, kind: MediaKind) -> None:
        """Text is an argument of text; bytes are one of base64."""
        said = {key: resolved[key] for key in SAID if key in resolved}
        body.binary = kind == "binary"
        body.node = {**said, **BASE64} if body.binary else {**said, "type": "string"}
        body.node["contentMediaType"] = bare_media_type(body.media_type)
        if not body.binary and list_types(resolved) == {"string"}:
            limits = ("pattern", "minLength", "maxLength", "enum")
            body.node |= {key: resolved[key] for key in limits if key in resolved}
        if not body.binary and list_types(resolved) & _JSON_LIKE:
            # XML, or JSON by lines: the caller writes the text, and must still see what belongs into it.
            body.node["contentSchema"] = body.part.node
        else:
            body.targets = {}

    def _encode_parts(self, body: RequestBody, encoding: Node, kind: MediaKind) -> None:
        """Say of every property how it is written, and look for files in it."""
        content_types = {name: _first_type(said.get("contentType")) for name, said in encoding.items()}
        files: Mapping[str, RestPart] = {}
        if kind == "multipart":
            uploads = Uploads(content_types, body.targets)
            whole = body.node if body.properties is None else {"properties": body.properties}
            found = uploads.find(whole, is_body=True)
            body.targets = uploads.targets
            files = found.part.parts if found.part is not None else {}
            if body.properties is None:
                body.node = found.node
            else:
                body.properties = found.node["properties"]
        for name in {**files, **encoding}:
            said, file = encoding.get(name, {}), files.get(name)
            # The style is that of a query, which has no place for bytes.
            style = said["style"] if file is None and said.get("style") in _PART_STYLES else None
            explode = said.get("explode")
            exploded = explode if isinstance(explode, bool) else style in (None, "form", "deepObject")
            part = RestPart(content_type=content_types.get(name), style=style, explode=exploded)
            if file is not None:
                part = replace(part, binary=file.binary, text=file.text, parts=file.parts)
            if file is not None or part != _PLAIN_PART:
                body.parts[name] = part


def resolve_part(node: Any, targets: dict[str, SchemaPart]) -> Node:
    """What a converted schema says, through references and beside null; empty for what is no object."""
    for _ in range(_MAX_HOPS):
        if type(node) is not dict:
            break
        ref = node.get("$ref")
        if type(ref) is str and ref[8:] in targets:
            part = targets[ref[8:]]
            node, targets = part.node, part.refs
            continue
        # Frameworks write an optional file as one of a file and null.
        options = node.get("anyOf") or node.get("oneOf") or node.get("allOf") or ()
        others = [option for option in options if option != {"type": "null"}]
        if len(others) != 1 or "properties" in node:
            break
        node = others[0]
    return node if type(node) is dict else {}


def flatten_object(part: SchemaPart) -> tuple[Node, list[str], dict[str, SchemaPart]] | None:
    """Properties, the required ones of them, and the components they refer to; None if that is not all there is."""
    found: dict[str, list[Any]] = {}
    required: dict[str, None] = {}
    targets: dict[str, SchemaPart] = {}
    if not _gather_object(part, found, required, targets) or not found:
        return None
    properties = {name: nodes[0] if len(nodes) == 1 else {"allOf": nodes} for name, nodes in found.items()}
    hidden = {name for name, node in properties.items() if _is_read_only(node)}
    if len(hidden) == len(properties):
        hidden = set()  # A body of which nothing may be sent: the document means something else by that word.
    shown = {name: node for name, node in properties.items() if name not in hidden}
    # What is required but not described may be anything; it must still be possible to send it.
    for name in required:
        if name not in properties:
            shown[name] = {}
    return shown, [name for name in required if name not in hidden], targets


def _is_read_only(node: Any) -> bool:
    return type(node) is dict and node.get("readOnly") is True


def _gather_object(
    part: SchemaPart, found: dict[str, list[Any]], required: dict[str, None], targets: dict[str, SchemaPart]
) -> bool:
    """Add up what an object is all of, each component once however often it is named; False if that is not all."""
    targets.update(part.refs)
    open_parts: set[SchemaPart] = set()
    done: set[SchemaPart] = set()
    stack: list[tuple[Any, SchemaPart]] = [(part.node, part)]
    while stack:
        node, owner = stack.pop()
        if node is _END:
            open_parts.discard(owner)
            continue
        if type(node) is not dict or not node.keys() <= _PLAIN_OBJECT or node.get("type", "object") != "object":
            return False
        if node.get("additionalProperties") not in (None, False):
            return False
        for name, sub in node.get("properties", {}).items():
            found.setdefault(name, []).append(sub)
        required.update(dict.fromkeys(node.get("required", ())))
        stack.extend([(sub, owner) for sub in reversed(node.get("allOf", ()))])
        ref = node.get("$ref")
        target = owner.refs[ref[8:]] if type(ref) is str else None
        if target in open_parts:
            return False
        if target is not None and target not in done:
            targets.update(target.refs)
            open_parts.add(target)
            done.add(target)
            stack += [(_END, target), (target.node, target)]
    return True


def _first_type(value: Any) -> str | None:
    """Of `image/png, image/jpeg` the first; a wildcard says nothing."""
    for item in value.split(",") if type(value) is str else ():
        if item.strip() and "*" not in item:
            return str(item.strip())
    return None


_SUCCESS = re.compile(r"2(?:[0-9]{2}|[xX]{2})")


def find_success(
    operation: ResolvedRef, files: Files, swagger: Swagger | None
) -> tuple[ResolvedRef | None, tuple[str, ...]]:
    """The schema of the first success that has JSON, with its file; and the media types of all successes.

    `default` counts where it is all there is: beside others it describes what went wrong.
    """
    responses = files.settle(operation.inside("responses"))
    schema: ResolvedRef | None = None
    accepts: dict[str, None] = {}
    for code in _success_codes(responses.node) if type(responses.node) is dict else ():
        response = files.settle(responses.inside(code))
        if swagger is not None:
            response = swagger.response(response, operation.node)
        content = files.settle(response.inside("content"))
        if type(content.node) is not dict:
            continue
        accepts.update(dict.fromkeys(map(str, content.node)))
        if schema is None:
            schema = _json_schema(content, files)
    return schema, tuple(accepts)


def _success_codes(responses: dict[str, Any]) -> list[str]:
    codes = [code for code in responses if code[:1] == "2" and _SUCCESS.fullmatch(code)]
    if len(codes) > 1:
        codes.sort(key=str.upper)
    if not codes and "default" in responses and all(code == "default" or code[:2] == "x-" for code in responses):
        return ["default"]
    return codes


def _json_schema(content: ResolvedRef, files: Files) -> ResolvedRef | None:
    kinds = [kind for kind in content.node if type(kind) is str and media_kind(kind) == "json"]
    kinds.sort(key=lambda kind: bare_media_type(kind) != "application/json")
    for kind in kinds:
        schema = files.settle(content.inside(kind)).inside("schema")
        # That nothing is allowed says that there is no answer.
        if isinstance(schema.node, (dict, bool)) and schema.node not in (False, {"not": {}}):
            return schema
    return None
