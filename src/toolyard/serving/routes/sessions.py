"""Sessions over HTTP. A session belongs to the key that opened it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.engines.base import ToolEngine
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Caller
from toolyard.serving.invoke import Invoker, make_approval_location, read_idempotency_key
from toolyard.serving.query import (
    CURSOR,
    QueryParameter,
    digest_json,
    limit_parameter,
    query_int,
    query_limit,
    query_place,
    query_str,
    write_cursor,
)
from toolyard.serving.routing import JsonResponse, caller_of, operation, or_default, path_value, read_json
from toolyard.serving.session_view import (
    SessionQuota,
    check_initial_state,
    check_may_open_session,
    describe_session,
    format_time,
    list_sessions,
    read_state,
)
from toolyard.serving.wire_types import Calls, Count, DateTime, Json, Seconds, SessionId, Shape, Text, WireCall
from toolyard.sessions.state import initial_schema
from toolyard.sessions.world_diff import hash_world, plain_world

_MAX_ENTRIES = 2**53
_LIMIT = limit_parameter("Entries")
_ENTRY = {"type": "integer", "minimum": 0, "maximum": _MAX_ENTRIES}
_AFTER = QueryParameter("after", _ENTRY, "Only entries after this one.")
_AT = QueryParameter("at", _ENTRY, "World after this entry; by default at the end.")
_DIFF = (
    QueryParameter("other", {"type": "string"}, "Session to compare with; by default the same one."),
    QueryParameter("at_a", _ENTRY, "First world: after this entry of the session."),
    QueryParameter("at_b", _ENTRY, "Second world: after this entry of the other session."),
)
_SESSION_PATH = "/v1/sessions/{session_id}"


Hashes = Annotated[list[str], Meta(max_length=10_000)]


class CallsBody(Shape):
    """Calls to run in order, each with a `name` and its `arguments`."""

    calls: Calls
    timeout: Seconds | UnsetType = UNSET
    context: Json = {}
    trace: Json = {}
    definitions: Hashes | UnsetType = UNSET


class LooseCallsBody(CallsBody):
    """Calls without a session, each with `name` and `arguments`; with one, use `/v1/sessions/{session_id}/execute`."""

    mode: Mode = "execute"


class Results(Shape):
    """The results, in the order of the calls."""

    results: list[ToolResult]


class SessionBody(Shape):
    """A session to open; without an id, the server generates one."""

    session_id: SessionId | UnsetType = UNSET
    initial_state: Annotated[Json, Meta(extra_json_schema=initial_schema())] | UnsetType = UNSET


class ForkBody(Shape):
    """A fork to make of a session, with all of its entries or the first `at`."""

    session_id: SessionId | UnsetType = UNSET
    at: Count | UnsetType = UNSET


class SessionView(Shape):
    """A session in summary. `state_hash` is equal for equal history and engine state."""

    session_id: str
    entries: Count
    state_hash: str
    used: DateTime


class SessionLine(Shape):
    """A session in the list."""

    session_id: str
    entries: Count
    used: DateTime


class SessionListing(Shape):
    """A page of the caller's sessions."""

    sessions: list[SessionLine]
    next_cursor: str | UnsetType = UNSET


class StateView(Shape):
    """The history and engine state of a session, usable as `initial_state` of another one."""

    state: Json
    state_hash: str


class HistoryEntry(Shape):
    """A call and its result; `at` and `took` (seconds) are left out if unknown."""

    seq: Annotated[int, Meta(ge=1)]
    tool_call: Json
    tool_output: Json
    at: DateTime | UnsetType = UNSET
    took: float | UnsetType = UNSET


class WorldView(Shape):
    """The world of a session; equal worlds have equal hashes, whatever calls led to them."""

    world: Json
    world_hash: str


class ChangeLine(Shape):
    """A difference between two worlds; values named in `shortened` are only the beginning of their JSON text."""

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any | UnsetType = UNSET
    after: Any | UnsetType = UNSET
    thing: Text | UnsetType = UNSET
    """A readable name of what has changed, such as `order 1042`; left out if there is none."""
    shortened: list[Literal["before", "after"]] | UnsetType = UNSET


class DiffView(Shape):
    """The differences between two worlds; `left_out` counts changes that are not listed."""

    equal: bool
    changes: list[ChangeLine]
    left_out: Count


class HistoryPage(Shape):
    """A page of a history, oldest first; `next` is the `after` of the next page."""

    entries: list[HistoryEntry]
    next: Count | UnsetType = UNSET


_CALL_OPTIONS: dict[str, Any] = {
    "body": CallsBody,
    "answers": {200: Results, 202: Results},
    "errors": (404, 409),
    "runs": True,
    "idempotent": True,
}


class SessionRoutes:
    """Operations on sessions, and calls in and outside of them."""

    def __init__(self, engine: ToolEngine, invoker: Invoker, quota: SessionQuota) -> None:
        self._engine = engine
        self._invoker = invoker
        self._quota = quota

    @operation(
        *("POST /v1/sessions", "Open a session"),
        body=SessionBody,
        answers={201: SessionView},
        errors=(409,),
        idempotent=True,
    )
    async def create_session(self, request: Request) -> Response:
        """The server generates an id if the body gives none; 409 if the id exists."""
        check_may_open_session(caller_of(request).principal)
        body, plain = await read_json(request, SessionBody)
        state: dict[str, Any] | None = or_default(body.initial_state, None)
        if state is not None:
            check_initial_state(state)
        return await self._begin(request, plain, body.session_id, initial_state=state)

    @operation(
        *(f"POST {_SESSION_PATH}/fork", "Fork a session"),
        body=ForkBody,
        answers={201: SessionView},
        errors=(404, 409),
        idempotent=True,
    )
    async def fork_session(self, request: Request) -> Response:
        """The fork has the first `at` entries, by default all of them."""
        check_may_open_session(caller_of(request).principal)
        body, plain = await read_json(request, ForkBody)
        options = {"fork_of": path_value(request), "at": or_default(body.at, None)}
        return await self._begin(request, plain, body.session_id, **options)

    async def _begin(self, request: Request, plain: Any, given_id: str | UnsetType, **options: Any) -> Response:
        owner, session_id = caller_of(request).principal.owner, or_default(given_id, secrets.token_urlsafe(18))

        async def make() -> Response:
            async with self._quota.reserve(owner):
                await self._engine.asetup(session_id, owner=owner, **options)
            return JsonResponse(await describe_session(self._engine.sessions, owner, session_id), 201)

        return await self._run_idempotent(request, plain, make)

    @operation(f"POST {_SESSION_PATH}/execute", "Run calls and record them", **_CALL_OPTIONS)
    async def execute_calls(self, request: Request) -> Response:
        """Each call that runs becomes an entry of the session. A repeated `call_id` returns the first result."""
        return await self._run_in_session(request, "execute")

    @operation(f"POST {_SESSION_PATH}/simulate", "Simulate calls", **_CALL_OPTIONS)
    async def simulate_calls(self, request: Request) -> Response:
        """The calls run in a temporary fork, so the session does not change."""
        return await self._run_in_session(request, "simulate")

    @operation(
        *("POST /v1/calls", "Run calls outside of any session"),
        body=LooseCallsBody,
        answers={200: Results, 202: Results},
        errors=(409,),
        runs=True,
        idempotent=True,
    )
    async def run_loose_calls(self, request: Request) -> Response:
        """`mode` says whether to execute or to simulate them; no history is kept."""
        body, plain = await read_json(request, LooseCallsBody)
        return await self._run_calls(request, body, plain, body.mode, None)

    async def _run_in_session(self, request: Request, mode: Mode) -> Response:
        body, plain = await read_json(request, CallsBody)
        return await self._run_calls(request, body, plain, mode, path_value(request))

    async def _run_calls(
        self, request: Request, body: CallsBody, plain: Any, mode: Mode, session_id: str | None
    ) -> Response:
        caller = caller_of(request)
        calls = [self._read_call(caller, call) for call in body.calls]

        async def make() -> Response:
            results = await self._invoker.run_calls(
                *(caller, calls),
                session_id=session_id,
                mode=mode,
                timeout=or_default(body.timeout, None),
                context=body.context,
                trace=body.trace,
                definitions=None if body.definitions is UNSET else frozenset(body.definitions),
            )
            held = make_approval_location(request.scope.get("root_path", ""), results)
            shown = {"results": [result.to_dict() for result in results]}
            return JsonResponse(shown, 200 if held is None else 202, headers=held)

        return await self._run_idempotent(request, plain, make)

    def _read_call(self, caller: Caller, call: WireCall) -> ToolCall:
        given = ToolCall(call.name, call.arguments, or_default(call.call_id, None), or_default(call.overload, None))
        return self._invoker.resolve_call(caller.principal, given)

    async def _run_idempotent(self, request: Request, plain: Any, make: Callable[[], Awaitable[Response]]) -> Response:
        caller, about = caller_of(request), (request.method, request.scope["path"], plain)
        return await self._invoker.run_idempotent(
            caller, read_idempotency_key(caller), about, make, _answer_interrupted
        )

    @operation(f"GET {_SESSION_PATH}", "One session", answers={200: SessionView}, errors=(404,))
    async def show_session(self, request: Request) -> Response:
        """Number of entries, state hash, and time of last use."""
        owner = caller_of(request).principal.owner
        return JsonResponse(await describe_session(self._engine.sessions, owner, path_value(request)))

    @operation(f"GET {_SESSION_PATH}/state", "State of a session", answers={200: StateView}, errors=(404,), heavy=True)
    async def show_state(self, request: Request) -> Response:
        """Its history and the state of the engines, usable as `initial_state` of another session."""
        owner = caller_of(request).principal.owner
        return JsonResponse(await read_state(self._engine, owner, path_value(request)))

    @operation(
        *(f"GET {_SESSION_PATH}/history", "History of a session"),
        answers={200: HistoryPage},
        errors=(404,),
        query=(_AFTER, _LIMIT),
        heavy=True,
    )
    async def show_history(self, request: Request) -> Response:
        """Calls and results, oldest first."""
        limit = query_limit(request)
        after = query_int(request, "after", 0, _MAX_ENTRIES, 0)
        sessions, owner = self._engine.sessions, caller_of(request).principal.owner

        def read() -> dict[str, Any]:
            found = sessions.calls(path_value(request), owner, after=after, limit=limit + 1)
            page: dict[str, Any] = {"entries": [call.to_dict() for call in found[:limit]]}
            if len(found) > limit:
                page["next"] = after + limit
            return page

        return JsonResponse(await sessions.off_loop(read))

    @operation(
        *(f"GET {_SESSION_PATH}/world", "World of a session"),
        answers={200: WorldView},
        errors=(404,),
        query=(_AT,),
        heavy=True,
    )
    async def show_world(self, request: Request) -> Response:
        """State of the engines, at the end or after one of the entries."""
        sessions, owner, at = self._engine.sessions, caller_of(request).principal.owner, _query_entry(request, "at")

        def read() -> dict[str, Any]:
            state = sessions.world(path_value(request), owner, at=at)
            return {"world": plain_world(state), "world_hash": hash_world(state)}

        return JsonResponse(await sessions.in_thread(read))

    @operation(
        *(f"GET {_SESSION_PATH}/diff", "Compare two worlds"),
        answers={200: DiffView},
        errors=(404,),
        query=_DIFF,
        heavy=True,
    )
    async def show_diff(self, request: Request) -> Response:
        """Differences between the worlds of two sessions, or after two entries of one."""
        sessions, owner, other = self._engine.sessions, caller_of(request).principal.owner, query_str(request, "other")
        at_a, at_b = _query_entry(request, "at_a"), _query_entry(request, "at_b")

        def read() -> dict[str, Any]:
            return sessions.world_diff(path_value(request), other, owner, at_a=at_a, at_b=at_b).to_dict()

        return JsonResponse(await sessions.in_thread(read))

    @operation(
        *("GET /v1/sessions", "List your sessions"), answers={200: SessionListing}, query=(_LIMIT, CURSOR), heavy=True
    )
    async def list_sessions(self, request: Request) -> Response:
        """The sessions that the key opened, ordered by id."""
        limit = query_limit(request)
        sessions, owner = self._engine.sessions, caller_of(request).principal.owner or ""
        digest = digest_json("sessions", owner)
        (last,) = query_place(request, digest, tuple[str]) or ("",)
        found = await sessions.off_loop(lambda: list_sessions(sessions, owner))
        lines = [line for line in found if line[0] > last]
        page: dict[str, Any] = {
            "sessions": [
                {"session_id": name, "entries": count, "used": format_time(sessions, used)}
                for name, count, used in lines[:limit]
            ]
        }
        if len(lines) > limit:
            page["next_cursor"] = write_cursor(digest, lines[limit - 1][0])
        return JsonResponse(page)

    @operation(f"DELETE {_SESSION_PATH}", "End a session", answers={204: None})
    async def end_session(self, request: Request) -> Response:
        """Its history and state are deleted. Status 204 even if the session does not exist."""
        owner = caller_of(request).principal.owner
        await self._engine.ateardown(path_value(request), owner=owner)
        return Response(status_code=204)


def _query_entry(request: Request, name: str) -> int | None:
    number = query_int(request, name, 0, _MAX_ENTRIES, -1)
    return None if number < 0 else number


def _answer_interrupted(info: ErrorInfo) -> Response:
    fault = HttpFault(500, info.code, info.message, hint=info.hint, details={"effect": info.effect})
    return JsonResponse(fault.to_envelope(), fault.status)
