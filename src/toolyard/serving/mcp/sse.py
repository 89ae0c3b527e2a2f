"""`/sse` and `/messages`: the first HTTP transport, for clients that know no other.

The client reads one stream, whose first event says where to post messages; answers come on the stream. The stream is
held by one worker. A message that another one gets is put beside the sessions, where the right one finds it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from toolyard.serving.faults import HttpFault
from toolyard.serving.mcp.client import Client
from toolyard.serving.mcp.elsewhere import post_mail
from toolyard.serving.mcp.http import read_document
from toolyard.serving.mcp.listen import stand
from toolyard.serving.mcp.reply import ACCEPTED, accepted
from toolyard.serving.mcp.streams import Stream
from toolyard.serving.mcp.wire import RpcFault, error_text, id_of
from toolyard.serving.request import Request
from toolyard.serving.response import JSON, Response
from toolyard.serving.service import Service

if TYPE_CHECKING:
    from toolyard.sessions.records import Records

_HOME = "mcp_sse"


class SseClient(Client):
    """A client whose answers come on a stream of its own."""

    def __init__(self, service: Service, request: Request) -> None:
        self.stream = Stream()
        super().__init__(service.mcp, self.stream.put_answer, self.stream.put, request.principal)

    @property
    def is_full(self) -> bool:
        """True if it has not read what it asked for before."""
        return self.stream.is_full


async def begin(service: Service, request: Request) -> Response:
    """The stream of one client, until it is gone."""
    if not accepted(request).stream:
        raise HttpFault(406, "request.not_acceptable", "what comes here is text/event-stream; accept it")
    face, records, owner = service.mcp, service.records, request.principal.owner or ""
    session_id = secrets.token_urlsafe(24)
    client = SseClient(service, request)
    client.stream.put_raw(b"event: endpoint\ndata: /messages?session_id=%b\n\n" % session_id.encode())
    face.sse[owner, session_id] = client
    try:
        if records.shared:
            await records.aput(_HOME, owner, session_id, b"")
        await stand(face, request, client.stream, client.changed)
    finally:
        del face.sse[owner, session_id]
        client.close()
        if records.shared:
            await records.aremove(_HOME, owner, session_id)
    return Response()


async def message(service: Service, request: Request) -> Response:
    """One message of a client; its answer comes on the stream."""
    face, owner = service.mcp, request.principal.owner or ""
    session_id = request.query.get("session_id", [""])[0]
    client = face.sse.get((owner, session_id))
    if client is None and not await _is_elsewhere(service.records, owner, session_id):
        raise HttpFault(404, "session.not_found", "no stream has this session_id; begin with GET /sse")
    document: Any = None
    try:
        document = await read_document(service, request)
    except RpcFault as fault:
        return Response(fault.status or 400, error_text(id_of(document), fault), JSON)
    if client is None:
        await post_mail(service.records, session_id, request.body or b"")
    elif client.is_full:
        raise HttpFault(
            429,
            "server.overloaded",
            "the stream has answers that were not read; read them, and ask again",
            retryable=True,
            headers=((b"retry-after", b"1"),),
        )
    else:
        client.take(document, request.principal)
    return ACCEPTED


async def _is_elsewhere(records: Records, owner: str, session_id: str) -> bool:
    return records.shared and bool(session_id) and await records.aget(_HOME, owner, session_id) is not None
