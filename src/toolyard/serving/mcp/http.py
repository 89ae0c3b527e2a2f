"""`/mcp`: streamable HTTP, in the versions with a handshake and in the stateless one, on one path."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.bodies import is_small, read_json
from toolyard.serving.faults import HttpFault
from toolyard.serving.mcp.calling import call_now
from toolyard.serving.mcp.elsewhere import pass_cancel_on
from toolyard.serving.mcp.envelope import (
    check_envelope,
    check_headers,
    check_version,
    check_version_header,
    is_stateless,
)
from toolyard.serving.mcp.face import greet
from toolyard.serving.mcp.listen import listen
from toolyard.serving.mcp.mirrored import check_mirrored
from toolyard.serving.mcp.reply import ACCEPTED, Accepted, Event, Reply, accepted, hear
from toolyard.serving.mcp.sessions import McpSession
from toolyard.serving.mcp.turn import Turn
from toolyard.serving.mcp.underway import Underway, cancel, done
from toolyard.serving.mcp.wire import (
    CANCELLED,
    HANDSHAKE,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    NEWEST_HANDSHAKE,
    PARSE_ERROR,
    PROTOCOL_VERSION,
    REFUSED,
    UNSUPPORTED_VERSION,
    Json,
    Message,
    RpcFault,
    error_text,
    id_of,
    read_message,
    result_text,
)
from toolyard.serving.request import Request
from toolyard.serving.response import JSON, Response
from toolyard.serving.service import Service

if TYPE_CHECKING:
    from toolyard.serving.mcp.face import Face

SESSION_ID = b"mcp-session-id"
_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""Of errors in the stateless version; in the others an error is an answer like any other."""
_STOPPED = {
    "cancelled": RpcFault(CANCELLED, "the request was cancelled"),
    "over": RpcFault(CANCELLED, "the session is over, and the request was cancelled with it"),
}


async def post(service: Service, request: Request) -> Response:
    """One message of a client."""
    takes = accepted(request)
    document: Any = None
    stateless = False
    try:
        document = await read_document(service, request)
        message = read_message(document)
        stateless = is_stateless(request.headers, message)
        if stateless:
            return await _stateless(service.mcp, request, message, takes)
        return await _in_session(service.mcp, request, message, takes)
    except RpcFault as fault:
        status = fault.status or (_STATUS.get(fault.code, 200) if stateless else 200)
        return Response(status, error_text(id_of(document), fault), JSON)


async def read_document(service: Service, request: Request) -> Json:
    """The body, which is one JSON object."""
    try:
        if is_small(request):
            document: Any = parse_json(request.body or b"", what="body", max_depth=service.block.max_depth)
        else:
            _, document = await read_json(request, dict, service.block)
    except MalformedSource as error:
        raise RpcFault(PARSE_ERROR, str(error), status=400) from None
    except HttpFault as fault:
        if fault.code == "request.invalid_json":
            raise RpcFault(PARSE_ERROR, fault.message, status=400) from None
        if fault.code != "request.invalid_shape":
            raise
        document = None
    if type(document) is not dict:
        raise RpcFault(INVALID_REQUEST, "the body must be one message; there are no batches", status=400)
    return document


async def _stateless(face: Face, request: Request, message: Message | None, takes: Accepted) -> Response:
    if message is None:
        raise RpcFault(INVALID_REQUEST, "nothing was asked here that could be answered")
    if message.id is None:
        check_version_header(request.headers)
        return ACCEPTED
    check_envelope(message)
    check_headers(request.headers, request.scope["headers"], message)
    check_version(message.meta[PROTOCOL_VERSION])
    if message.method == "subscriptions/listen":
        return await listen(face, request, message, takes)
    if message.method == "tools/call":
        if face.is_stale:
            await face.catch_up()
        _check_params(face, request, message)
        if takes.json and (result := call_now(face, message, request, stateless=True)) is not None:
            return Response(200, result_text(message.id, result), JSON)
        return await _hung_up_on(face, request, message, takes)
    return await _replied(face, Turn(message, request, stateless=True, tell=None), Reply(face, request, None), takes)


def _check_params(face: Face, request: Request, message: Message) -> None:
    name, arguments = message.params.get("name"), message.params.get("arguments")
    known = face.names.meant(name, request.principal) if type(name) is str else None
    if known is not None and known.mirrored and (arguments is None or type(arguments) is dict):
        check_mirrored(known.mirrored, arguments or {}, request.scope["headers"])


async def _hung_up_on(face: Face, request: Request, message: Message, takes: Accepted) -> Response:
    """A call that is over when its client is gone, which is how the stateless version cancels."""
    reply = Reply(face, request, None)
    turn = Turn(message, request, stateless=True, tell=reply.tell if takes.stream else None)
    task = cast("asyncio.Task[Any]", asyncio.current_task())

    def told(event: Event) -> None:
        if event == "gone":
            task.cancel()

    if not hear(request, told):
        # It hung up before: nothing is begun.
        await asyncio.sleep(0)
    try:
        return await _replied(face, turn, reply, takes)
    finally:
        hear(request, None)


async def _replied(face: Face, turn: Turn, reply: Reply, takes: Accepted, underway: Underway | None = None) -> Response:
    """Answer, as JSON or as a stream; a fault that comes before anything was said is the caller's to tell."""
    try:
        text = result_text(turn.message.id, await face.answer(turn))
    except RpcFault as fault:
        if reply.stream is None and takes.json:
            raise
        text = error_text(turn.message.id, fault)
    except BaseException as error:
        if reply.stream is not None:
            await reply.finish(error_text(turn.message.id, _broken_off(error, underway)))
        raise
    if reply.stream is None:
        return Response(200, text, JSON) if takes.json else await reply.only_stream(text)
    return await reply.finish(text)


def _broken_off(error: BaseException, underway: Underway | None) -> RpcFault:
    """What the reader of a stream is told when its call does not come to an end."""
    if underway is not None and underway.reason is not None:
        return _STOPPED[underway.reason]
    if isinstance(error, asyncio.CancelledError):
        return RpcFault(REFUSED, "the server did not wait for this any longer; whether it took effect is not known")
    if isinstance(error, HttpFault):
        return RpcFault(REFUSED, error.message, error.envelope())
    return RpcFault(INTERNAL_ERROR, "the server failed; its log has it")


async def _in_session(face: Face, request: Request, message: Message | None, takes: Accepted) -> Response:
    if message is not None and message.method == "initialize" and message.id is not None:
        return await _initialize(face, request, message)
    session = await session_of(face, request)
    if message is None:
        return ACCEPTED
    if message.id is None:
        if message.method == "notifications/cancelled":
            await _cancel(face, session, message)
        return ACCEPTED
    if message.method == "tools/call" and takes.json:
        if face.is_stale:
            await face.catch_up()
        result = call_now(face, message, request, stateless=False)
        if result is not None:
            return Response(200, result_text(message.id, result), JSON)
    reply = Reply(face, request, session)
    turn = Turn(message, request, stateless=False, client=session, tell=reply.tell if takes.stream else None)
    if message.method != "tools/call":
        return await _replied(face, turn, reply, takes)
    number = message.id
    if number in session.running:
        raise RpcFault(INVALID_REQUEST, "a request with this id is under way")
    underway = session.running[number] = Underway(cast("asyncio.Task[Any]", asyncio.current_task()))
    try:
        return await _replied(face, turn, reply, takes, underway)
    except asyncio.CancelledError:
        if underway.reason is None:
            raise
        text = error_text(number, _STOPPED[underway.reason])
        if reply.stream is not None:
            return Response()
        return Response(200, text, JSON) if takes.json else await reply.only_stream(text)
    finally:
        done(session.running, number, underway)


async def _initialize(face: Face, request: Request, message: Message) -> Response:
    version = negotiated(message)
    session = await face.sessions.open(request.principal.owner or "", version)
    text = result_text(message.id, greet(face, version))
    return Response(200, text, JSON, ((SESSION_ID, session.id.encode()),))


def negotiated(message: Message) -> str:
    """The version that is spoken from then on: the client's, or the newest, which it may then refuse."""
    wanted = message.params.get("protocolVersion")
    if type(wanted) is not str:
        raise RpcFault(INVALID_PARAMS, "params.protocolVersion must be text")
    return wanted if wanted in HANDSHAKE else NEWEST_HANDSHAKE


async def session_of(face: Face, request: Request) -> McpSession:
    """The session that a request belongs to; 400 if it names none, 404 if there is none any more."""
    given = request.headers.get(SESSION_ID)
    if given is None:
        raise RpcFault(INVALID_REQUEST, "Mcp-Session-Id is missing; begin with initialize", status=400)
    owner, session_id = request.principal.owner or "", given.decode("latin-1")
    session = face.sessions.at_hand(owner, session_id) or await face.sessions.find(owner, session_id)
    if session is None:
        raise RpcFault(INVALID_REQUEST, "the session is over; begin again with initialize", status=404)
    return session


async def _cancel(face: Face, session: McpSession, message: Message) -> None:
    elsewhere = cancel(session.running, message)
    if elsewhere is not None:
        await pass_cancel_on(face.service.records, session.id, elsewhere)


async def delete(service: Service, request: Request) -> Response:
    """End a session."""
    if is_stateless(request.headers, None):
        raise no_method()
    try:
        session = await session_of(service.mcp, request)
    except RpcFault as fault:
        return Response(fault.status or 400, error_text(None, fault), JSON)
    await service.mcp.sessions.end(session.owner, session.id)
    return Response(204)


def no_method() -> HttpFault:
    """The stateless version has nothing but POST."""
    return HttpFault(
        405,
        "request.method_not_allowed",
        "only POST is allowed here in this version of the protocol",
        headers=((b"allow", b"POST"),),
    )
