"""The call log over HTTP. A key sees its own calls; one with `*:admin` sees all."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.calls.journal import QUERY_NAMES, TIMES, CallFilter, Journal, LogPosition, read_call_id, read_time
from toolyard.engines.base import ToolEngine
from toolyard.model.call import Mode
from toolyard.model.errors import Effect
from toolyard.model.tool import EffectsName
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.serving.query import (
    Position,
    QueryParameter,
    digest_json,
    limit_parameter,
    query_limit,
    query_place,
    query_str,
    write_cursor,
)
from toolyard.serving.routing import JsonResponse, caller_of, operation, path_value
from toolyard.serving.wire_types import Count, DateTime, Shape

_TEXT = {"type": "string", "minLength": 1, "maxLength": 512}
_TIME = {"type": "string", "minLength": 1, "maxLength": 64}
_QUERY = (
    QueryParameter("tool", _TEXT, "A glob of qualified names, such as `hr::*`."),
    QueryParameter("namespace", _TEXT, "Only calls of tools in this namespace."),
    QueryParameter("session", _TEXT, "Only calls in this session."),
    QueryParameter("key", _TEXT, "Only calls made with the key of this id."),
    QueryParameter("code", _TEXT, "Only calls that failed with this code."),
    QueryParameter("mode", {"type": "string", "enum": ["execute", "simulate"]}, "Only calls of this kind."),
    QueryParameter("effect", {"type": "string", "enum": ["none", "done", "unknown"]}, "Effect of failed calls."),
    QueryParameter("effects", {"type": "string", "enum": ["read", "write", "unknown"]}, "Effects of the tools."),
    QueryParameter("since", _TIME, f"Only calls that ended then or later: {TIMES}. UTC, unless it has an offset."),
    QueryParameter("until", _TIME, "Only calls that ended before this time."),
    QueryParameter("errors", {"type": "string", "enum": ["true", "false"]}, "Only failed calls."),
    limit_parameter("Calls"),
    QueryParameter("cursor", {"type": "string"}, "`next_cursor` of the previous page, with the same filters."),
)


class CallLine(Shape):
    """A call in the call log. Its arguments and result are in the history of its session, at `seq`."""

    id: str
    time: Annotated[DateTime, Meta(description="When the call began.")]
    duration_ms: Annotated[float, Meta(ge=0)]
    tool: str
    mode: Mode
    session_id: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    effect: Effect | UnsetType = UNSET
    effects: EffectsName | UnsetType = UNSET
    definition_hash: str | UnsetType = UNSET
    approval: str | UnsetType = UNSET
    argument_bytes: Count | UnsetType = UNSET
    result_bytes: Count | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    seq: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    steps_ms: dict[Literal["bind", "policy", "run", "check"], float] | UnsetType = UNSET


class CallListing(Shape):
    """A page of the call log, newest first. A page may be short or empty even if there is a `next_cursor`."""

    calls: list[CallLine]
    next_cursor: str | UnsetType = UNSET


class CallRoutes:
    """Operations on the call log."""

    def __init__(self, engine: ToolEngine) -> None:
        self._engine = engine

    @operation(
        *("GET /v1/calls", "List calls, newest first"),
        answers={200: CallListing},
        errors=(404,),
        query=_QUERY,
        heavy=True,
    )
    async def list_calls(self, request: Request) -> Response:
        """A short or even empty page may have a `next_cursor`. Keys without `*:admin` see their own calls only."""
        return JsonResponse(await self.find_page(request))

    @operation("GET /v1/calls/{id}", "Get a call", answers={200: CallLine}, errors=(404,))
    async def show_call(self, request: Request) -> Response:
        """A row of the call log: tool, times, status and session, without arguments and result."""
        return JsonResponse(await self.find_call(request))

    async def find_page(self, request: Request, usual: int = 100) -> dict[str, Any]:
        """The response to `GET /v1/calls`, also used by the console; `usual` is the default of `limit`."""
        log = self._log()
        wanted = _read_filter(request)
        limit = query_limit(request, usual)
        own = owner_seen_by(caller_of(request).principal)
        if own is not None:
            if wanted.owner not in (None, own):
                return {"calls": []}
            wanted = msgspec.structs.replace(wanted, owner=own)
        # As they were sent: how long ago something was is another time on every page.
        times = [query_str(request, name) for name in ("since", "until")]
        digest = digest_json(msgspec.structs.replace(wanted, since=None, until=None), times)
        place = query_place(request, digest, tuple[Position, Position])
        before = None if place is None else LogPosition(*place)
        page = await self._engine.sessions.off_loop(lambda: log.list_calls(wanted, limit, before))
        answer: dict[str, Any] = {"calls": [row.to_dict() for row in page.rows]}
        if page.next is not None:
            answer["next_cursor"] = write_cursor(digest, *page.next)
        return answer

    async def find_call(self, request: Request) -> dict[str, Any]:
        """The response to `GET /v1/calls/{id}`, also used by the console."""
        log, number = self._log(), read_call_id(path_value(request))
        row = None if number is None else await self._engine.sessions.off_loop(lambda: log.get(number))
        own = owner_seen_by(caller_of(request).principal)
        if row is None or (own is not None and row.owner != own):
            raise HttpFault(
                404, "call.not_found", "no call has that id", hint="GET /v1/calls lists those that are kept"
            )
        return row.to_dict()

    def _log(self) -> Journal:
        if self._engine.journal is None:
            raise HttpFault(404, "route.not_found", "calls are not logged here", hint="set tracing.log in the config")
        return self._engine.journal


def owner_seen_by(principal: Principal) -> str | None:
    """The owner whose calls a principal sees; None for all calls."""
    return None if principal.scopes.allows_everywhere("admin") else principal.owner or ""


def _read_filter(request: Request) -> CallFilter:
    times: dict[str, Any] = {name: _query_time(request, name) for name in ("since", "until")}
    texts = [name for name in CallFilter.__struct_fields__ if name not in (*times, "errors")]
    # HTML forms also send empty fields.
    given: dict[str, Any] = {name: query_str(request, QUERY_NAMES.get(name, name)) or None for name in texts}
    return CallFilter(**given, **times, errors=query_str(request, "errors") == "true")


def _query_time(request: Request, name: str) -> float | None:
    text = query_str(request, name)
    try:
        return None if text is None else read_time(text, UTC)
    except ValueError as error:
        raise HttpFault(400, "request.invalid_query", f"{name}: {error}") from None
