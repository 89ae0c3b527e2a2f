"""`SseTransport`: MCP's older HTTP transport, in which `/sse` streams the answers to messages posted to `/messages`."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from toolyard.serving.http_fault import HttpFault, make_overloaded
from toolyard.serving.identity import Principal
from toolyard.serving.mcp.event_stream import EventStream, serve_stream
from toolyard.serving.mcp.json_rpc import RpcFault, encode_error
from toolyard.serving.mcp.mailbox import post_mail
from toolyard.serving.mcp.message_client import MessageClient
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.mcp.streamable_http import find_address, read_accept, read_document, refuse_head, refuse_json
from toolyard.serving.query import query_str
from toolyard.serving.request_body import BODY
from toolyard.serving.routing import JsonResponse, caller_of
from toolyard.sessions.records import Records

_HOME = "mcp_sse"


class SseClient(MessageClient):
    """A client that receives responses on a separate stream."""

    def __init__(self, server: McpEndpoint, principal: Principal, address: str) -> None:
        self.stream = EventStream()
        super().__init__(server, self.stream.put_answer, self.stream.put, principal, address)

    @property
    def is_full(self) -> bool:
        """True if too many responses are unread."""
        return self.stream.is_full


class SseTransport:
    """Handlers for the two requests of the transport."""

    def __init__(self, server: McpEndpoint) -> None:
        self._server = server
        self._clients: dict[tuple[str, str], SseClient] = {}
        server.sse_clients = self._clients

    async def open_stream(self, request: Request, send: Send) -> None:
        """Serve the stream of one client until it disconnects."""
        refuse_head(request)
        if not read_accept(request).stream:
            raise refuse_json("this endpoint sends only")
        principal, records = caller_of(request).principal, self._server.records
        owner, session_id = principal.owner or "", secrets.token_urlsafe(24)
        client = SseClient(self._server, principal, find_address(self._server, request))
        root = request.scope.get("root_path", "")
        place = f"{root}/messages?session_id={session_id}"
        client.stream.put_raw(b"event: endpoint\ndata: %b\n\n" % place.encode())
        self._clients[owner, session_id] = client
        try:
            if records.shared:
                await records.aput(_HOME, owner, session_id, b"")
            await serve_stream(self._server.subscribers, request, send, client.stream, client.notify_changed)
        finally:
            del self._clients[owner, session_id]
            client.close()
            if records.shared:
                await records.aremove(_HOME, owner, session_id)

    async def post_message(self, request: Request) -> Response:
        """Receive one message of a client; the response is sent on its stream."""
        principal, records = caller_of(request).principal, self._server.records
        owner, session_id = principal.owner or "", query_str(request, "session_id") or ""
        client = self._clients.get((owner, session_id))
        if client is None and not await _is_elsewhere(records, owner, session_id):
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


async def _is_elsewhere(records: Records, owner: str, session_id: str) -> bool:
    return records.shared and bool(session_id) and await records.aget(_HOME, owner, session_id) is not None
