"""Request bodies (media type, arguments, encoding) and the schemas of successful responses.

Files in a multipart body, wherever its schema has them, are base64 text in the schema and parts in the binding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from toolyard.links.http.messages import MediaKind, bare_media_type, choose_media_type, media_kind
from toolyard.model.bindings import OTHER_PARTS, RestPart
from toolyard.sources.rest.document import MAIN, Files, Notes, ResolvedRef, is_required
from toolyard.sources.rest.schemas import Node, SchemaPart, Schemas

BASE64: Node = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": r"^\s*(?:(?:[A-Za-z0-9+/]\s*){4})*(?:(?:[A-Za-z0-9+/]\s*){2,3})?(?:=\s*)*$",
}
"""The schema of binary arguments: base64 as the engine accepts it, with or without line breaks and padding."""

KEPT_ANNOTATIONS = ("description", "title", "examples", "deprecated")
"""Annotations that a schema keeps when its value is encoded differently."""

_BRANCHES = ("anyOf", "oneOf", "allOf")
_COMPOUND = frozenset({*_BRANCHES, "$ref", "properties", "items"})
_MAX_DEPTH = 64
_MAX_SIZE = 5_000
"""Maximum number of subschemas of a component that is inlined because it contains files."""


class UploadSchema(NamedTuple):
    """A schema, how the files in its values are sent, and its size including inlined components."""

    node: Any
    part: RestPart | None = None
    text: bool = False
    """Whether its values may be text other than that of a file."""
    size: int = 0


class Uploads:
    """Finds the files in the schema of one body; `content_types` are the declared content types of its properties."""

    def __init__(self, content_types: Mapping[str, str | None], targets: Mapping[str, SchemaPart]) -> None:
        self.targets = dict(targets)
        """The components that the converted schemas refer to."""
        self._content_types = content_types
        self._components: dict[tuple[str, str | None, bool], UploadSchema] = {}

    def find(
        self, node: Any, content_type: str | None = None, depth: int = 0, *, is_body: bool = False
    ) -> UploadSchema:
        """The schema of the body, or of a property with that content type, with base64 text in place of files."""
        # In a JSON part, bytes are text.
        if type(node) is not dict or depth > _MAX_DEPTH or media_kind(content_type or "*/x") == "json":
            return UploadSchema(node)
        if is_file(node, content_type):
            kept = {key: node[key] for key in (*KEPT_ANNOTATIONS, "contentMediaType") if key in node}
            return UploadSchema({**kept, **BASE64, "type": node.get("type", "string")}, RestPart(binary=True))
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
            return UploadSchema(node, text=text)
        if part.binary and text:
            part = RestPart(binary=True, text=True, parts=part.parts)
        return UploadSchema(out, part, text, sum(found.size for found in inside))

    def _find_fields(self, node: Node, out: Node, depth: int, is_body: bool) -> list[UploadSchema]:
        """The files in the properties of an object, combined into one part."""
        fields: dict[str, UploadSchema] = {}
        if type(node.get("additionalProperties")) is dict:
            fields[OTHER_PARTS] = self.find(node["additionalProperties"], None, depth)
            out["additionalProperties"] = fields[OTHER_PARTS].node
        if "properties" in node:
            types = self._content_types if is_body else {}
            named = {name: self.find(sub, types.get(name), depth) for name, sub in node["properties"].items()}
            out["properties"] = {name: found.node for name, found in named.items()}
            fields |= named
        # If additional properties are files, declared properties must be sent as parts too.
        others = RestPart() if OTHER_PARTS in fields and fields[OTHER_PARTS].part else None
        parts = {name: part for name, found in fields.items() if (part := found.part or others)}
        size = sum(found.size for found in fields.values())
        return [UploadSchema(None, RestPart(parts=parts), size=size)] if parts else []

    def _find_component(self, name: str, content_type: str | None, depth: int, is_body: bool) -> UploadSchema:
        """Find the files of a component, once for each content type; a recursive reference is left as it is."""
        key = (name, content_type, is_body)
        if key not in self._components:
            component = self.targets[name]
            self.targets |= component.refs
            self._components[key] = UploadSchema(None)
            found = self.find(component.node, content_type, depth, is_body=is_body)
            size = component.count + found.size
            self._components[key] = (
                found._replace(size=size) if size <= _MAX_SIZE else UploadSchema(None, text=found.text)
            )
        return self._components[key]


def merge_parts(parts: Iterable[RestPart]) -> RestPart | None:
    """The encoding that applies to a value of any of these; None if there are none."""
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
    """Whether the schema itself declares its values as bytes."""
    if not list_types(node) <= {"string"} or "contentEncoding" in node or node.keys() & _COMPOUND:
        return False
    described = str(node.get("contentMediaType") or content_type or "text/plain")
    return node.get("format") == "binary" or ("enum" not in node and media_kind(described) == "binary")


def list_types(node: Node) -> set[str]:
    """The types that a converted schema allows, without null; empty if it has none."""
    kind = node.get("type", ())
    return {kind} - {"null"} if type(kind) is str else set(kind) - {"null"}


_PLAIN_OBJECT = frozenset(
    {
        *("type", "properties", "required", "description", "title", "allOf", "$ref", "additionalProperties"),
        *("examples", "default", "deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords of an object that is defined by its properties alone."""

_MAX_HOPS = 32
_LEAVE: Any = object()
_JSON_LIKE = frozenset({"object", "array"})
_ONLY_FILE = "file"
"""The part's name if a multipart body is nothing but a file, for which the document has no name."""
_PLAIN_PART = RestPart()
_ANY_BODY = ResolvedRef({"content": {"application/json": {}}}, MAIN)
_PART_STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


class RequestBody:
    """A request body and its arguments."""

    __slots__ = ("binary", "is_required", "media_type", "node", "part", "parts", "properties", "required", "targets")

    def __init__(self, media_type: str, part: SchemaPart, *, is_required: bool) -> None:
        self.media_type = media_type
        self.part = part
        self.is_required = is_required
        """Whether the operation requires a body."""
        self.node: Any = part.node
        """The schema of the whole body, if it is a single argument."""
        self.properties: Node | None = None
        """Schemas of the properties, if each is an argument."""
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
        """The body of an operation; None if its content is not described."""
        resolved = self._files.try_resolve(here)
        if resolved.node is None:
            resolved = _ANY_BODY  # The reason has already been noted.
        raw = resolved.node
        content = self._files.try_resolve(resolved.inside("content"))
        if not content.mapping:
            self._notes.add(f"{place}/requestBody", "the request body says nothing about its content; left out")
            return None
        media_type = choose_media_type(map(str, content.node))
        media = self._files.try_resolve(content.inside(str(media_type)))
        schema = media.inside("schema")
        part = self._schemas.convert({} if schema.node is None else schema.node, schema.file)
        body = RequestBody(str(media_type), part, is_required=is_required(raw))
        self._shape_body(body, self._read_encoding(media))
        for name, encoded in body.parts.items():
            if encoded.text:
                self._notes.add(f"{place}/requestBody", f"{name!r} is a file or text: base64 is sent as a file")
            if encoded.parts:
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
        """The encoding of the parts of a body, by property."""
        found = self._files.try_resolve(media.inside("encoding"))
        named = {name: self._files.try_resolve(found.inside(name)).node for name in found.mapping}
        return {name: encoding for name, encoding in named.items() if type(encoding) is dict}

    def _shape_body(self, body: RequestBody, encoding: Node) -> None:
        kind = media_kind(body.media_type)
        resolved = resolve_part(body.part.node, body.targets)
        types = list_types(resolved)
        if kind == "binary" and types and types <= _JSON_LIKE:
            kind = "json"  # A custom media type for structured data.
        if kind in ("text", "binary"):
            self._shape_whole(body, resolved, kind)
            return
        if bare_media_type(body.media_type) in ("*/*", "application/*", "*"):
            body.media_type = "application/json"
        found = flatten_object(body.part)
        if kind == "multipart" and is_file(resolved, None):
            found = {_ONLY_FILE: resolved}, [_ONLY_FILE] if body.is_required else [], {}
        if found is not None:
            body.properties, body.required, body.targets = found
        elif type(body.node) is not dict:
            body.node = {}
        if kind in ("form", "multipart"):
            # Also if the body is a single argument: each of its properties is a part that may contain bytes.
            self._encode_parts(body, encoding, kind)

    def _shape_whole(self, body: RequestBody, resolved: Node, kind: MediaKind) -> None:
        """Make the whole body one argument: text, or base64 for binary media types."""
        kept = {key: resolved[key] for key in KEPT_ANNOTATIONS if key in resolved}
        body.binary = kind == "binary"
        body.node = {**kept, **BASE64} if body.binary else {**kept, "type": "string"}
        body.node["contentMediaType"] = bare_media_type(body.media_type)
        if not body.binary and list_types(resolved) == {"string"}:
            limits = ("pattern", "minLength", "maxLength", "enum")
            body.node |= {key: resolved[key] for key in limits if key in resolved}
        if not body.binary and list_types(resolved) & _JSON_LIKE:
            # XML or JSON lines: the caller writes the text, and needs the schema of its content.
            body.node["contentSchema"] = body.part.node
        else:
            body.targets = {}

    def _encode_parts(self, body: RequestBody, encoding: Node, kind: MediaKind) -> None:
        """Set the encoding of every property, and find the files in it."""
        content_types = {name: _first_type(item.get("contentType")) for name, item in encoding.items()}
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
            given, file = encoding.get(name, {}), files.get(name)
            # These styles are those of a query string, which cannot carry bytes.
            style = given["style"] if file is None and given.get("style") in _PART_STYLES else None
            explode = given.get("explode")
            exploded = explode if isinstance(explode, bool) else style in (None, "form", "deepObject")
            part = RestPart(content_type=content_types.get(name), style=style, explode=exploded)
            if file is not None:
                part = replace(part, binary=file.binary, text=file.text, parts=file.parts)
            if file is not None or part != _PLAIN_PART:
                body.parts[name] = part


def resolve_part(node: Any, targets: dict[str, SchemaPart]) -> Node:
    """Follow references and unwrap a nullable schema; empty if the result is not an object."""
    for _ in range(_MAX_HOPS):
        if type(node) is not dict:
            break
        ref = node.get("$ref")
        if type(ref) is str and ref[8:] in targets:
            part = targets[ref[8:]]
            node, targets = part.node, part.refs
            continue
        # Frameworks declare an optional file as `anyOf` of a file and null.
        options = node.get("anyOf") or node.get("oneOf") or node.get("allOf") or ()
        others = [option for option in options if option != {"type": "null"}]
        if len(others) != 1 or "properties" in node:
            break
        node = others[0]
    return node if type(node) is dict else {}


def flatten_object(part: SchemaPart) -> tuple[Node, list[str], dict[str, SchemaPart]] | None:
    """Properties, the required ones, and the components they refer to; None if there are other constraints."""
    found: dict[str, list[Any]] = {}
    required: dict[str, None] = {}
    targets: dict[str, SchemaPart] = {}
    if not _gather_object(part, found, required, targets) or not found:
        return None
    properties = {name: nodes[0] if len(nodes) == 1 else {"allOf": nodes} for name, nodes in found.items()}
    hidden = {name for name, node in properties.items() if _is_read_only(node)}
    if len(hidden) == len(properties):
        hidden = set()  # Nothing of the body could be sent, so the document uses readOnly differently.
    shown = {name: node for name, node in properties.items() if name not in hidden}
    # A required property without a description accepts any value, so that it can be sent.
    for name in required:
        if name not in properties:
            shown[name] = {}
    return shown, [name for name in required if name not in hidden], targets


def _is_read_only(node: Any) -> bool:
    return type(node) is dict and node.get("readOnly") is True


def _gather_object(
    part: SchemaPart, found: dict[str, list[Any]], required: dict[str, None], targets: dict[str, SchemaPart]
) -> bool:
    """Collect the properties of an object and its `allOf`, each component once; False if it has other constraints."""
    targets.update(part.refs)
    open_parts: set[SchemaPart] = set()
    done: set[SchemaPart] = set()
    stack: list[tuple[Any, SchemaPart]] = [(part.node, part)]
    while stack:
        node, owner = stack.pop()
        if node is _LEAVE:
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
            stack += [(_LEAVE, target), (target.node, target)]
    return True


def _first_type(value: Any) -> str | None:
    """The first of `image/png, image/jpeg`; wildcards are ignored."""
    for item in value.split(",") if type(value) is str else ():
        if item.strip() and "*" not in item:
            return str(item.strip())
    return None


_SUCCESS = re.compile(r"2(?:[0-9]{2}|[xX]{2})")


def find_success(operation: ResolvedRef, files: Files) -> tuple[ResolvedRef | None, tuple[str, ...]]:
    """The JSON schema of the first success response, with its file, and the media types of all success responses.

    `default` counts only if it is the only response; beside others it describes errors.
    """
    responses = files.try_resolve(operation.inside("responses"))
    schema: ResolvedRef | None = None
    accepts: dict[str, None] = {}
    for code in success_codes(responses.mapping):
        content = files.try_resolve(files.try_resolve(responses.inside(code)).inside("content"))
        accepts.update(dict.fromkeys(map(str, content.mapping)))
        if schema is None:
            schema = _json_schema(content, files)
    return schema, tuple(accepts)


def success_codes(responses: dict[str, Any]) -> list[str]:
    """The codes of the responses that describe success, in order."""
    codes = [code for code in responses if code[:1] == "2" and _SUCCESS.fullmatch(code)]
    if len(codes) > 1:
        codes.sort(key=str.upper)
    if not codes and "default" in responses and all(code == "default" or code[:2] == "x-" for code in responses):
        return ["default"]
    return codes


def _json_schema(content: ResolvedRef, files: Files) -> ResolvedRef | None:
    kinds = [kind for kind in content.mapping if type(kind) is str and media_kind(kind) == "json"]
    kinds.sort(key=lambda kind: bare_media_type(kind) != "application/json")
    for kind in kinds:
        schema = files.try_resolve(content.inside(kind)).inside("schema")
        # A schema that allows nothing means that there is no response body.
        if isinstance(schema.node, (dict, bool)) and schema.node not in (False, {"not": {}}):
            return schema
    return None
