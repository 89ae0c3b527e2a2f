"""`tools/call`: from the name on the wire to the one call path, and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.dialects.mcp import CALL_ID
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, UnknownToolError
from toolyard.model.guesses import promises_output
from toolyard.serving.bodies import digest_of
from toolyard.serving.mcp.envelope import level_of
from toolyard.serving.mcp.results import finished, result_of
from toolyard.serving.mcp.turn import Turn
from toolyard.serving.mcp.wire import (
    CLIENT_CAPABILITIES,
    INVALID_PARAMS,
    LOG_LEVEL,
    MISSING_CAPABILITY,
    Json,
    Message,
    RpcFault,
)
from toolyard.serving.principal import NOBODY
from toolyard.serving.response import Response
from toolyard.serving.running import KeyScope, once, run_calls, run_now

if TYPE_CHECKING:
    from toolyard.serving.mcp.face import Face
    from toolyard.serving.mcp.names import Known
    from toolyard.serving.running import Caller

IDEMPOTENCY_KEY = "toolyard/idempotency_key"
"""Among a request's `_meta`: one that comes again with the same key gets the first answer again."""
_CONTEXT, _TRACE = "toolyard/context", "toolyard/trace"
_NOTHING: Json = {}
_MOST = 512
CALL_FOUND = "call_tool"
"""The tool of the face's own that calls another."""
_SPECIAL = frozenset({IDEMPOTENCY_KEY, _CONTEXT, _TRACE, CALL_ID, LOG_LEVEL})
"""Keys of `_meta` that have to be looked at more closely."""


async def call_tool(face: Face, turn: Turn) -> bytes:
    """The `CallToolResult` of one call, encoded."""
    params = turn.message.params
    name, arguments = params.get("name"), params.get("arguments")
    if type(name) is not str or not name:
        raise RpcFault(INVALID_PARAMS, "params.name must be the name of a tool")
    if arguments is None:
        arguments = {}
    elif type(arguments) is not dict:
        raise RpcFault(INVALID_PARAMS, "params.arguments must be an object")
    own = face.own.get(name)
    work = partial(called, face, turn, name, arguments) if own is None else partial(own, turn, arguments)
    key = turn.message.meta.get(IDEMPOTENCY_KEY)
    if key is None:
        return finished(await work(), stateless=turn.stateless)
    return await _once(face, turn, name, arguments, key, work)


def call_now(face: Face, message: Message, caller: Caller, *, stateless: bool) -> bytes | None:
    """The result of a call for which nobody has to wait; None, and nothing was begun, for any other.

    Most calls that are quick come this way, and it costs half of the other.
    """
    params, meta = message.params, message.meta
    name, arguments = params.get("name"), params.get("arguments")
    known = face.names.known(name) if type(name) is str else None
    if known is None or known.requires is not None or (arguments is not None and type(arguments) is not dict):
        return None
    if name in face.own.names or not _SPECIAL.isdisjoint(meta):
        return None
    principal, places = caller.principal, face.service.admission
    if principal is not NOBODY and not KeyScope(principal).sees(known.tool):
        return None
    call = ToolCall(known.name, arguments or {}, None, known.overload)
    if not places.try_place(principal):
        return None
    try:
        result = run_now(face.service, caller, call)
    finally:
        places.leave(principal)
    if result is None:
        return None
    shown = result_of(result, wraps=known.wraps, has_schema=promises_output(known.tool))
    return finished(shown, stateless=stateless)


async def called(face: Face, turn: Turn, name: str, arguments: Json) -> Json:
    """The `CallToolResult` of a call of a tool of the yard."""
    if face.is_stale:
        await face.catch_up()
    known = face.names.meant(name, turn.caller.principal)
    meta = turn.message.meta
    call = _call(turn, known, name, arguments)
    if known is not None and known.requires is not None:
        _check_client(turn, known)
    level = level_of(meta) if turn.client is None else turn.client.level
    results = await placed_calls(
        *(face, turn, (call,)),
        notify=turn.listener(level),
        context=_object(meta, _CONTEXT) if _CONTEXT in meta else _NOTHING,
        trace=_object(meta, _TRACE) if _TRACE in meta else _NOTHING,
    )
    result = results[0]
    if result.error_info is not None and result.error_info.code == UnknownToolError.code:
        raise RpcFault(INVALID_PARAMS, result.error_info.message, {"error": result.error_info.to_dict()})
    if known is None:
        return result_of(result, wraps=False, has_schema=False)
    return result_of(result, wraps=known.wraps, has_schema=promises_output(known.tool))


async def placed_calls(face: Face, turn: Turn, calls: Sequence[ToolCall], **options: Any) -> list[ToolResult]:
    """Answer calls in one of the places that the server has for running them."""
    service, caller = face.service, turn.caller
    places = service.admission
    if not places.try_place(caller.principal):
        await places.wait(caller.principal)
    try:
        return await run_calls(service, caller, calls, **options)
    finally:
        if caller.abandoned:
            places.leave_later(caller.principal, caller.abandoned)
        else:
            places.leave(caller.principal)


def _call(turn: Turn, known: Known | None, name: str, arguments: Json) -> ToolCall:
    call_id = turn.message.meta.get(CALL_ID)
    if call_id is not None and (type(call_id) is not str or not 0 < len(call_id) <= _MOST):
        raise RpcFault(INVALID_PARAMS, f"params._meta: {CALL_ID!r} must be text of 1 to {_MOST} characters")
    if known is None:
        # What it stands for is told only to who sees that tool.
        return ToolCall(name, arguments, call_id)
    return ToolCall(known.name, arguments, call_id, known.overload)


def _check_client(turn: Turn, known: Known) -> None:
    """A tool may need a client that can do more than call it; only the stateless version says what it can do."""
    can = turn.message.meta.get(CLIENT_CAPABILITIES, _NOTHING)
    assert known.requires is not None
    missing = {key: value for key, value in known.requires.items() if key not in can}
    if turn.stateless and missing:
        raise RpcFault(
            MISSING_CAPABILITY,
            f"the tool needs a client with {', '.join(sorted(missing))}",
            {"requiredCapabilities": missing},
        )


def _object(meta: Json, key: str) -> Json:
    value = meta[key]
    if type(value) is not dict:
        raise RpcFault(INVALID_PARAMS, f"params._meta: {key!r} must be an object")
    return value


def _registered(face: Face, turn: Turn, name: str, arguments: Json) -> str | None:
    """The tool of the yard that a call comes down to; None if it is something else."""
    if name in face.own.names:
        given = arguments.get("name")
        if name != CALL_FOUND or type(given) is not str:
            return None
        name = given
    known = face.names.meant(name, turn.caller.principal)
    return name if known is None else known.name


async def _once(
    face: Face, turn: Turn, name: str, arguments: Json, key: object, work: Callable[[], Awaitable[Json]]
) -> bytes:
    if type(key) is not str or not key.isascii() or not key.isprintable() or not 0 < len(key) <= _MOST:
        raise RpcFault(INVALID_PARAMS, f"params._meta: {IDEMPOTENCY_KEY!r} must be 1 to {_MOST} ASCII characters")

    async def make() -> Response:
        return Response(200, msgspec.json.encode(await work()))

    def interrupted(info: ErrorInfo) -> Response:
        result = ToolResult.failed(ToolCall(name, arguments), info)
        return Response(200, msgspec.json.encode(result_of(result, wraps=False, has_schema=False)))

    answer = await once(
        *(face.service, turn.caller, f"mcp:{key}", digest_of("tools/call", name, arguments), make, interrupted),
        tool_name=_registered(face, turn, name, arguments),
    )
    return finished(msgspec.json.decode(answer.body), stateless=turn.stateless)
