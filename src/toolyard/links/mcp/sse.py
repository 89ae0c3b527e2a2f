"""`SseWire`: the old HTTP transport, with one stream for responses and another URL for requests."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from toolyard.links.http.addresses import read_url
from toolyard.links.http.events import EventReader, ServerSentEvent
from toolyard.links.mcp.errors import SessionLostError, status_of
from toolyard.links.mcp.peer import McpReply, Peer
from toolyard.links.mcp.web import Web, WebWire
from toolyard.links.mcp.wire import Lost, Mailbox, Request
from toolyard.model.errors import CallError, Denied, ToolFailed, Unavailable

if TYPE_CHECKING:
    from toolyard.links.http.exchange import StreamedAnswer

_EVENTS = (("accept", "text/event-stream"),)
_GONE = frozenset({404, 410})
_log = logging.getLogger("toolyard.mcp")


class SseWire(WebWire):
    """A connection over one SSE stream, until the stream ends."""

    accept = (("content-type", "application/json"),)
    post_seconds = 30.0

    def __init__(self, web: Web, url: str, peer: Peer, lost: Lost) -> None:
        super().__init__(web, url, peer, lost)
        self._mailbox = Mailbox(peer, self.send_soon)
        self._endpoint: asyncio.Future[str] | None = None

    async def open(self) -> None:
        """Open the stream and wait for the URL that requests are posted to."""
        self._endpoint = asyncio.get_running_loop().create_future()
        self.peer.start(self._read_stream())
        await self._endpoint

    async def request(self, request: Request) -> McpReply:
        """Send a request and return the response."""
        return await self._mailbox.exchange(request, self._send)

    def send_soon(self, data: bytes) -> None:
        """Send a message that has no response."""
        if self._mailbox.ended is None:
            super().send_soon(data)

    async def aclose(self) -> None:
        """Close the stream."""
        self._mailbox.end("was closed")
        await self.peer.aclose()

    def _send(self, request: Request, future: asyncio.Future[McpReply]) -> None:
        data = request.encode()
        if self._mailbox.ended is not None:
            raise self._mailbox.make_closed_error(request)
        request.sent = True
        self.peer.start(self._send_request(data, request, future))

    async def _send_request(self, data: bytes, request: Request, future: asyncio.Future[McpReply]) -> None:
        try:
            await self._post_message(data, request.deadline)
        except CallError as error:
            known = self.version is not None and request.cancellable
            if known and status_of(error) in _GONE:
                # A proxy may keep the stream open although the server behind it no longer knows the session.
                if not future.done():
                    future.set_exception(SessionLostError())
                self._end_stream(error)
            elif not future.done():
                future.set_exception(error)

    @property
    def post_url(self) -> str:
        """The address that the server named on the stream."""
        assert self._endpoint is not None
        return self._endpoint.result()

    async def _read_stream(self) -> None:
        """Read the stream until it ends."""
        try:
            async with self._web.open("GET", self.url, _EVENTS) as answer:
                await self._take_events(answer)
            fault: CallError = Unavailable(f"the stream of {self.peer.name} has ended")
        except CallError as error:
            fault = error
        except Exception as error:  # noqa: BLE001 - a bug here must not leave all callers waiting
            _log.warning("reading the stream of %s failed unexpectedly", self.peer.name, exc_info=True)
            fault = Unavailable(f"reading the stream of {self.peer.name} failed: {type(error).__name__}")
        self._end_stream(fault)

    async def _take_events(self, answer: StreamedAnswer) -> None:
        if not answer.is_success:
            raise (await self._read_failure(answer))[0]
        if not answer.header("content-type").lower().startswith("text/event-stream"):
            raise ToolFailed(
                f"{self.peer.name} answers with no event stream", effect="none", details={"status": answer.status}
            )
        reader = EventReader(self.peer.limits.max_message_bytes)
        async with aclosing(self._read_events(answer, reader)) as pieces:
            async for events in pieces:
                for event in events:
                    self._take_event(event)

    def _take_event(self, event: ServerSentEvent) -> None:
        assert self._endpoint is not None
        if event.too_long is not None:
            self._mailbox.deliver_skipped(event.too_long)
        elif event.name == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._resolve_endpoint(event.data))
        elif event.name == "message" and event.data:
            self._mailbox.deliver(event.data)

    def _resolve_endpoint(self, data: bytes) -> str:
        """The URL for requests. It must have the same origin, or the response could send our credentials anywhere."""
        here = read_url(self.url)
        there = here.redirected(data.decode("latin-1").strip())
        if there.origin != here.origin:
            raise Denied(f"{self.peer.name} wants its requests at another origin, which is not followed")
        return there.url

    def _end_stream(self, fault: CallError) -> None:
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_exception(fault)
            return
        if self._mailbox.ended is None:
            self._mailbox.end("has ended its stream")
            self._lost(self, Unavailable(f"{self.peer.name} has ended its stream"))
