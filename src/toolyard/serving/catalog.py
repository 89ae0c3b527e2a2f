"""What tools there are: lists, search, one definition, and the spellings of the providers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from toolyard.dialects import DIALECTS, get_dialect
from toolyard.model.json_words import closest
from toolyard.model.names import show
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.bodies import one, share, whole
from toolyard.serving.faults import HttpFault
from toolyard.serving.names import TOOL_ID
from toolyard.serving.request import Request
from toolyard.serving.response import JSON, Response, json_response
from toolyard.serving.routes import Parameter, Route
from toolyard.serving.running import scope_of
from toolyard.serving.search import Found, found_tools
from toolyard.serving.service import Service
from toolyard.serving.shapes import NativeListing, ProviderListing, V0Listed

_MOST = 1000
_TEXT = {"type": "string"}

QUERY = (
    Parameter("q", {"type": "string", "maxLength": 500}, "A task, or words of names, descriptions, tags; best first."),
    Parameter("namespace", _TEXT, "Only tools of this namespace.", repeatable=True),
    Parameter("tag", _TEXT, "Only tools with this tag.", repeatable=True),
    Parameter("format", {"type": "string", "enum": list(DIALECTS)}, "Spell tools as this provider wants them."),
    Parameter("threshold", {"type": "number", "minimum": 0, "maximum": 1}, "With `q`: the score the best must reach."),
    Parameter("limit", {"type": "integer", "minimum": 1, "maximum": _MOST}, "Tools on a page; 100 if not given."),
    Parameter("cursor", {"type": "string", "pattern": "^[0-9]{1,12}$"}, "`next_cursor` of the page before."),
)


def visible(service: Service, request: Request, snapshot: Snapshot) -> Sequence[Tool]:
    """The tools that the caller may know of, in registration order."""
    scope = scope_of(request.principal)
    return snapshot.tools if scope is None else [tool for tool in snapshot.tools if scope.lists(tool)]


def answered_once(service: Service, request: Request, key: str, make: Any) -> Response:
    """An answer that depends on catalog and key alone: written once, and tagged so that it need not travel twice."""
    snapshot = service.yard.tool_registry.snapshot
    slot = (key, request.principal.scopes)
    answer = service.kept.get(snapshot, slot)
    if answer is None:
        body = msgspec.json.encode(make(snapshot))
        tag = b'"' + hashlib.blake2b(body, digest_size=12).hexdigest().encode() + b'"'
        answer = service.kept.put(snapshot, slot, Response(200, body, JSON, ((b"etag", tag),)))
    wanted = request.headers.get(b"if-none-match")
    if wanted is not None and _is_among(answer.headers[0][1], wanted):
        return Response(304, b"", JSON, answer.headers)
    return answer


def _is_among(tag: bytes, wanted: bytes) -> bool:
    """True if the header names the tag, alone or in a list; a proxy may have called it weak."""
    return wanted.strip() == b"*" or tag in (item.strip().removeprefix(b"W/") for item in wanted.split(b","))


async def list_tools(service: Service, request: Request) -> Response:
    """Names and descriptions; with any query parameter, pages of whole definitions."""
    if request.scope["query_string"]:
        # Off the loop: a page may be a thousand tools, and the first search of a catalog makes its index.
        return await asyncio.to_thread(listing, service, request)
    return answered_once(service, request, "v0", lambda snapshot: _planner_view(service, request, snapshot))


def _planner_view(service: Service, request: Request, snapshot: Snapshot) -> list[dict[str, str]]:
    """One line a name: planners tell tools apart by that alone."""
    names = service.names
    lines: dict[str, dict[str, str]] = {}
    for tool in visible(service, request, snapshot):
        name = names.spelt(tool.qualified_name)
        lines.setdefault(name, {"name": name, "description": tool.description})
    return list(lines.values())


def listing(service: Service, request: Request) -> Response:
    """The page of the catalog that a query asks for."""
    snapshot = service.yard.tool_registry.snapshot
    limit = whole(request, "limit", 1, _MOST, 100)
    start = int(one(request, "cursor") or 0)
    found = _filtered(service, request, snapshot)
    page = found.tools[start : start + limit]
    answer: dict[str, Any] = {"tools": [], "generation": snapshot.generation}
    if found.mode is not None:
        answer["search"] = found.mode
    if start + limit < len(found.tools):
        answer["next_cursor"] = str(start + limit)
    spelling = one(request, "format")
    if spelling is None:
        answer["tools"] = [native(tool, found.score(tool)) for tool in page]
    else:
        dialect = get_dialect(spelling, page)
        answer["tools"] = dialect.format_tools()
        answer["changes"] = msgspec.to_builtins(dialect.report)
        if found.mode is not None:
            answer["scores"] = [found.score(tool) for tool in page]
    return json_response(answer)


def native(tool: Tool, score: float | None = None) -> dict[str, Any]:
    """A tool with everything known of it, and how well it fits what was asked for."""
    return {
        **({} if score is None else {"score": score}),
        "qualified_name": tool.qualified_name,
        **tool.to_dict(),
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
    }


def _filtered(service: Service, request: Request, snapshot: Snapshot) -> Found:
    """The tools that were asked for; if by words, the best first."""
    tools = visible(service, request, snapshot)
    namespaces, tags = set(request.query.get("namespace", ())), set(request.query.get("tag", ()))
    if namespaces:
        tools = [tool for tool in tools if tool.namespace in namespaces]
    if tags:
        tools = [tool for tool in tools if tags <= set(tool.tags)]
    words, threshold = one(request, "q"), share(request, "threshold")
    if not words:
        return Found(tools, {}, None)
    allowed = set(map(id, tools))
    where = None if tools is snapshot.tools else lambda tool: id(tool) in allowed
    return found_tools(service.yard.tool_registry, snapshot, words, where, threshold)


def definition_of(service: Service, request: Request, name: str, fingerprint: str | None) -> Tool:
    """The one tool a name and perhaps a fingerprint stand for, among those the caller may know of."""
    scope = scope_of(request.principal)
    known = service.names.known(name, None if scope is None else scope.lists)
    return overload_of(service, request, known, name, fingerprint)


def overload_of(service: Service, request: Request, known: str | None, name: str, fingerprint: str | None) -> Tool:
    """The tool behind a qualified name; 404 if the caller knows none, 409 if there are several."""
    scope = scope_of(request.principal)
    tools = [] if known is None else service.yard.tool_registry.get(known)
    if not tools or (scope is not None and not scope.lists(tools[0])):
        raise _unknown(service, request, name)
    if fingerprint is not None:
        tools = [tool for tool in tools if tool.fingerprint.startswith(fingerprint)]
        if not tools:
            raise HttpFault(404, "tool.not_found", f"{show(name)} has no overload with that fingerprint")
    if len(tools) > 1:
        overloads = [{"fingerprint": tool.fingerprint, "description": tool.description} for tool in tools]
        raise HttpFault(
            409,
            "tool.overloaded",
            f"{len(tools)} tools are called {show(name)}; say which by ?fingerprint=",
            details={"overloads": overloads},
        )
    return tools[0]


def _unknown(service: Service, request: Request, name: str) -> HttpFault:
    """What is said of a name that stands for no tool, or for several; only what the caller sees is named."""
    names = service.names
    spell = names.tool_id if request.path.startswith("/arp") else names.spelt
    tools = visible(service, request, names.snapshot)
    bare = name.removeprefix(TOOL_ID) if spell == names.tool_id else name
    homes = list(dict.fromkeys(spell(tool.qualified_name) for tool in tools if tool.name == bare))
    if len(homes) > 1:
        return HttpFault(
            404,
            "tool.not_found",
            f"{show(name)} is in several namespaces; say which: {', '.join(homes)}",
            details={"candidates": homes},
        )
    near = closest(name, list(dict.fromkeys(spell(tool.qualified_name) for tool in tools)))
    hint = f"did you mean {' or '.join(near)}?" if near else None
    return HttpFault(404, "tool.not_found", f"no tool is called {show(name)}", hint=hint)


CATALOG_ROUTES = (
    Route(
        "GET",
        "/v1/tools",
        list_tools,
        "All tools, by name and description; with any query parameter, pages of whole definitions",
        answers={200: (list[V0Listed], NativeListing, ProviderListing), 304: None},
        query=QUERY,
        verb="list",
        heavy=True,
    ),
)
