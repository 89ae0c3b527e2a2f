"""Convert Swagger 2.0 to the form of OpenAPI 3: servers, parameters with schemas, bodies and responses with content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolyard.links.http.messages import media_kind
from toolyard.sources.rest.bodies import success_codes
from toolyard.sources.rest.document import Files, Notes, ResolvedRef, Site, is_required, list_parameters

_SCHEMA_KEYS = frozenset(
    {
        *("type", "format", "items", "default", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "multipleOf"),
        *("x-nullable", "example", "readOnly"),
    }
)
_STYLES: dict[str, dict[str, Any]] = {
    "csv": {"style": "form", "explode": False},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
    "multi": {"style": "form", "explode": True},
}
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_SCHEMES = ("https", "http")


def upgrade_document(document: dict[str, Any]) -> dict[str, Any]:
    """The document with `servers` and `components` as in OpenAPI 3; its operations are converted one by one."""
    schemes = document.get("securityDefinitions")
    return {**document, "servers": list_servers(document), "components": {"securitySchemes": schemes}}


def list_servers(document: Mapping[str, Any], schemes: Any = None) -> list[dict[str, str]]:
    """`schemes`, `host` and `basePath` as a list of servers."""
    host = document.get("host")
    path = document.get("basePath")
    base = "/" + path.strip("/") if type(path) is str and path.strip("/") else ""
    if type(host) is not str or not host:
        return [{"url": base or "/"}]
    listed = schemes if type(schemes) is list and schemes else document.get("schemes")
    known = [scheme for scheme in _SCHEMES if type(listed) is list and scheme in listed]
    # By default it is the scheme by which the document was fetched; https is the safe guess.
    return [{"url": f"{scheme}://{host}{base}"} for scheme in known or ["https"]]


class Swagger:
    """Converts the operations of one Swagger 2.0 document; shared parameters are converted once."""

    def __init__(self, document: dict[str, Any], files: Files, notes: Notes) -> None:
        self._document = document
        self._files = files
        self._notes = notes
        self._known: dict[int, tuple[Any, Any]] = {}

    def upgrade_site(self, site: Site) -> Site:
        """The operation and its path item as in OpenAPI 3."""
        raw = site.raw
        common, common_body = self._split_parameters(site.item, site.place)
        own, own_body = self._split_parameters(site.operation, site.place)
        # What only OpenAPI 3 knows means nothing here.
        operation = {**raw, "requestBody": None, "servers": None}
        operation |= {"parameters": own, "responses": self._convert_responses(site.operation)}
        # Body and form parameters of an operation override those of its path.
        body = {(item.node.get("in"), item.node.get("name")): item for item in (*common_body, *own_body)}
        if body:
            operation["requestBody"] = self._convert_body(list(body.values()), raw, site.place)
        if raw.get("schemes"):
            operation["servers"] = list_servers(self._document, raw["schemes"])
        return replace(
            site,
            operation=replace(site.operation, node=operation),
            item=replace(site.item, node={"parameters": common}),
        )

    def _split_parameters(self, owner: ResolvedRef, place: str) -> tuple[Any, list[ResolvedRef]]:
        """The converted parameters, and those that make up the body."""
        listed = self._files.try_resolve(owner.inside("parameters"))
        if type(listed.node) is not list:
            return listed.node, []
        kept: list[Any] = []
        body: list[ResolvedRef] = []
        for item in list_parameters(listed, self._files):
            resolved = self._files.try_resolve(item)
            node = resolved.node
            if node is None and item.node is not None:
                continue  # The reason has already been noted.
            where = node.get("in") if type(node) is dict else None
            if type(where) is str and where in ("body", "formData"):
                body.append(resolved)
            else:
                kept.append(self._rewrite_once(node, place) if type(node) is dict else node)
        return kept, body

    def _rewrite_once(self, raw: dict[str, Any], place: str) -> dict[str, Any]:
        key = id(raw)
        if key not in self._known:
            self._known[key] = (raw, self._rewrite_parameter(raw, place))
        found: dict[str, Any] = self._known[key][1]
        return found

    def _rewrite_parameter(self, raw: dict[str, Any], place: str) -> dict[str, Any]:
        out = {name: value for name, value in raw.items() if name not in _SCHEMA_KEYS and name != "collectionFormat"}
        if "schema" not in raw:
            out["schema"] = {name: value for name, value in raw.items() if name in _SCHEMA_KEYS}
        if raw.get("type") == "array" and raw.get("in") == "query":
            out |= self._array_style(raw, place)
        return out

    def _array_style(self, raw: dict[str, Any], place: str) -> dict[str, Any]:
        written = raw.get("collectionFormat", "csv")
        if written not in _STYLES:
            self._notes.add(
                place, f"parameter {raw.get('name')!r}: {str(written)[:20]!r} lists are written with commas"
            )
        return _STYLES.get(written, _STYLES["csv"])

    def _convert_body(self, found: list[ResolvedRef], operation: dict[str, Any], place: str) -> ResolvedRef:
        """A `requestBody` from the body and form parameters."""
        consumes = self._media_types(operation, "consumes")
        whole = [item for item in found if item.node.get("in") == "body"]
        if whole:
            if len(found) > 1:
                self._notes.add(place, "more than one body parameter, or form ones beside it; the first one kept")
            raw, file = whole[0].node, whole[0].file
            media: dict[str, Any] = {"schema": raw.get("schema", {})}
            types = [kind for kind in consumes if media_kind(kind) in ("json", "text", "binary")]
            content = dict.fromkeys(types or ["application/json"], media)
            described = {"description": raw["description"]} if type(raw.get("description")) is str else {}
            return ResolvedRef({"content": content, "required": is_required(raw), **described}, file)
        return ResolvedRef(self._form_body([item.node for item in found], consumes, place), found[0].file)

    def _form_body(self, raws: list[dict[str, Any]], consumes: list[str], place: str) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        encoding: dict[str, Any] = {}
        required: list[str] = []
        has_file = False
        for raw in raws:
            name = str(raw.get("name", ""))
            schema = {key: value for key, value in raw.items() if key in _SCHEMA_KEYS or key == "description"}
            if raw.get("type") == "file":
                has_file = True
                schema |= {"type": "string", "format": "binary"}
            elif raw.get("type") == "array":
                encoding[name] = self._array_style(raw, place)
            properties[name] = schema
            if is_required(raw):
                required.append(name)
        form = next((kind for kind in consumes if media_kind(kind) in ("form", "multipart")), _FORM)
        if has_file:
            form = next((kind for kind in consumes if media_kind(kind) == "multipart"), _MULTIPART)
        media = {"schema": {"type": "object", "properties": properties, "required": required}, "encoding": encoding}
        return {"content": {form: media}, "required": bool(required)}

    def _convert_responses(self, operation: ResolvedRef) -> dict[str, ResolvedRef]:
        """The responses that describe success, with `content`."""
        responses = self._files.try_resolve(operation.inside("responses"))
        found = {code: self._files.try_resolve(responses.inside(code)) for code in success_codes(responses.mapping)}
        return {code: self._convert_response(response, operation.node) for code, response in found.items()}

    def _convert_response(self, here: ResolvedRef, operation: dict[str, Any]) -> ResolvedRef:
        schema, file = here.inside("schema").node, here.inside("schema").file
        if type(schema) is not dict:
            return here
        types = self._media_types(operation, "produces")
        if schema.get("type") == "file":
            return ResolvedRef({"content": {kind: {} for kind in types or ["application/octet-stream"]}}, file)
        return ResolvedRef({"content": {kind: {"schema": schema} for kind in types or ["application/json"]}}, file)

    def _media_types(self, operation: dict[str, Any], key: str) -> list[str]:
        listed = operation.get(key)
        if type(listed) is not list:
            listed = self._document.get(key)
        return [item for item in listed if type(item) is str] if type(listed) is list else []
