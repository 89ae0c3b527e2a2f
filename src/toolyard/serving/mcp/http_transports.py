"""MCP over HTTP: `/mcp`, with a handshake or stateless, and the older `/sse` with `/messages`.

At `/mcp` the response to a request is JSON, or a stream if notifications are sent before the result. `/sse` streams the
responses to all messages that are posted to `/messages`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send

from toolyard.dialects.mcp_protocol import (
    CANCELLED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTEN,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    PROTOCOL_VERSION,
    REFUSED,
    UNSUPPORTED_VERSION,
)
from toolyard.serving.http_fault import HttpFault, make_overloaded
from toolyard.serving.mcp.approving import can_elicit, is_answer
from toolyard.serving.mcp.event_stream import EventStream, KeptReplies, ReplyStream, listen, send_stream, serve_stream
from toolyard.serving.mcp.json_rpc import (
    TOOLS_CHANGED,
    VERSION_HEADER,
    Json,
    RequestContext,
    RpcFault,
    RpcMessage,
    SendMessage,
    check_envelope,
    check_headers,
    check_version,
    encode_error,
    encode_result,
    find_id,
    is_stateless,
    negotiate_version,
    read_message,
    refuse_request,
)
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.mcp.sessions import InflightRequest, McpSession, find_cancelled, forget_request, post_mail
from toolyard.serving.mcp.stdio import MessageClient
from toolyard.serving.query import QueryParameter, query_str
from toolyard.serving.routing import BODY, LARGE_BODY, JsonResponse, base_url, caller_of, operation, read_json
from toolyard.serving.streams import await_disconnect

_ANY_ACCEPT = b"application/json, text/event-stream"
_UNWATCHED_SECONDS = 0.02


class AcceptedTypes(NamedTuple):
    """The media types that a client accepts."""

    json: bool
    stream: bool


_ANY_TYPE = AcceptedTypes(True, True)


def read_accept(request: Request) -> AcceptedTypes:
    """Parse `Accept`; 406 if it allows neither JSON nor streams."""
    given = caller_of(request).headers.get(b"accept")
    if given is None or given == _ANY_ACCEPT:
        return _ANY_TYPE
    kinds = {part.partition(";")[0].strip().lower() for part in given.decode("latin-1").split(",")}
    everything = "*/*" in kinds
    found = AcceptedTypes(
        everything or bool(kinds & {"application/json", "application/*"}),
        everything or bool(kinds & {"text/event-stream", "text/*"}),
    )
    if not found.json and not found.stream:
        raise HttpFault(
            406, "request.not_acceptable", "answers are application/json or text/event-stream; accept one, or both"
        )
    return found


def refuse_head(request: Request) -> None:
    """Refuse HEAD for a stream, with 405."""
    if request.method == "HEAD":
        raise HttpFault(405, "request.method_not_allowed", "HEAD is not allowed here", headers=((b"allow", b"GET"),))


class DisconnectWatch:
    """Cancels the task of a request when its client disconnects, which is how stateless clients cancel.

    A task or a timer for each request would take a tenth of its time. One timer for all starts a watching task only for
    requests that have run through a whole interval of `_UNWATCHED_SECONDS`.
    """

    def __init__(self) -> None:
        self._recent: dict[asyncio.Task[Any], Receive] = {}
        self._older: dict[asyncio.Task[Any], Receive] = {}
        """Requests that were already running at the last tick of the timer."""
        self._watchers: dict[asyncio.Task[Any], asyncio.Task[None]] = {}
        self._is_ticking = False

    def begin(self, receive: Receive) -> asyncio.Task[Any]:
        """Watch the request of the current task; returns the task, to pass to `end`."""
        call = asyncio.current_task()
        assert call is not None
        self._recent[call] = receive
        if not self._is_ticking:
            self._tick()
        return call

    def end(self, call: asyncio.Task[Any]) -> None:
        """Stop watching a request that was answered."""
        if self._recent.pop(call, None) is None and self._older.pop(call, None) is None:
            self._watchers.pop(call).cancel()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        for call, receive in self._older.items():
            self._watchers[call] = loop.create_task(await_disconnect(receive, call.cancel))
        self._older, self._recent = self._recent, {}
        self._is_ticking = bool(self._older)
        if self._is_ticking:
            loop.call_later(_UNWATCHED_SECONDS, self._tick)


class Reply:
    """The HTTP response to one request. The first notification before the result turns it into a stream."""

    __slots__ = ("_accepted", "_make_stream", "_send", "_task", "stream")

    def __init__(self, send: Send, accepted: AcceptedTypes, make: Callable[[], ReplyStream] = ReplyStream) -> None:
        self._send = send
        self._accepted = accepted
        self._make_stream = make
        self._task: asyncio.Task[None] | None = None
        self.stream: ReplyStream | None = None

    @property
    def may_be_json(self) -> bool:
        """True if no notification was sent and the client accepts JSON."""
        return self.stream is None and self._accepted.json

    @property
    def notify(self) -> SendMessage | None:
        """Sends a notification before the result; None if the client does not accept streams."""
        return self._notify if self._accepted.stream else None

    def _notify(self, message: bytes) -> None:
        (self.stream or self._begin()).put(message)

    def _begin(self) -> ReplyStream:
        stream = self.stream = self._make_stream()
        self._task = asyncio.get_running_loop().create_task(send_stream(self._send, stream.stream))
        return stream

    async def finish(self, message: bytes) -> Response | None:
        """Send the result. Returns a response to send, or None if the result was sent on the stream."""
        if self.may_be_json:
            return JsonResponse(message)
        (self.stream or self._begin()).put(message, is_last=True)
        assert self._task is not None
        await self._task
        return None


SESSION_ID = "mcp-session-id"
_NOT_ACCEPTABLE = 406
_BAD_REQUESTS = (INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)
_STATUS = {**dict.fromkeys(_BAD_REQUESTS, 400), METHOD_NOT_FOUND: 404}
"""HTTP status by error code, in the stateless version; the other versions send errors with 200."""
_STOPPED = {
    "cancelled": RpcFault(CANCELLED, "the request was cancelled"),
    "over": RpcFault(CANCELLED, "the session is over, and the request was cancelled with it"),
}
_CANCELLED = RpcFault(REFUSED, "the server did not wait for this any longer; whether it took effect is not known")
_FAILED = RpcFault(INTERNAL_ERROR, "the server failed; its log has it")


class StreamableHttp:
    """Handlers for the three HTTP methods of `/mcp`. A handler that returns None has sent a stream."""

    def __init__(self, server: McpEndpoint) -> None:
        self._server = server
        self._watch = DisconnectWatch()
        self._replies = KeptReplies()

    @operation("POST /mcp", "Message from an MCP client", body=dict[str, Any], streams=True, shown=False)
    async def post_message(self, request: Request, send: Send) -> Response | None:
        """Handle one message of a client."""
        accepted = read_accept(request)
        document: Any = None
        stateless = False
        try:
            document = await read_document(request)
            message = read_message(document)
            stateless = is_stateless(caller_of(request).headers, message)
            if stateless:
                return await self._answer_stateless(request, send, message, accepted)
            return await self._answer_in_session(request, send, message, accepted, document)
        except (RpcFault, HttpFault) as error:
            if isinstance(error, HttpFault) and (document is None or error.status == _NOT_ACCEPTABLE):
                raise
            # Drop the traceback: with this frame it forms a cycle that would keep the message until garbage collection.
            fault = refuse_request(error) if isinstance(error, HttpFault) else error.with_traceback(None)
            status = fault.status or (_STATUS.get(fault.code, 200) if stateless else 200)
            headers = {name.decode(): value.decode() for name, value in fault.headers}
            return JsonResponse(encode_error(find_id(document), fault), status, headers=headers)

    @operation("GET /mcp", "Messages to an MCP client", streams=True, shown=False)
    async def open_stream(self, request: Request, send: Send) -> Response | None:
        """Serve the stream of notifications of a session, or resume a response after `Last-Event-ID`."""
        session = await self._find_session_or_refuse(request)
        if isinstance(session, Response):
            return session
        if not read_accept(request).stream:
            raise refuse_json("this endpoint sends only")
        last = request.headers.get("last-event-id")
        if last is not None:
            # Only events of responses have ids, so this resumes a response.
            reply = self._replies.resume(session.owner, session.id, last)
            await serve_stream(self._server.subscribers, request, send, reply)
            return None
        before, session.notices = session.notices, EventStream()
        if before is not None:
            before.end()
        if before is not None or self._server.records.shared:
            # The client may be reconnecting, perhaps from another worker, and may have missed a change.
            session.notices.put(TOOLS_CHANGED)
        await serve_stream(self._server.subscribers, request, send, session.notices, silent=True)
        return None

    @operation("DELETE /mcp", "End an MCP session", shown=False)
    async def end_session(self, request: Request) -> Response:
        """End a session."""
        session = await self._find_session_or_refuse(request)
        if isinstance(session, Response):
            return session
        await self._server.sessions.end(session.owner, session.id)
        return Response(status_code=204)

    async def _answer_stateless(
        self, request: Request, send: Send, message: RpcMessage | None, accepted: AcceptedTypes
    ) -> Response | None:
        headers = request.scope["headers"]
        if message is None:
            raise RpcFault(INVALID_REQUEST, "the body is a response, but the server sent no request")
        if message.id is None:
            # A notification has its version only in the header.
            check_version(caller_of(request).headers.get(VERSION_HEADER, b"").decode("latin-1"))
            return Response(status_code=202)
        check_envelope(message)
        check_headers(headers, message)
        check_version(message.meta[PROTOCOL_VERSION])
        if message.method == LISTEN:
            if not accepted.stream:
                raise refuse_json("subscriptions are sent only as")
            await listen(self._server.subscribers, request, send, message)
            return None
        if self._server.is_stale:
            await self._server.current_names()
            if await request.is_disconnected():
                raise _STOPPED["cancelled"]  # the client has disconnected, so do not begin the call
        reply = Reply(send, accepted)
        context = RequestContext(message, caller_of(request), reply.notify, headers=headers)
        context.find_address = self._address_of(request)
        call = self._watch.begin(request.receive)
        try:
            return await self._reply(context, reply)
        finally:
            self._watch.end(call)

    async def _reply(
        self, context: RequestContext, reply: Reply, inflight: InflightRequest | None = None
    ) -> Response | None:
        """Answer as JSON or as a stream. Faults are raised if the response can still be JSON."""
        number = context.message.id
        try:
            text = encode_result(number, await self._server.answer(context))
        except RpcFault as fault:
            if reply.may_be_json:
                raise
            text = encode_error(number, fault)
        except BaseException as error:
            was_cancelled = isinstance(error, asyncio.CancelledError)
            if was_cancelled and inflight is not None and inflight.reason is not None:
                text = encode_error(number, _STOPPED[inflight.reason])
            else:
                if reply.stream is not None:
                    await reply.finish(encode_error(number, _CANCELLED if was_cancelled else _FAILED))
                raise
        return await reply.finish(text)

    async def _answer_in_session(
        self, request: Request, send: Send, message: RpcMessage | None, accepted: AcceptedTypes, document: Json
    ) -> Response | None:
        if message is not None and message.method == "initialize" and message.id is not None:
            version = negotiate_version(message)
            owner, elicits = caller_of(request).principal.owner or "", can_elicit(message.params.get("capabilities"))
            session = await self._server.sessions.open(owner, version, elicits=elicits)
            text = encode_result(message.id, self._server.greet(version))
            return JsonResponse(text, headers={SESSION_ID: session.id})
        session = await self._find_session(request)
        if message is None or message.id is None:
            await self._take_notice(request, session, document)
            return Response(status_code=202)
        reply = Reply(send, accepted, partial(self._replies.begin, session.owner, session.id))
        context = RequestContext(message, caller_of(request), reply.notify, session)
        context.find_address = self._address_of(request)
        if session.questions is not None and reply.notify is not None:
            context.ask = partial(session.questions.ask, reply.notify)
        if message.method != "tools/call":
            return await self._reply(context, reply)
        number = message.id
        if number in session.running:
            raise RpcFault(INVALID_REQUEST, "a request with this id is under way")
        inflight = InflightRequest(cast("asyncio.Task[Any]", asyncio.current_task()))
        session.running[number] = inflight
        try:
            return await self._reply(context, reply, inflight)
        finally:
            forget_request(session.running, number, inflight)
            if reply.stream is not None:
                self._replies.settle()

    def _address_of(self, request: Request) -> Callable[[], str]:
        return partial(base_url, request, self._server.server_block.public_url)

    async def _find_session(self, request: Request) -> McpSession:
        """The session of a request; status 400 if it names none, 404 if the session is over or unknown."""
        caller = caller_of(request)
        session_id = caller.headers.get(SESSION_ID.encode())
        if session_id is None:
            raise RpcFault(INVALID_REQUEST, "Mcp-Session-Id is missing; begin with initialize", status=400)
        session = await self._server.sessions.find(caller.principal.owner or "", session_id.decode("latin-1"))
        if session is None:
            raise RpcFault(INVALID_REQUEST, "the session is over; begin again with initialize", status=404)
        return session

    async def _find_session_or_refuse(self, request: Request) -> McpSession | Response:
        """The session of a request without a message, or the response that refuses it."""
        if is_stateless(caller_of(request).headers, None):
            words = "only POST is allowed here in this version of the protocol"
            raise HttpFault(405, "request.method_not_allowed", words, headers=((b"allow", b"POST"),))
        refuse_head(request)
        try:
            return await self._find_session(request)
        except RpcFault as fault:
            return JsonResponse(encode_error(None, fault), fault.status or 400)

    async def _take_notice(self, request: Request, session: McpSession, document: Json) -> None:
        """Handle a cancellation or the response to a question; forward it if its call may run in another worker."""
        body, records = request.scope[BODY], self._server.records
        if session.accepts(document):
            session.receive(document)
        elif (
            records.shared and len(body) <= LARGE_BODY and (is_answer(document) or find_cancelled(document) is not None)
        ):
            await post_mail(records, session.id, body)


async def read_document(request: Request) -> Json:
    """Parse the body, which must be one JSON object."""
    document: Any = None
    try:
        document, _ = await read_json(request, dict)
    except HttpFault as fault:
        if fault.code == "request.invalid_json":
            raise RpcFault(PARSE_ERROR, fault.message, status=400) from None
        if fault.code != "request.invalid_shape":
            raise
        raise RpcFault(INVALID_REQUEST, "the body must be one message; there are no batches", status=400) from None
    return cast(Json, document)


def refuse_json(what: str) -> HttpFault:
    """406 for a client that does not accept streams."""
    return HttpFault(_NOT_ACCEPTABLE, "request.not_acceptable", f"{what} text/event-stream; accept it")


_SESSION = QueryParameter("session_id", {"type": "string", "minLength": 1, "maxLength": 128}, "Id from `/sse`.")
_HOME = "mcp_sse"


class SseTransport:
    """Handlers for the two requests of the older transport."""

    def __init__(self, server: McpEndpoint) -> None:
        self._server = server
        self._clients: dict[tuple[str, str], MessageClient] = {}
        server.sse_clients = self._clients

    @operation("GET /sse", "Messages to an older MCP client", streams=True, shown=False)
    async def open_stream(self, request: Request, send: Send) -> None:
        """Serve the stream of one client until it disconnects."""
        refuse_head(request)
        if not read_accept(request).stream:
            raise refuse_json("this endpoint sends only")
        principal, records = caller_of(request).principal, self._server.records
        owner, session_id = principal.owner or "", secrets.token_urlsafe(24)
        stream, address = EventStream(), base_url(request, self._server.server_block.public_url)
        client = MessageClient(self._server, stream.put_answer, stream.put, principal, address, stream)
        place = f"{request.scope.get('root_path', '')}/messages?session_id={session_id}"
        stream.put_raw(b"event: endpoint\ndata: %b\n\n" % place.encode())
        self._clients[owner, session_id] = client
        try:
            if records.shared:
                await records.aput(_HOME, owner, session_id, b"")
            await serve_stream(self._server.subscribers, request, send, stream, client.notify_changed)
        finally:
            del self._clients[owner, session_id]
            client.close()
            if records.shared:
                await records.aremove(_HOME, owner, session_id)

    @operation(
        "POST /messages", "Message from an older MCP client", body=dict[str, Any], query=(_SESSION,), shown=False
    )
    async def post_message(self, request: Request) -> Response:
        """Receive one message of a client; the response is sent on its stream."""
        principal, records = caller_of(request).principal, self._server.records
        owner, session_id = principal.owner or "", query_str(request, "session_id") or ""
        client = self._clients.get((owner, session_id))
        if client is None and (not records.shared or await records.aget(_HOME, owner, session_id) is None):
            raise HttpFault(404, "session.not_found", "no stream has this session_id; begin with GET /sse")
        try:
            document = await read_document(request)
        except RpcFault as fault:
            return JsonResponse(encode_error(None, fault), fault.status or 400)
        if client is None:
            await post_mail(records, session_id, request.scope[BODY])
        elif client.is_full:
            raise make_overloaded("the stream has answers that were not read; read them, and ask again", 1)
        else:
            client.receive(document, principal)
        return Response(status_code=202)
