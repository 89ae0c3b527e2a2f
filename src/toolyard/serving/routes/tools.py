"""Tools over HTTP: listing, search, definitions, and `:invoke`."""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.dialects import DIALECTS, get_dialect
from toolyard.dialects.wire_names import wire_names_of
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CALL_STATUSES, ErrorInfo, ViolationFields, http_status_of
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.catalog_view import MAX_QUERY, MOST_HITS, CatalogHits, CatalogView, show_native
from toolyard.serving.identity import Caller, Principal
from toolyard.serving.invoke import (
    Invoker,
    ServedNames,
    make_approval_location,
    read_idempotency_key,
    show_error,
    wrap_result,
)
from toolyard.serving.query import (
    CURSOR,
    QueryParameter,
    limit_parameter,
    make_invalid_cursor,
    query_fraction,
    query_limit,
    query_str,
    read_query,
)
from toolyard.serving.routing import JsonResponse, caller_of, operation, path_value, read_json
from toolyard.serving.wire_types import SCHEMA_VERSION, Count, Error, Fit, Json, NativeTool, Score, Shape, Text, Version

_OFFSET = re.compile(r"[0-9]{1,12}", re.ASCII)
_TEXT = {"type": "string"}

_QUERY = (
    QueryParameter(
        "q",
        {"type": "string", "maxLength": MAX_QUERY},
        "Search query: a task, or words of names, descriptions and tags. Best hits first.",
    ),
    QueryParameter("namespace", _TEXT, "Only tools of this namespace.", repeatable=True),
    QueryParameter("tag", _TEXT, "Only tools with this tag.", repeatable=True),
    QueryParameter(
        "format", {"type": "string", "enum": list(DIALECTS)}, "Return definitions in this provider's format."
    ),
    QueryParameter(
        "threshold", {"type": "number", "minimum": 0, "maximum": 1}, "With `q`: minimum score of the best hit."
    ),
    limit_parameter("Tools"),
    CURSOR,
)
FINGERPRINT = QueryParameter(
    "fingerprint", {"type": "string", "minLength": 1}, "Selects an overload; a prefix is enough."
)


class V0Listed(Shape):
    """A tool in the short listing."""

    name: Text
    description: str


class V0Definition(Shape):
    """The complete definition of a tool."""

    schema_version: Version
    name: Text
    description: str
    version: str
    parameters: Json
    returns: Json | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    source: Json | UnsetType = UNSET


class V0Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's correlation ids. Tools find them, and any other keys, in `ctx.trace`."""

    flow_id: str | UnsetType = UNSET
    step_id: str | UnsetType = UNSET


class V0Invocation(Shape):
    """Call one tool; its arguments go into `args`."""

    args: Json
    schema_version: Version | UnsetType = UNSET
    context: Json = {}
    trace: V0Trace | UnsetType = UNSET


class V0Metrics(Shape):
    """The metrics of a call."""

    latency_ms: Count


class V0Result(Shape):
    """The result of a call."""

    schema_version: Version
    ok: bool
    metrics: V0Metrics
    result: Json | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class NativeListing(Shape):
    """A page of the catalog."""

    tools: list[NativeTool]
    generation: Count
    search: Literal["hybrid", "lexical"] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    """The first filters that match no tool, each with the nearest one."""
    next_cursor: str | UnsetType = UNSET


class ProviderListing(Shape):
    """A page of the catalog in a provider's format, and the changes that the format required."""

    tools: list[Json]
    generation: Count
    changes: list[Json]
    names: dict[str, str]
    """The qualified name of each tool, by its name in this listing. Calls may use either."""
    search: Literal["hybrid", "lexical"] | UnsetType = UNSET
    scores: list[Score] | UnsetType = UNSET
    fits: list[Fit] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET


_CALL_ANSWERS = dict.fromkeys(sorted({200, *CALL_STATUSES}), V0Result)


class ToolRoutes:
    """Operations on tools. `invoke` comes first because most requests match it."""

    def __init__(self, catalog: CatalogView, invoker: Invoker) -> None:
        self._catalog = catalog
        self._invoker = invoker

    @operation(
        "POST /v1/tools/{name}:invoke",
        "Call a tool",
        body=V0Invocation,
        answers=_CALL_ANSWERS,
        errors=(409,),
        query=(FINGERPRINT,),
        runs=True,
        idempotent=True,
    )
    async def invoke(self, request: Request) -> Response:
        """A failed call has the HTTP status of its error, a held call 202."""
        body, plain = await read_json(request, V0Invocation)
        caller = caller_of(request)
        overload = query_str(request, "fingerprint") if request.scope["query_string"] else None
        call = self._invoker.resolve_call(caller.principal, ToolCall(path_value(request), body.args, None, overload))
        # The trace as it was sent: it may have more keys than `V0Trace`.
        trace, root = plain.get("trace", {}), request.scope.get("root_path", "")
        make = partial(self._run_call, caller, call, body.context, trace, root)
        return await self._invoker.run_idempotent(
            *(caller, read_idempotency_key(caller)),
            (request.method, request.scope["path"], call.overload, plain),
            *(make, lambda info: _answer_failure(info, {"latency_ms": 0})),
            tool_name=call.name,
        )

    async def _run_call(
        self, caller: Caller, call: ToolCall, context: dict[str, Any], trace: dict[str, Any], root: str
    ) -> Response:
        began = time.perf_counter()
        [result] = await self._invoker.run_calls(caller, (call,), context=context, trace=trace)
        return _answer_call(result, time.perf_counter() - began, root)

    @operation(
        *("GET /v1/tools/{name}", "Get a tool"),
        answers={200: V0Definition},
        errors=(404, 409),
        query=(FINGERPRINT,),
        verb="list",
    )
    async def get_tool(self, request: Request) -> Response:
        """Returns the definition; 409 for an overloaded name without `fingerprint`."""
        principal, fingerprint = caller_of(request).principal, query_str(request, "fingerprint")
        tool = self._catalog.find_definition(principal, path_value(request), fingerprint)
        return JsonResponse(_show_definition(self._catalog.names.now, tool))

    @operation(
        *("GET /v1/tools", "List tools by name and description; with a query parameter, pages of complete definitions"),
        answers={200: (list[V0Listed], NativeListing, ProviderListing), 304: None},
        query=_QUERY,
        verb="list",
        heavy=True,
    )
    async def list_tools(self, request: Request) -> Response:
        """The plain list has one item per name and supports `ETag`. Only tools that the key may see are listed."""
        if request.scope["query_string"]:
            # In a thread: a page may have a thousand tools, and the first search of a catalog builds its index.
            return await asyncio.to_thread(self._list_page, request)
        principal = caller_of(request).principal
        return await self._catalog.answer_listing(request, "v0", lambda snapshot: self._list_names(principal, snapshot))

    def _list_names(self, principal: Principal, snapshot: Snapshot) -> list[dict[str, str]]:
        """One item per name: planners tell tools apart by name alone."""
        names = self._catalog.names.now
        lines: dict[str, dict[str, str]] = {}
        for tool in self._catalog.list_visible(principal, snapshot):
            name = names.spell_name(tool.qualified_name)
            lines.setdefault(name, {"name": name, "description": tool.description})
        return list(lines.values())

    def _list_page(self, request: Request) -> Response:
        """The page of definitions that the query selects."""
        snapshot = self._catalog.registry.snapshot
        limit = query_limit(request)
        cursor = query_str(request, "cursor")
        if cursor is not None and _OFFSET.fullmatch(cursor) is None:
            raise make_invalid_cursor()
        start = int(cursor or 0)
        found = self._filter_tools(request, snapshot, start + limit)
        page = found.tools[start : start + limit]
        answer: dict[str, Any] = {"tools": [], "generation": snapshot.generation}
        if found.mode is not None:
            answer["search"] = found.mode
        if start + limit < (len(found.tools) if found.mode is None else min(len(found.tools) + 1, MOST_HITS)):
            # The search returned only enough hits for this page, so whether there is another page is a guess.
            answer["next_cursor"] = str(start + limit)
        query = read_query(request)
        answer |= self._catalog.note_idle(
            caller_of(request).principal, snapshot, query.get("namespace", ()), query.get("tag", ())
        )
        spelling = query_str(request, "format")
        if spelling is None:
            answer["tools"] = [show_native(tool, **found.of(tool)) for tool in page]
        else:
            # Wire names of the whole catalog, so that an overload has the same name on every page.
            dialect = get_dialect(spelling, page, names=wire_names_of(snapshot))
            answer["tools"] = dialect.format_tools(page)
            answer["names"] = {dialect.names.encode(tool): tool.qualified_name for tool in page}
            answer["changes"] = msgspec.to_builtins(dialect.report)
            if found.mode is not None:
                answer["scores"] = [found.of(tool)["score"] for tool in page]
                answer["fits"] = [found.of(tool)["fit"] for tool in page]
        return JsonResponse(answer)

    def _filter_tools(self, request: Request, snapshot: Snapshot, k: int) -> CatalogHits:
        """The tools that pass the query's filters; for a search, best first."""
        principal, query = caller_of(request).principal, read_query(request)
        namespaces, tags = frozenset(query.get("namespace", ())), frozenset(query.get("tag", ()))
        words, threshold = query_str(request, "q"), query_fraction(request, "threshold")
        if words:
            asked: dict[str, Any] = {"namespace": namespaces or None, "tags": tags, "threshold": threshold}
            return self._catalog.search(principal, snapshot, words, min(k, MOST_HITS), **asked)
        tools = self._catalog.list_visible(principal, snapshot)
        if namespaces:
            tools = [tool for tool in tools if tool.namespace in namespaces]
        if tags:
            tools = [tool for tool in tools if tags <= set(tool.tags)]
        return CatalogHits(tools, {}, None)


def _answer_call(result: ToolResult, seconds: float, root: str) -> Response:
    metrics = {"latency_ms": int(seconds * 1000)}
    if result.error_info is not None:
        return _answer_failure(result.error_info, metrics, make_approval_location(root, (result,)))
    answer = {"schema_version": SCHEMA_VERSION, "ok": True, "result": wrap_result(result.result), "metrics": metrics}
    return JsonResponse(answer)


def _answer_failure(info: ErrorInfo, metrics: dict[str, int], headers: dict[str, str] | None = None) -> Response:
    error = {"schema_version": SCHEMA_VERSION, **show_error(info, _show_violation)}
    answer = {"schema_version": SCHEMA_VERSION, "ok": False, "error": error, "metrics": metrics}
    return JsonResponse(answer, http_status_of(info.code), headers=headers)


def _show_violation(violation: ViolationFields) -> dict[str, str]:
    return {"path": violation["pointer"], "message": violation["message"], "rule": violation["keyword"]}


def _show_definition(names: ServedNames, tool: Tool) -> dict[str, Any]:
    definition: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": names.spell_name(tool.qualified_name),
        "description": tool.description,
        "version": tool.version or "0.0.0",
        "parameters": tool.parameters,
    }
    if tool.output_parameters:
        definition["returns"] = tool.output_parameters
    if tool.tags:
        definition["tags"] = list(tool.tags)
    definition["source"] = {
        "qualified_name": tool.qualified_name,
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
        "effects": tool.effects.value,
    }
    return definition
