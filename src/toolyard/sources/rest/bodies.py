"""Bodies: which of the media types offered is sent, what arguments make it up, and what a call gives back."""

from __future__ import annotations

import re
from typing import Any

from toolyard.links.http.media import MediaKind, bare_media_type, choose_media_type, media_kind
from toolyard.model.bindings import RestPart
from toolyard.sources.rest.document import Files, Notes, ResolvedRef
from toolyard.sources.rest.schemas import Node, SchemaPart, Schemas
from toolyard.sources.rest.swagger2 import Swagger

_PLAIN_OBJECT = frozenset(
    {
        *("type", "properties", "required", "description", "title", "allOf", "$ref", "additionalProperties"),
        *("examples", "default", "deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords of an object that is the sum of its properties."""

_SAID = ("description", "title", "examples", "deprecated")
_JSON_LIKE = frozenset({"object", "array"})
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

    def read(self, raw: Any, file: str, place: str) -> RequestBody | None:
        """The body an operation takes; None if it takes none, or nothing can be told about it."""
        settled = self._files.settle(raw, file)
        raw, file = settled.node, settled.file
        content = raw.get("content") if type(raw) is dict else None
        if type(content) is not dict or not content:
            if raw is not None:
                self._notes.add(f"{place}/requestBody", "the request body says nothing about its content; left out")
            return None
        media_type = choose_media_type(map(str, content))
        media = self._files.settle(content.get(media_type), file)
        described = media.node if type(media.node) is dict else {}
        part = self._schemas.convert(described.get("schema", {}), media.file)
        body = RequestBody(str(media_type), part, sent=raw.get("required") is True)
        self._shape_body(body, described)
        if body.properties is None and type(raw.get("description")) is str and type(body.node) is dict:
            body.node = {**body.node, "description": raw["description"]}
        return body

    def _shape_body(self, body: RequestBody, media: Node) -> None:
        kind = media_kind(body.media_type)
        resolved = resolve_part(body.part.node, body.targets)
        if kind == "binary" and resolved.get("type") in _JSON_LIKE:
            kind = "json"  # A type of somebody's own for what is plainly data.
        if kind in ("text", "binary"):
            self._shape_whole(body, resolved, kind)
            return
        if bare_media_type(body.media_type) in ("*/*", "application/*", "*"):
            body.media_type = "application/json"
        encoding = media.get("encoding")
        encoding = encoding if type(encoding) is dict else {}
        found = flatten_object(body.part)
        if found is None:
            if type(body.node) is not dict:
                body.node = {}
            if kind in ("form", "multipart") and type(resolved.get("properties")) is dict:
                # One argument, but each of its properties is a part that may hold bytes.
                body.properties = resolved["properties"]
                self._encode_parts(body, encoding, kind)
                body.node, body.properties = {**resolved, "properties": body.properties}, None
            return
        body.properties, body.required, body.targets = found
        if kind in ("form", "multipart"):
            self._encode_parts(body, encoding, kind)

    def _shape_whole(self, body: RequestBody, resolved: Node, kind: MediaKind) -> None:
        """Text is an argument of text; bytes are one of base64."""
        said = {key: resolved[key] for key in _SAID if key in resolved}
        body.binary = kind == "binary"
        body.node = {**said, "type": "string", "contentMediaType": bare_media_type(body.media_type)}
        if body.binary:
            body.node["contentEncoding"] = "base64"
        else:
            limits = ("pattern", "minLength", "maxLength", "enum")
            body.node |= {key: resolved[key] for key in limits if key in resolved and resolved.get("type") == "string"}
        body.targets = {}

    def _encode_parts(self, body: RequestBody, encoding: Node, kind: MediaKind) -> None:
        properties: Node = {}
        for name, node in (body.properties or {}).items():
            said = encoding.get(name)
            said = said if type(said) is dict else {}
            resolved = resolve_part(node, body.targets)
            several = resolved.get("type") == "array"
            inner = resolve_part(resolved.get("items", {}), body.targets) if several else resolved
            binary = kind == "multipart" and _is_binary(inner)
            properties[name] = _base64_schema(node, resolved, inner, several) if binary else node
            content_type = _first_type(said.get("contentType"))
            style = said["style"] if said.get("style") in _PART_STYLES else None
            explode = said.get("explode")
            if binary or content_type or style or isinstance(explode, bool):
                exploded = explode if isinstance(explode, bool) else style in (None, "form", "deepObject")
                body.parts[name] = RestPart(content_type=content_type, style=style, explode=exploded, binary=binary)
        body.properties = properties


def resolve_part(node: Any, targets: dict[str, SchemaPart]) -> Node:
    """A converted schema, or the component it refers to; empty for what is no object."""
    for _ in range(16):
        ref = node.get("$ref") if type(node) is dict else None
        if type(ref) is not str or ref[8:] not in targets:
            break
        part = targets[ref[8:]]
        node, targets = part.node, part.refs
    return node if type(node) is dict else {}


def flatten_object(part: SchemaPart) -> tuple[Node, list[str], dict[str, SchemaPart]] | None:
    """Properties, the required ones of them, and the components they refer to; None if that is not all there is."""
    properties: Node = {}
    required: dict[str, None] = {}
    targets: dict[str, SchemaPart] = {}
    if not _gather_object(part.node, part, properties, required, targets, []) or not properties:
        return None
    hidden = {name for name, node in properties.items() if type(node) is dict and node.get("readOnly") is True}
    shown = {name: node for name, node in properties.items() if name not in hidden}
    # What is required but not described may be anything; it must still be possible to send it.
    for name in required:
        if name not in properties:
            shown[name] = {}
    return shown, [name for name in required if name not in hidden], targets


def _gather_object(
    node: Any,
    part: SchemaPart,
    properties: Node,
    required: dict[str, None],
    targets: dict[str, SchemaPart],
    on_the_way: list[SchemaPart],
) -> bool:
    if type(node) is not dict or not node.keys() <= _PLAIN_OBJECT or node.get("type", "object") != "object":
        return False
    if node.get("additionalProperties") not in (None, False):
        return False
    targets.update(part.refs)
    for name, sub in node.get("properties", {}).items():
        properties[name] = {"allOf": [properties[name], sub]} if name in properties else sub
    required.update(dict.fromkeys(node.get("required", ())))
    ref = node.get("$ref")
    if type(ref) is str:
        target = part.refs[ref[8:]]
        if target in on_the_way or not _gather_object(
            target.node, target, properties, required, targets, [*on_the_way, target]
        ):
            return False
    return all(_gather_object(sub, part, properties, required, targets, on_the_way) for sub in node.get("allOf", ()))


def _is_binary(node: Node) -> bool:
    if node.get("type", "string") != "string" or "contentEncoding" in node:
        return False
    return node.get("format") == "binary" or media_kind(str(node.get("contentMediaType", "text/plain"))) == "binary"


def _base64_schema(node: Any, resolved: Node, inner: Node, several: bool) -> Node:
    said = {key: value for source in (resolved, node) for key, value in source.items() if key in _SAID}
    text: Node = {"type": "string", "contentEncoding": "base64"}
    if "contentMediaType" in inner:
        text["contentMediaType"] = inner["contentMediaType"]
    return {**said, "type": "array", "items": text} if several else {**said, **text}


def _first_type(value: Any) -> str | None:
    """Of `image/png, image/jpeg` the first; a wildcard says nothing."""
    for item in value.split(",") if type(value) is str else ():
        if item.strip() and "*" not in item:
            return str(item.strip())
    return None


_SUCCESS = re.compile(r"2(?:[0-9]{2}|[xX]{2})")


def find_success(
    operation: dict[str, Any], file: str, files: Files, swagger: Swagger | None
) -> tuple[ResolvedRef | None, tuple[str, ...]]:
    """The schema of the first success that has JSON, with its file; and the media types of all successes.

    `default` counts where it is all there is: beside others it describes what went wrong.
    """
    responses = operation.get("responses")
    if type(responses) is not dict:
        return None, ()
    schema: ResolvedRef | None = None
    accepts: dict[str, None] = {}
    for code in _success_codes(responses):
        settled = files.settle(responses[code], file)
        raw = swagger.response(settled.node, operation) if swagger is not None else settled.node
        content = raw.get("content") if type(raw) is dict else None
        if type(content) is not dict:
            continue
        accepts.update(dict.fromkeys(map(str, content)))
        if schema is None:
            schema = _json_schema(content, settled.file, files)
    return schema, tuple(accepts)


def _success_codes(responses: dict[str, Any]) -> list[str]:
    codes = [code for code in responses if code[:1] == "2" and _SUCCESS.fullmatch(code)]
    if len(codes) > 1:
        codes.sort(key=str.upper)
    if not codes and "default" in responses and all(code == "default" or code[:2] == "x-" for code in responses):
        return ["default"]
    return codes


def _json_schema(content: dict[str, Any], file: str, files: Files) -> ResolvedRef | None:
    kinds = [kind for kind in content if type(kind) is str and media_kind(kind) == "json"]
    kinds.sort(key=lambda kind: bare_media_type(kind) != "application/json")
    for kind in kinds:
        media = files.settle(content[kind], file)
        if type(media.node) is dict and isinstance(media.node.get("schema"), (dict, bool)):
            return ResolvedRef(media.node["schema"], media.file)
    return None
