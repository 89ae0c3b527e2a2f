"""The two HTTP transports.

`StreamableWire`: every request is a POST that may be answered by a stream. `SseWire`, the old one: one stream for all
responses, and another URL for requests.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from toolyard.dialects.mcp_protocol import LISTEN, METHOD_NOT_FOUND
from toolyard.links.http.addresses import read_url
from toolyard.links.http.bodies import EventReader, ServerSentEvent
from toolyard.links.http.messages import make_timeout_error
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import (
    RequestRefused,
    SessionLostError,
    make_size_error,
    make_status_error,
    make_unreadable_error,
    mark_effect_unknown,
    status_of,
)
from toolyard.links.mcp.framing import UnreadableError
from toolyard.links.mcp.peer import McpReply, Peer
from toolyard.links.mcp.web import Renewal, Web, WebWire
from toolyard.links.mcp.wire import Lost, Mailbox, Request
from toolyard.model.errors import CallError, CallTimeout, Denied, Interrupted, ToolFailed, Unavailable

if TYPE_CHECKING:
    from toolyard.links.http.exchange import StreamedAnswer


_PING_SECONDS = 5.0
_LONGEST_ID = 1024
RESUMES = 5
"""Maximum consecutive attempts to resume a stream that yield nothing new."""


class StreamableWire(WebWire):
    """A connection without open sockets, except the stream for notifications; each request is independent."""

    accept = (("accept", "application/json, text/event-stream"), ("content-type", "application/json"))
    post_seconds = 5.0

    def __init__(self, web: Web, url: str, peer: Peer, lost: Lost) -> None:
        super().__init__(web, url, peer, lost)
        self._notifications = EventReader(peer.limits.max_message_bytes)
        self._was_open = False
        self._has_failed = False
        """Whether the stream for notifications could not be opened the last time."""
        self._is_lost = False
        """Whether the server has forgotten the session."""

    async def open(self) -> None:
        """Nothing to do: there is no connection to open."""

    async def request(self, request: Request) -> McpReply:
        """Send a request and return the response."""
        data = request.encode()
        try:
            return await self._exchange(request, data)
        except asyncio.CancelledError:
            self._cancel_request(request)
            raise
        except CallTimeout as error:
            self._cancel_request(request)
            raise make_timeout_error(self.peer.name, request.seconds, error.info.effect) from None
        except (Unavailable, SessionLostError) as error:
            raise await self._explain_loss(error, request.deadline) from None

    @property
    def has_notification_stream(self) -> bool:
        """Whether there is a session, which a stream for notifications requires."""
        return self.session is not None

    async def read_notifications(self) -> float | None:
        """Read the stream for the server's own messages until it ends."""
        reader = self._notifications
        last = reader.last_id
        headers = (*self.headers(), ("last-event-id", last)) if last else self.headers()
        try:
            async with self._web.open("GET", self.url, headers, renew="quietly") as answer:
                if not answer.is_success:
                    raise await self._explain_failure(answer)
                if not answer.header("content-type").startswith("text/event-stream"):
                    raise make_status_error(self.peer.name, HTTPStatus.METHOD_NOT_ALLOWED.value, "", self.peer.redactor)
                reader.restart()
                self._has_failed = False
                if self._was_open and not last:
                    self.peer.changed()  # notifications in between were missed
                self._was_open = True
                async with aclosing(self._read_events(answer, reader)) as pieces:
                    async for events in pieces:
                        for event in events:
                            self._take_event(event, None)
        except (Unavailable, SessionLostError) as error:
            # A server that is restarted may refuse one connection, and still know the session.
            has_failed, self._has_failed = self._has_failed, True
            if has_failed or isinstance(error, SessionLostError):
                raise await self._explain_loss(error) from None
            raise
        return reader.retry

    async def aclose(self) -> None:
        """End the session."""
        await self.peer.aclose()
        if self.session is not None:
            deadline = asyncio.get_running_loop().time() + self.peer.limits.close_seconds
            headers, self.session = self.headers(), None
            with suppress(CallError):  # the session may have ended anyway
                async with self._web.open("DELETE", self.url, headers, None, deadline, renew="never"):
                    pass

    def _end_lost_session(self, error: Unavailable | SessionLostError) -> None:
        """Report the loss if the server cannot be reached, or does not know us; there is no session left to end."""
        if isinstance(error, SessionLostError):
            error, self._is_lost = Unavailable(f"{self.peer.name} has forgotten our session"), True
        elif error.info.effect != "none" or error.info.details:
            return
        self.session = None
        self._lost(self, error)

    def _cancel_request(self, request: Request) -> None:
        """Notify the server that a request is cancelled; in the new protocol closing the stream does that."""
        if request.cancellable and request.sent and self.version is not None:
            self.send_soon(framing.encode_cancellation(request.number))

    async def _exchange(self, request: Request, data: bytes) -> McpReply:
        reader = EventReader(self.peer.limits.max_message_bytes)
        request.sent = True
        headers = self.headers() + request.headers
        renew: Renewal = "quietly" if request.method == LISTEN else "ask"
        async with self._web.open("POST", self.url, headers, data, request.deadline, renew=renew) as answer:
            self.url = answer.url  # it may have moved
            reply = await self._read_answer(answer, request, reader)
        if reply is not None:
            return reply
        try:
            return await self._resume_stream(request, reader)
        except SessionLostError as error:
            found = await self._explain_loss(error, request.deadline)
            if isinstance(found, CallError):
                raise mark_effect_unknown(found) from None
            raise Interrupted(f"{self.peer.name} has forgotten our session before it answered") from None
        except CallError as error:
            # The server has received the request, so a later error leaves its effect unknown.
            raise error if request.answered else mark_effect_unknown(error) from None

    async def _read_answer(self, answer: StreamedAnswer, request: Request, reader: EventReader) -> McpReply | None:
        """Read the response; None if it will follow on a resumed stream."""
        if not HTTPStatus.OK <= answer.status < HTTPStatus.ACCEPTED:
            raise await self._explain_failure(answer)
        if request.method == "initialize":
            told = answer.header("mcp-session-id")
            # Keep only an id that can be sent in a header.
            is_usable = told.isascii() and told.isprintable() and " " not in told and 0 < len(told) <= _LONGEST_ID
            self.session = told if is_usable else None
        kind = answer.header("content-type").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            return await self._read_reply_events(answer, request, reader)
        if kind != "application/json":
            raise ToolFailed(f"{self.peer.name} answered with {kind[:100] or 'no type'!r}, which is no MCP")
        body = await answer.read_all(self.peer.limits.max_message_bytes)
        try:
            found = framing.read_messages(body, self.peer.limits.max_depth)
        except UnreadableError:
            raise make_unreadable_error(self.peer.name) from None
        for message in found:
            # The error response to an unreadable request has no id.
            if message.is_response and (message.id == request.number or (message.id is None and message.error)):
                return self.peer.read_reply(message, len(body))
        raise ToolFailed(f"{self.peer.name} answered another request than the one it was asked")

    async def _read_reply_events(
        self, answer: StreamedAnswer, request: Request, reader: EventReader
    ) -> McpReply | None:
        try:
            async with aclosing(self._read_events(answer, reader)) as pieces:
                async for events in pieces:
                    for event in events:
                        reply = self._take_event(event, request)
                        if reply is not None:
                            return reply
                    if reader.is_over and request.method != LISTEN:
                        raise make_size_error(self.peer.name, self.peer.limits.max_message_bytes)
        except CallError as error:
            if not self._can_resume(reader) or not error.info.retryable:
                raise
        return None

    def _take_event(self, event: ServerSentEvent, request: Request | None) -> McpReply | None:
        """Handle one event of a stream; returns the reply if the event has it."""
        if event.too_long is not None:
            if request is not None and request.method != LISTEN:
                raise make_size_error(self.peer.name, self.peer.limits.max_message_bytes)
            return None
        if event.name != "message" or not event.data:
            return None
        try:
            found = framing.read_messages(event.data, self.peer.limits.max_depth)
        except UnreadableError:
            return None  # it need not have been the response
        for message in found:
            if not message.is_response:
                self.peer.receive(message, self.send_soon, None if request is None else request.notify)
            elif request is not None and message.id == request.number:
                request.answered = True
                return self.peer.read_reply(message, len(event.data))
        return None

    def _can_resume(self, reader: EventReader) -> bool:
        return self.version is not None and bool(reader.last_id)

    async def _resume_stream(self, request: Request, reader: EventReader) -> McpReply:
        """Resume the interrupted stream of a request."""
        failures = 0
        while self._can_resume(reader) and failures < RESUMES:
            failures += 1
            await self._pause_before_resume(request, reader)
            headers = (*self.headers(), ("last-event-id", reader.last_id))
            last = reader.last_id
            reader.restart()
            try:
                async with self._web.open("GET", self.url, headers, None, request.deadline) as answer:
                    if not answer.is_success:
                        raise await self._explain_failure(answer)
                    reply = await self._read_reply_events(answer, request, reader)
            except Unavailable:
                continue  # the server may be back soon
            if reply is not None:
                return reply
            if reader.last_id != last:
                failures = 0
        raise ToolFailed(f"the stream of {self.peer.name} ended before the answer came", effect="unknown")

    async def _pause_before_resume(self, request: Request, reader: EventReader) -> None:
        seconds = 1.0 if reader.retry is None else reader.retry
        if request.deadline is not None:
            left = request.deadline - asyncio.get_running_loop().time()
            if left <= seconds:
                await asyncio.sleep(max(left, 0.0))
                raise make_timeout_error(self.peer.name, request.seconds)
        await asyncio.sleep(seconds)

    async def _explain_failure(self, answer: StreamedAnswer) -> CallError | SessionLostError:
        if answer.status == HTTPStatus.ACCEPTED:
            return ToolFailed(f"{self.peer.name} took the request and gave no answer to it")
        if answer.is_success:
            return make_status_error(self.peer.name, answer.status, "", self.peer.redactor)
        error, code = await self._read_failure(answer)
        # Requests that were sent together learn of the loss one after another.
        if self._is_lost or (self.session is not None and self.version is not None):
            if answer.status == HTTPStatus.NOT_FOUND:
                return SessionLostError()
            # Servers differ in how they say 400 of an unknown session, so a ping decides.
            if answer.status == HTTPStatus.BAD_REQUEST and code != METHOD_NOT_FOUND:
                return SessionLostError(error)
        return error

    async def _explain_loss(
        self, error: Unavailable | SessionLostError, deadline: float | None = None
    ) -> CallError | SessionLostError:
        """The error to raise: the server's own if it still knows the session; otherwise the loss is reported."""
        fault = error.fault if isinstance(error, SessionLostError) else None
        if fault is not None and not self._is_lost and await self._is_session_known(deadline):
            return fault
        self._end_lost_session(error)
        return error

    async def _is_session_known(self, request_deadline: float | None) -> bool:
        """Ping to find out whether the session is valid, although a response may mean the opposite."""
        deadline = asyncio.get_running_loop().time() + _PING_SECONDS
        if request_deadline is not None:
            deadline = min(deadline, request_deadline)
        ping = Request(self.peer.next_number(), "ping", None, deadline, cancellable=False)
        try:
            await self._exchange(ping, ping.encode())
        except SessionLostError:
            return False
        except CallError as error:
            # No response does not show that it is invalid, and ending it would fail other calls.
            return isinstance(error, RequestRefused | CallTimeout | Unavailable)
        return True


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
