"""Sessions over HTTP: begin, branch, call, look at, and end. A session belongs to the key that began it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import UNSET

from toolyard.calls.events import Mode
from toolyard.model.call import ToolCall
from toolyard.model.errors import ErrorInfo, SessionError, UnknownSessionError
from toolyard.serving.bodies import digest_of, one, read_json, whole
from toolyard.serving.faults import HttpFault
from toolyard.serving.quota import check_may_begin
from toolyard.serving.request import Request
from toolyard.serving.response import Response, json_response
from toolyard.serving.routes import Parameter, Route
from toolyard.serving.running import given, idempotency_key, meant, once, run_calls
from toolyard.serving.service import Service
from toolyard.serving.shapes import (
    CallsBody,
    ErrorEnvelope,
    ForkBody,
    HistoryPage,
    LooseCallsBody,
    Results,
    SessionBody,
    SessionListing,
    SessionView,
    StateView,
    WireCall,
)
from toolyard.sessions.entry import read_entry
from toolyard.sessions.initial import read_initial
from toolyard.sessions.sessions import Sessions

T = TypeVar("T")

_PAGE = 1000
_MOST_ENTRIES = 2**53
_LIMIT = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": _PAGE}, "Lines on a page; 100 if not given.")
_AFTER = Parameter("after", {"type": "integer", "minimum": 0, "maximum": _MOST_ENTRIES}, "Only entries after this one.")
_CURSOR = Parameter("cursor", {"type": "string"}, "`next_cursor` of the page before.")


async def create(service: Service, request: Request) -> Response:
    """Begin a session."""
    check_may_begin(request.principal)
    body, plain = await _read(service, request, SessionBody)
    session_id = body.session_id if body.session_id is not UNSET else secrets.token_urlsafe(18)
    state: dict[str, Any] | None = given(body.initial_state, None)
    if state is not None:
        check_state(state)

    async def make() -> Response:
        engine, owner = service.yard.tool_engine, request.principal.owner
        async with service.quota.place(owner):
            await engine.asetup(session_id, initial_state=state, owner=owner)
        return json_response(await view_of(service, request.principal.owner, session_id), 201)

    return await _once(service, request, plain, make)


def check_state(state: dict[str, Any]) -> None:
    """Refuse an initial state that is none."""
    try:
        read_initial(state)
    except SessionError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}") from None


async def fork(service: Service, request: Request) -> Response:
    """Begin a session where another one now is."""
    check_may_begin(request.principal)
    body, plain = await _read(service, request, ForkBody)
    session_id = body.session_id if body.session_id is not UNSET else secrets.token_urlsafe(18)

    async def make() -> Response:
        engine, owner = service.yard.tool_engine, request.principal.owner
        async with service.quota.place(owner):
            await engine.asetup(session_id, fork_of=request.values[0], owner=owner)
        return json_response(await view_of(service, request.principal.owner, session_id), 201)

    return await _once(service, request, plain, make)


async def execute(service: Service, request: Request) -> Response:
    """Answer calls and keep them in the session; a `call_id` that was answered before gets that answer again."""
    return await _run(service, request, "execute")


async def simulate(service: Service, request: Request) -> Response:
    """Answer calls and leave the session as it was."""
    return await _run(service, request, "simulate")


async def loose(service: Service, request: Request) -> Response:
    """Answer calls outside of any session."""
    body, plain = await _read(service, request, LooseCallsBody)
    return await _answer(service, request, body, plain, body.mode, None)


async def _run(service: Service, request: Request, mode: Mode) -> Response:
    body, plain = await _read(service, request, CallsBody)
    return await _answer(service, request, body, plain, mode, request.values[0])


async def _answer(
    service: Service, request: Request, body: CallsBody, plain: Any, mode: Mode, session_id: str | None
) -> Response:
    calls = [_call(service, request, call) for call in body.calls]

    async def make() -> Response:
        results = await run_calls(
            service,
            request,
            calls,
            session_id=session_id,
            mode=mode,
            timeout=given(body.timeout, None),
            context=given(body.context, {}),
            trace=given(body.trace, {}),
            definitions=None if body.definitions is UNSET else frozenset(body.definitions),
        )
        return json_response({"results": [result.to_dict() for result in results]})

    return await _once(service, request, plain, make)


def _call(service: Service, request: Request, call: WireCall) -> ToolCall:
    name = meant(service, request, call.name)
    return ToolCall(name, call.arguments, given(call.call_id, None), given(call.overload, None))


async def show(service: Service, request: Request) -> Response:
    """How long the session is, and its hash."""
    return json_response(await view_of(service, request.principal.owner, request.values[0]))


async def state(service: Service, request: Request) -> Response:
    """Everything in the session."""
    engine, owner, session_id = service.yard.tool_engine, request.principal.owner, request.values[0]

    def read() -> dict[str, Any]:
        found = engine.get_session_state(session_id, owner=owner)
        if found is None:
            raise UnknownSessionError(f"no session is called {session_id!r}")
        return {"state": found, "state_hash": engine.state_hash(session_id, owner=owner)}

    return json_response(await off_loop(service, read))


async def history(service: Service, request: Request) -> Response:
    """Part of the history, eldest first."""
    limit = whole(request, "limit", 1, _PAGE, 100)
    after = whole(request, "after", 0, _MOST_ENTRIES, 0)
    sessions, owner = service.yard.tool_engine.sessions, request.principal.owner

    def read() -> dict[str, Any]:
        log, _, length = sessions.current(request.values[0], owner).branches()
        found: list[dict[str, Any]] = []
        for number, text in enumerate(log.since(after), after + 1):
            if len(found) == limit:
                break
            entry = read_entry(text)
            found.append(
                {"seq": number, "tool_call": entry.tool_call.to_dict(), "tool_output": entry.tool_output.to_dict()}
            )
        page: dict[str, Any] = {"entries": found}
        if after + len(found) < length:
            page["next"] = after + len(found)
        return page

    return json_response(await off_loop(service, read))


async def list_sessions(service: Service, request: Request) -> Response:
    """The caller's sessions, by id."""
    limit = whole(request, "limit", 1, _PAGE, 100)
    after = one(request, "cursor") or ""
    sessions, owner = service.yard.tool_engine.sessions, request.principal.owner or ""
    lines = [line for line in await off_loop(service, lambda: _lines(sessions, owner)) if line[0] > after]
    page: dict[str, Any] = {
        "sessions": [{"session_id": name, "entries": count, "used": _when(used)} for name, count, used in lines[:limit]]
    }
    if len(lines) > limit:
        page["next_cursor"] = lines[limit - 1][0]
    return json_response(page)


def _lines(sessions: Sessions, owner: str) -> list[tuple[str, int, float]]:
    if sessions.store is not None:
        return sorted((info.session_id, info.entries, info.used) for info in sessions.store.sessions(owner))
    own = [session for session in list(sessions.at_hand.values()) if session.key.owner == owner and not session.over]
    return sorted((session.key.session_id, len(session.history), session.used) for session in own)


async def delete(service: Service, request: Request) -> Response:
    """End a session; nothing happens if there is none."""
    await service.yard.tool_engine.ateardown(request.values[0], owner=request.principal.owner)
    service.quota.ended(request.principal.owner)
    return Response(204)


async def view_of(service: Service, owner: str | None, session_id: str) -> dict[str, Any]:
    """A session from outside."""
    sessions = service.yard.tool_engine.sessions

    def read() -> dict[str, Any]:
        digest = sessions.state_hash(session_id, owner)
        return {
            "session_id": session_id,
            "entries": len(sessions.find(session_id, owner).history),
            "state_hash": digest,
        }

    return await off_loop(service, read)


async def off_loop(service: Service, work: Callable[[], T]) -> T:
    """Where a store may block, on a thread of the sessions'."""
    sessions = service.yard.tool_engine.sessions
    if sessions.store is None:
        return work()
    value, cancelled = await sessions.in_thread(work)
    if cancelled is not None:
        raise cancelled
    return value


async def _read(service: Service, request: Request, shape: type[T]) -> tuple[T, Any]:
    return await read_json(request, shape, service.block)


async def _once(service: Service, request: Request, plain: Any, make: Any) -> Response:
    key = idempotency_key(request)
    if key is None:
        answer: Response = await make()
        return answer
    return await once(service, request, key, digest_of(request.method, request.path, plain), make, _interrupted)


def _interrupted(info: ErrorInfo) -> Response:
    fault = HttpFault(500, info.code, info.message, hint=info.hint, details={"effect": info.effect})
    return json_response(fault.envelope(), fault.status)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


_MISSING = {404: ErrorEnvelope}
_CALLED = {200: Results, 404: ErrorEnvelope, 409: ErrorEnvelope}

SESSION_ROUTES = (
    Route(
        "GET",
        "/v1/sessions",
        list_sessions,
        "Your sessions",
        answers={200: SessionListing},
        query=(_LIMIT, _CURSOR),
        heavy=True,
    ),
    Route(
        *("POST", "/v1/sessions", create, "Begin a session", SessionBody, {201: SessionView, 409: ErrorEnvelope}),
        idempotent=True,
    ),
    Route("GET", "/v1/sessions/{session_id}", show, "One session", answers={200: SessionView, **_MISSING}),
    Route("DELETE", "/v1/sessions/{session_id}", delete, "End a session", answers={204: None}),
    Route(
        *("POST", "/v1/sessions/{session_id}/fork", fork, "Branch a session", ForkBody),
        {201: SessionView, 404: ErrorEnvelope, 409: ErrorEnvelope},
        idempotent=True,
    ),
    Route(
        *("POST", "/v1/sessions/{session_id}/execute", execute, "Answer calls and keep them", CallsBody, _CALLED),
        runs=True,
        idempotent=True,
    ),
    Route(
        *("POST", "/v1/sessions/{session_id}/simulate", simulate, "Answer calls and keep nothing", CallsBody, _CALLED),
        runs=True,
        idempotent=True,
    ),
    Route(
        *("GET", "/v1/sessions/{session_id}/state", state, "Everything in a session"),
        answers={200: StateView, **_MISSING},
        heavy=True,
    ),
    Route(
        *("GET", "/v1/sessions/{session_id}/history", history, "What happened in a session"),
        answers={200: HistoryPage, **_MISSING},
        query=(_AFTER, _LIMIT),
        heavy=True,
    ),
    Route(
        *("POST", "/v1/calls", loose, "Answer calls outside of any session", LooseCallsBody),
        {200: Results, 409: ErrorEnvelope},
        runs=True,
        idempotent=True,
    ),
)
