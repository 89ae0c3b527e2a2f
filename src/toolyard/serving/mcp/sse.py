"""`/sse` and `/messages`: the first HTTP transport, for clients that know no other.

The client reads one stream, whose first event says where to post messages; answers come on the stream. The stream is
held by one worker. A message that another one gets is put beside the sessions, where the right one finds it.
"""

from __future__ import annotations

import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.serving.mcp.cross_worker import post_mail
from toolyard.serving.mcp.event_stream import EventStream
from toolyard.serving.mcp.json_rpc import RpcFault, encode_error, find_id
from toolyard.serving.mcp.message_client import MessageClient
from toolyard.serving.mcp.reply import answer_accepted, read_accept, refuse_head
from toolyard.serving.mcp.server import McpServer
from toolyard.serving.mcp.streamable_http import read_document
from toolyard.serving.mcp.subscriptions import stand
from toolyard.serving.query import query_str
from toolyard.serving.request_body import BODY
from toolyard.serving.responses import JsonResponse
from toolyard.serving.routing import caller_of
from toolyard.sessions.records import Records

_HOME = "mcp_sse"


class SseClient(MessageClient):
    """A client whose answers come on a stream of its own."""

    def __init__(self, server: McpServer, principal: Principal) -> None:
        self.stream = EventStream()
        super().__init__(server, self.stream.put_answer, self.stream.put, principal)

    @property
    def is_full(self) -> bool:
        """True if it has not read what it asked for before."""
        return self.stream.is_full


class SseTransport:
    """Its two requests."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._state = server.state
        self._clients: dict[tuple[str, str], SseClient] = {}

    async def open_stream(self, request: Request, send: Send) -> None:
        """The stream of one client, until it is gone."""
        refuse_head(request)
        if not read_accept(request).stream:
            raise HttpFault(406, "request.not_acceptable", "what comes here is text/event-stream; accept it")
        principal, records = caller_of(request).principal, self._state.records
        owner, session_id = principal.owner or "", secrets.token_urlsafe(24)
        client = SseClient(self._server, principal)
        root = request.scope.get("root_path", "")
        place = f"{root}/messages?session_id={session_id}"
        client.stream.put_raw(b"event: endpoint\ndata: %b\n\n" % place.encode())
        self._clients[owner, session_id] = self._state.sse_clients[owner, session_id] = client
        try:
            if records.shared:
                await records.aput(_HOME, owner, session_id, b"")
            await stand(self._state, request, send, client.stream, client.notify_changed)
        finally:
            del self._clients[owner, session_id], self._state.sse_clients[owner, session_id]
            client.close()
            if records.shared:
                await records.aremove(_HOME, owner, session_id)

    async def post_message(self, request: Request) -> Response:
        """One message of a client; its answer comes on the stream."""
        principal, records = caller_of(request).principal, self._state.records
        owner, session_id = principal.owner or "", query_str(request, "session_id") or ""
        client = self._clients.get((owner, session_id))
        if client is None and not await _is_elsewhere(records, owner, session_id):
            raise HttpFault(404, "session.not_found", "no stream has this session_id; begin with GET /sse")
        document: Any = None
        try:
            document = await read_document(request)
        except RpcFault as fault:
            return JsonResponse(encode_error(find_id(document), fault), fault.status or 400)
        if client is None:
            await post_mail(records, session_id, request.scope[BODY])
        elif client.is_full:
            raise HttpFault(
                429,
                "server.overloaded",
                "the stream has answers that were not read; read them, and ask again",
                retryable=True,
                headers=((b"retry-after", b"1"),),
            )
        else:
            client.take(document, principal)
        return answer_accepted()


async def _is_elsewhere(records: Records, owner: str, session_id: str) -> bool:
    return records.shared and bool(session_id) and await records.aget(_HOME, owner, session_id) is not None
