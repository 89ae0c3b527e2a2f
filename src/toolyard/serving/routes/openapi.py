"""The OpenAPI document, generated from the routes and the types that parse requests, so that it cannot go stale."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.constants import VERSION
from toolyard.serving.keys import KeyRing
from toolyard.serving.routes.arp import ArpErrorEnvelope
from toolyard.serving.routing import JsonResponse, Operation, list_operations, operation
from toolyard.serving.wire_types import ErrorEnvelope

_ALWAYS = {
    400: "The request is malformed.",
    405: "The method is not allowed here; `Allow` says which are.",
    408: "The request took too long to arrive.",
    414: "The path is too long.",
    421: "The host name in `Host` is not allowed.",
    431: "The headers are too large.",
    500: "The server failed; its log has details under the request id.",
    503: "The server cannot answer at the moment; try again later.",
}
_WITH_KEY = {
    401: "The key is missing or not valid.",
    403: "The key, or the page the request comes from, is not allowed to do this.",
    429: "Too many requests (`Retry-After` says when to try again), or more sessions than a key may have.",
}
_WITH_BODY = {413: "The body is too large, or holds too many values.", 415: "The body is not JSON."}
_DESCRIPTIONS = {
    200: "Success.",
    201: "Created.",
    202: "Held: the call needs approval first; nothing has run.",
    204: "Success; the response has no body.",
    304: "Unchanged since the given `ETag`.",
    404: "Not found.",
    409: "Conflict with an existing resource.",
    501: "No engine of this server can call the tool.",
    504: "The tool took too long.",
}
_BRACES = re.compile(r"\{(\w+)\}")
_PREFER: dict[str, Any] = {
    "name": "Prefer",
    "in": "header",
    "schema": {"type": "string"},
    "description": "`wait=30`: wait up to 30 seconds for the approval of a held call.",
}
_IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[!-~]+$"},
    "description": "A repeated request with the same key and body returns the first result.",
}
_REF = "#/components/schemas/{name}"


class OpenApiRoute:
    """Serves the document of all operations, including this one; generated on the first request, as few need it."""

    def __init__(self, operations: Iterable[Operation], keys: KeyRing) -> None:
        self._keys = keys
        self._operations = (*operations, *list_operations(self))
        self._documents: dict[bool, bytes] = {}

    @operation("GET /openapi.json", "This document", answers={200: dict[str, Any]}, access="open")
    async def show_document(self, request: Request) -> Response:
        """The OpenAPI 3.1 document of this API."""
        keyed = self._keys.required
        if keyed not in self._documents:
            # In a thread: it takes about 50 ms.
            document = await asyncio.to_thread(write_document, self._operations, keys=keyed)
            self._documents[keyed] = msgspec.json.encode(document)
        return JsonResponse(self._documents[keyed])


def write_document(routes: Iterable[Operation], *, keys: bool) -> dict[str, Any]:
    """The OpenAPI document; `keys` says whether requests need a key."""
    shown = [route for route in routes if route.shown and not route.is_page]
    types = sorted({kind for route in shown for kind in _list_types(route)}, key=repr)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    # Its type checks this in code, which the generated schema lacks.
    components["ArpInvocation"]["anyOf"] = [{"required": ["tool_id"]}, {"required": ["tool_name"]}]
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _write_operation(route, schema_of, keys)
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "toolyard",
            "version": VERSION,
            "description": "Tools for agents: the catalog, calls, and sessions. `/arp` speaks ARP v1.",
        },
        "paths": paths,
        "components": {"schemas": dict(sorted(components.items()))},
    }
    if keys:
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return made


def _list_types(route: Operation) -> list[Any]:
    kinds = [ErrorEnvelope, ArpErrorEnvelope, route.body]
    for answer in route.answers.values():
        kinds += _as_list(answer)
    return [kind for kind in kinds if kind is not None and not isinstance(kind, str)]


def _as_list(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, tuple) else [answer]


def _write_operation(route: Operation, schema_of: Mapping[Any, Any], keys: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": route.summary,
        "description": inspect.getdoc(route.handler) or "",
        "operationId": f"{route.method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', route.path).rstrip('_')}",
        "parameters": _list_parameters(route),
        "responses": {str(status): answer for status, answer in sorted(_list_responses(route, schema_of).items())},
    }
    if route.body is not None:
        made["requestBody"] = {
            "required": route.body_needed,
            "content": {"application/json": {"schema": schema_of[route.body]}},
        }
    if keys and route.access == "key":
        made["security"] = [{"key": []}]
    return made


def _list_parameters(route: Operation) -> list[dict[str, Any]]:
    path = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    found: list[dict[str, Any]] = [{"name": name, **path} for name in _BRACES.findall(route.path)]
    for parameter in route.query:
        schema = {"type": "array", "items": parameter.schema} if parameter.repeatable else parameter.schema
        found.append({"name": parameter.name, "in": "query", "schema": schema, "description": parameter.description})
    if route.runs:
        found.append(_PREFER)
    if route.idempotent:
        found.append(_IDEMPOTENCY_KEY)
    return found


_EVENT = {"type": "object", "properties": {name: {"type": "string"} for name in ("id", "event", "data")}}
"""Schema of one event of a stream: OpenAPI tools apply the schema to each event."""


def _list_responses(route: Operation, schema_of: Mapping[Any, Any]) -> dict[int, dict[str, Any]]:
    envelope = ArpErrorEnvelope if route.path.startswith("/arp") else ErrorEnvelope
    refusals = dict(_ALWAYS)
    if route.access == "key":
        refusals |= _WITH_KEY
    else:
        refusals[403] = _WITH_KEY[403]
    if route.body is not None or route.method == "POST":
        refusals |= _WITH_BODY
    refusals |= {status: _DESCRIPTIONS[status] for status in route.errors if status not in refusals}
    made: dict[int, dict[str, Any]] = {}
    for status in sorted({*refusals, *route.answers}):
        kinds: list[Any] = [envelope] if status in refusals else []
        if status in route.answers:
            kinds = [*(kind for kind in _as_list(route.answers[status]) if kind not in kinds), *kinds]
        made[status] = _write_response(refusals.get(status) or _DESCRIPTIONS[status], kinds, schema_of)
    return made


def _write_response(description: str, kinds: list[Any], schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": description,
        "headers": {"X-Request-Id": {"schema": {"type": "string"}, "required": True}},
    }
    texts = [kind for kind in kinds if isinstance(kind, str)]
    schemas = [schema_of[kind] for kind in kinds if kind is not None and not isinstance(kind, str)]
    if texts:
        kind = texts[0].partition(";")[0]
        made["content"] = {kind: {"schema": _EVENT if kind == "text/event-stream" else {"type": "string"}}}
    elif schemas:
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        made["content"] = {"application/json": {"schema": schema}}
    return made
