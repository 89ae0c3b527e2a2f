"""Sessions of ours for MCP clients: begin, branch, try out, call, look at, and end. The rules are those of HTTP."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.calls.events import Mode
from toolyard.model.call import ToolCall
from toolyard.model.errors import CallError, SessionError, ToolyardError, UnknownSessionError
from toolyard.serving.faults import HttpFault
from toolyard.serving.mcp.calling import placed_calls
from toolyard.serving.mcp.own import OwnTool, fault_result, value_result
from toolyard.serving.mcp.turn import Turn
from toolyard.serving.mcp.wire import Json
from toolyard.serving.quota import check_may_begin
from toolyard.serving.sessions_api import check_state, off_loop, view_of
from toolyard.serving.shapes import Calls, SessionBody, SessionId, Shape, WireCall

if TYPE_CHECKING:
    from toolyard.serving.mcp.face import Face

PREFIX = "toolyard.session_"


class OfSession(Shape):
    """Which session."""

    session_id: SessionId


class ForkOf(Shape):
    """Which session to branch, and what the branch is called."""

    fork_of: SessionId
    session_id: SessionId | UnsetType = UNSET


class CallsIn(Shape):
    """Calls to be answered in order, in a session."""

    session_id: SessionId
    calls: Calls


class _Refused(CallError):
    """A session that cannot be had, as the result of a call."""


async def _open(face: Face, turn: Turn, given: SessionBody) -> Json:
    state = None if given.initial_state is UNSET else given.initial_state
    if state is not None:
        check_state(state)
    return await _begun(face, turn, given.session_id, initial_state=state)


async def _fork(face: Face, turn: Turn, given: ForkOf) -> Json:
    return await _begun(face, turn, given.session_id, fork_of=given.fork_of)


async def _begun(face: Face, turn: Turn, wanted: str | UnsetType, **options: Any) -> Json:
    principal, service = turn.caller.principal, face.service
    check_may_begin(principal)
    session_id = secrets.token_urlsafe(18) if wanted is UNSET else wanted
    async with service.quota.place(principal.owner):
        await service.yard.tool_engine.asetup(session_id, owner=principal.owner, **options)
    return value_result("", await view_of(service, principal.owner, session_id))


async def _simulate(face: Face, turn: Turn, given: CallsIn) -> Json:
    return await _run(face, turn, given, "simulate")


async def _execute(face: Face, turn: Turn, given: CallsIn) -> Json:
    return await _run(face, turn, given, "execute")


async def _run(face: Face, turn: Turn, given: CallsIn, mode: Mode) -> Json:
    if face.is_stale:
        await face.catch_up()
    calls = [_call(face, turn, call) for call in given.calls]
    results = await placed_calls(face, turn, calls, session_id=given.session_id, mode=mode)
    return value_result("", {"results": [result.to_dict() for result in results]})


def _call(face: Face, turn: Turn, call: WireCall) -> ToolCall:
    known = face.names.meant(call.name, turn.caller.principal)
    call_id = None if call.call_id is UNSET else call.call_id
    overload = None if call.overload is UNSET else call.overload
    if known is None:
        return ToolCall(call.name, call.arguments, call_id, overload)
    return ToolCall(known.name, call.arguments, call_id, overload or known.overload)


async def _state(face: Face, turn: Turn, given: OfSession) -> Json:
    engine, owner = face.service.yard.tool_engine, turn.caller.principal.owner

    def read() -> Json:
        found = engine.get_session_state(given.session_id, owner=owner)
        if found is None:
            raise UnknownSessionError(f"no session is called {given.session_id!r}")
        return {"state": found, "state_hash": engine.state_hash(given.session_id, owner=owner)}

    async with face.service.reads.enter(turn.caller.principal):
        return value_result("", await off_loop(face.service, read))


async def _close(face: Face, turn: Turn, given: OfSession) -> Json:
    owner = turn.caller.principal.owner
    await face.service.yard.tool_engine.ateardown(given.session_id, owner=owner)
    face.service.quota.ended(owner)
    return value_result("", {"closed": True})


def _guarded(work: Any) -> Any:
    """What HTTP would refuse with a status is a failed call here: the model may know what to do about it."""

    async def guarded(face: Face, turn: Turn, given: Any) -> Json:
        try:
            answer: Json = await work(face, turn, given)
        except HttpFault as fault:
            if fault.code == "server.overloaded":
                raise
            return fault_result("", _refused(fault.code, fault.message, fault.retryable))
        except SessionError as error:
            return fault_result("", _refused(_code(error), str(error), False))
        return answer

    return guarded


def _code(error: ToolyardError) -> str:
    from toolyard.serving.app import STATUS

    return next((code for kind, (_, code, _) in STATUS.items() if isinstance(error, kind)), "session.unavailable")


def _refused(code: str, message: str, retryable: bool) -> CallError:
    error = _Refused(message)
    error.info = msgspec.structs.replace(error.info, code=code, retryable=retryable)
    return error


SESSION_TOOLS = tuple(
    OwnTool(PREFIX + name, description, arguments, _guarded(work), read_only=read_only)
    for name, description, arguments, work, read_only in (
        (
            "open",
            "Begin a session, in which calls see what earlier ones left.",
            SessionBody,
            _open,
            False,
        ),
        ("fork", "Branch a session: the branch begins where the session now is.", ForkOf, _fork, False),
        ("simulate", "Answer calls in a session and leave it as it was.", CallsIn, _simulate, False),
        ("execute", "Answer calls in a session and keep them in it.", CallsIn, _execute, False),
        ("state", "Everything in a session: its history and what engines keep in it.", OfSession, _state, True),
        ("close", "End a session.", OfSession, _close, False),
    )
)
