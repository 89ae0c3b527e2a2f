"""`DeadlineProtocol`: uvicorn's HTTP/1.1 protocol, with timeouts for clients that send or read slowly, and with
toolyard's error envelope for requests that never reach the application.

It relies on internals of uvicorn's `HttpToolsProtocol`: the parser callbacks, `cycle` (`message_event`,
`disconnected`, `response_started`, `response_complete`, `keep_alive`), `pipeline` and `flow`. That is why the version
of uvicorn is pinned; tests exercise each of them over real sockets.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.middleware import find_request_id, safe_headers
from toolyard.serving.routing import JSON

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from toolyard.app.blocks import ServerBlock

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
MAX_PIPELINED = 100
Stage = Literal["idle", "head", "body", "whole"]
"""How far the current request has arrived: nothing; part of the head; the head, but not all of the body; all of it."""
_FRAMING = 16
"""Bytes of chunked framing allowed per byte of content, on top of twice `MAX_HEAD_BYTES`."""
_LEAST_RATE = 16 * 1024
"""Minimum rate of a body in bytes per second: it may take `body_timeout`, and its size divided by this."""
_UNWANTED_BYTES = 1024 * 1024
"""How much of a body is read and discarded after an early response, to keep the connection."""
_LINGER_SECONDS = 2.0
_AUTHORITY_END = re.compile(rb"[/?#]")
_HOP = frozenset({b"connection", b"upgrade"})


class ConnectionLimit:
    """Limits connections. At the limit, a new one replaces the one that has been longest without a complete request."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open: set[DeadlineProtocol] = set()
        self.waiting: dict[DeadlineProtocol, None] = {}
        """Connections without a complete request since they opened or since their last response, longest first."""

    def admit(self, newcomer: DeadlineProtocol) -> bool:
        """Add a connection. At the limit, abort the one waiting longest; False if all are being served."""
        if len(self.open) >= self.most:
            longest = next(iter(self.waiting), None)
            if longest is None:
                return False
            self.forget(longest)
            longest.transport.abort()
        self.open.add(newcomer)
        self.waiting[newcomer] = None
        return True

    def forget(self, connection: DeadlineProtocol) -> None:
        """Remove a connection that is closed or about to be aborted."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)


class _NoTrailers(list[Any]):
    """Discards trailers, which uvicorn would append to the headers."""

    def append(self, item: Any) -> None:
        """Discard the item."""


class DeadlineProtocol(HttpToolsProtocol):
    """One HTTP/1.1 connection, with limits and timeouts."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        block: ServerBlock,
        limit: ConnectionLimit,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._block = block
        self._limit = limit
        self._stage: Stage = "idle"
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._raw_bytes = self._body_bytes = 0
        """Bytes received of the current head or body, including framing; and bytes of body content."""
        self._body_began = 0.0
        self._ignores_input = False
        """True once further input is ignored."""
        self._fault: HttpFault | None = None
        self._refusal = b""
        """The error response to send once all earlier requests are answered; empty if there is none."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection; answer 503 if there are too many."""
        super().connection_made(transport)
        if self._limit.admit(self):
            self._set_read_timer(self._block.header_timeout, self._expire_head)
        else:
            self._refuse(HttpFault(503, "server.overloaded", "all connections are in use; try again", retryable=True))

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection and cancel its timers."""
        self._limit.forget(self)
        self._set_read_timer(None)
        self._set_write_timer(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, then set the timer for what is still missing."""
        if self._ignores_input:
            return
        self._unset_keepalive_if_required()
        self._raw_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Upgrades are not supported: ignore what follows the head.
            self._ignores_input = True
        except httptools.HttpParserError as error:
            self._refuse(self._fault or _make_invalid_http(error))
            return
        if self._stage == "whole":
            self._set_read_timer(None)
            self._limit.waiting.pop(self, None)
            if self.cycle.response_complete:
                # The request was answered before all of it had arrived.
                self._limit.waiting[self] = None
                keep_alive = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
                self.timeout_keep_alive_task = keep_alive
        elif self._stage == "head":
            if self._read_timer is None:
                self._set_read_timer(self._block.header_timeout, self._expire_head)
            if self._raw_bytes > MAX_HEAD_BYTES:
                self._refuse(_make_large_head())
        elif self._stage == "body":
            self._await_body()

    def on_message_begin(self) -> None:
        """Called by the parser at the beginning of a request."""
        super().on_message_begin()
        self._stage = "head"

    def on_headers_complete(self) -> None:
        """Called by the parser after the head: check its size, and start the application."""
        if len(self.headers) > MAX_HEADERS or (self._raw_bytes > MAX_HEAD_BYTES and self._head_size() > MAX_HEAD_BYTES):
            self._stop(_make_large_head())
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop(_make_invalid_http(f"more than {MAX_PIPELINED} pipelined requests"))
        if not self.url.startswith(b"/"):
            self._read_authority()
        upgrade = self.parser.should_upgrade()
        if upgrade:
            self._ignore_upgrade(self.parser.get_method())
        super().on_headers_complete()
        if upgrade:
            self.cycle.keep_alive = False
        self.headers = _NoTrailers()
        self._stage = "body"
        self._raw_bytes = self._body_bytes = 0
        self._set_read_timer(None)

    def on_body(self, body: bytes) -> None:
        """Called by the parser for each part of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of the request."""
        self._stage = "whole"
        self._raw_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called after a response was written: send a pending refusal, or go on to the next request."""
        if self._refusal and not self.pipeline:
            self._close_gracefully(self._refusal)
            return
        if self._stage == "body" and self.expect_100_continue and not self.pipeline:
            # The client may now send the body it announced with `Expect: 100-continue`, or its next request: ambiguous.
            self._close_gracefully()
            return
        super().on_response_complete()
        if self._stage == "whole" and self.timeout_keep_alive_task is not None:
            self._limit.waiting[self] = None

    def _read_authority(self) -> None:
        """Replace the Host header by the host of an absolute request target, as RFC 9112, 3.2.2 requires."""
        scheme, _, rest = self.url.partition(b"://")
        authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
        if scheme.lower() not in (b"http", b"https") or b"@" in authority:
            self._stop(_make_invalid_http("its target is neither a path nor an address with a host alone"))
        self.headers[:] = [(name, authority if name == b"host" else value) for name, value in self.headers]

    def _should_upgrade(self) -> bool:
        return False

    def _ignore_upgrade(self, method: bytes) -> None:
        """Serve a request with an `Upgrade` header without the upgrade, as the last one of the connection.

        The parser stops after the head, since what follows would be in the other protocol. So a body could be taken for
        the next request (request smuggling): a request that has one is refused.
        """
        if method == b"CONNECT":
            self._stop(_make_invalid_http("its target is not a path"))
        for name, value in self.headers:
            if name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0"):
                self._stop(_make_invalid_http("a request that asks for another protocol may not have a body"))
        self.headers[:] = [header for header in self.headers if header[0] not in _HOP]

    def _stop(self, fault: HttpFault) -> None:
        self._fault = fault
        raise fault

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _await_body(self) -> None:
        if self._read_timer is None:
            self._body_began = self.loop.time()
            self._set_read_timer(self._block.body_timeout, self._expire_body)
        if self._raw_bytes > 2 * MAX_HEAD_BYTES + _FRAMING * self._body_bytes:
            what = "the body is framed in pieces that are too small, or its trailers are too large"
            self._refuse(_make_invalid_http(what))
        elif self.cycle.response_complete and self._raw_bytes > _UNWANTED_BYTES:
            self._close_gracefully()

    def _expire_head(self) -> None:
        if self._stage == "head":
            self._refuse(_make_timeout("the head of the request", self._block.header_timeout))
        else:
            self.transport.close()

    def _expire_body(self) -> None:
        earned = self._block.body_timeout + self._body_bytes / _LEAST_RATE
        left = self._body_began + earned - self.loop.time()
        if self.flow.read_paused:
            # Reading is paused on this side, so the client is not late.
            self._set_read_timer(self._block.body_timeout, self._expire_body)
        elif left > 0:
            self._set_read_timer(left, self._expire_body)
        elif self.cycle.response_complete:
            self._close_gracefully()
        else:
            self._refuse(_make_timeout("the body of the request", self._block.body_timeout))

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort it if the client has not read the last response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def pause_writing(self) -> None:
        """Start the write timeout: the client reads more slowly than responses are written."""
        super().pause_writing()
        self._set_write_timer(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Cancel the write timeout: the client has caught up."""
        super().resume_writing()
        self._set_write_timer(None)

    def _expire_write(self, before: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent == before:
            self.transport.abort()
        else:
            self._set_write_timer(unsent)

    def _set_read_timer(self, seconds: float | None, expire: Callable[[], None] | None = None) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._read_timer = None if seconds is None or expire is None else self.loop.call_later(seconds, expire)

    def _set_write_timer(self, unsent: int | None) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
        seconds = self._block.idle_timeout
        self._write_timer = None if unsent is None else self.loop.call_later(seconds, self._expire_write, unsent)

    def _refuse(self, fault: HttpFault) -> None:
        """Send an error response in place of the application's, after those of earlier requests, and close."""
        self._ignores_input = True
        self._set_read_timer(None)
        refusal, cycle = self._write_refusal(fault), self.cycle
        if self._stage == "body" and not self.pipeline:
            # The application waits for a body that will never be complete; tell it that the client has disconnected.
            cycle.disconnected = True
            cycle.message_event.set()
            self._close_gracefully(b"" if cycle.response_started else refusal)
            return
        if self._stage == "body":
            # The invalid request is the last of the pipeline, and the application has not seen it.
            self.pipeline.popleft()
        elif cycle is None or (cycle.response_complete and not self.pipeline):
            self._close_gracefully(refusal)
            return
        self._refusal = refusal

    def _close_gracefully(self, last: bytes = b"") -> None:
        """Write `last`, close for writing, and discard input for `_LINGER_SECONDS`.

        Closing a socket with unread input resets the connection, and the client might lose the response.
        """
        self._ignores_input = True
        self._limit.waiting[self] = None
        self.transport.write(last)
        try:
            self.transport.write_eof()
            self.flow.resume_reading()
            self._set_read_timer(_LINGER_SECONDS, self.transport.abort)
        except (OSError, NotImplementedError):
            # The connection is gone, or cannot be half closed (TLS).
            self.transport.close()

    def _write_refusal(self, fault: HttpFault) -> bytes:
        # The request id is known only if the head is complete.
        request_id = find_request_id(dict(self.scope["headers"]) if self._stage == "body" else {})
        body = msgspec.json.encode(fault.to_envelope())
        headers = [
            *self.server_state.default_headers,
            *fault.headers,
            *safe_headers(fault.headers),
            (b"content-type", JSON.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode()),
            (b"connection", b"close"),
        ]
        return STATUS_LINE[fault.status] + b"".join(b"%s: %s\r\n" % header for header in headers) + b"\r\n" + body


def _make_invalid_http(why: object) -> HttpFault:
    """Return the 400 for input that is not HTTP/1.1, or is ambiguous."""
    if isinstance(why, httptools.HttpParserCallbackError):
        why = "its target is not a path"
    return HttpFault(400, "request.invalid_http", f"this HTTP/1.1 request is invalid: {why}")


def _make_timeout(what: str, seconds: float) -> HttpFault:
    message = f"{what} did not arrive in time"
    return HttpFault(408, "request.timeout", message, retryable=True, details={"timeout": seconds})


def _make_large_head() -> HttpFault:
    """Return the 431 for too many headers or too large a head."""
    return HttpFault(
        431,
        "request.headers_too_large",
        f"the head of a request may have {MAX_HEADERS} headers and {MAX_HEAD_BYTES:,} bytes",
        details={"max_headers": MAX_HEADERS, "max_bytes": MAX_HEAD_BYTES},
    )
