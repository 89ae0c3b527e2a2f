"""`Ending`: how a connection comes to its end: by a refusal, by the last answer, or with input that nobody wants."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Literal, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolyard.serving.faults import HttpFault
from toolyard.serving.line import Line
from toolyard.serving.refusals import invalid, refusal
from toolyard.serving.request import Scope

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from toolyard.serving.connections import Connections

Stage = Literal["idle", "head", "body", "whole", "refused", "leaving"]
"""Nothing asked; a head begun; a body begun; a request that is all there; one that will be refused once earlier ones
are answered; an end that waits for the other side."""

LINGER_SECONDS = 2.0
_LINGER_BYTES = 64 * 1024 * 1024
_HOP = frozenset({b"connection", b"upgrade"})
_NO_BODY = b"0"


class Ending(HttpToolsProtocol):
    """The part of a `Protocol` that refuses and leaves."""

    _line: Line

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None,
        shared: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self.shared = shared
        self.stage: Stage = "idle"
        self.deadline = math.inf
        """When the sweeper looks after this connection."""
        self.deaf = False
        """True after a request whose sender means to go on in another protocol: nothing more is read as HTTP."""
        self._raw_bytes = 0
        self._fault: HttpFault | None = None
        self._refusal = b""

    def expire(self, now: float) -> None:
        """The deadline has passed: of whatever the connection waits for."""
        self.transport.abort()

    def _stop(self, fault: HttpFault) -> None:
        self._fault = fault
        raise fault

    def _plain(self, method: bytes) -> None:
        """Serve a request that asks for another protocol as if it had not asked, and as the last one.

        The parser takes what follows its head for that other protocol, a body too; and what may be the body to one
        side and the next request to the other must be neither.
        """
        if method == b"CONNECT":
            self._stop(invalid("its target is not a path"))
        for name, value in self.headers:
            if name == b"transfer-encoding" or (name == b"content-length" and value.strip() != _NO_BODY):
                self._stop(invalid("a request that asks for another protocol may not have a body"))
        self.headers[:] = [header for header in self.headers if header[0] not in _HOP]
        # uvicorn says so in its answer, too, only if it finds this here.
        self.headers.append((b"connection", b"close"))

    def _refuse(self, fault: HttpFault) -> None:
        """Answer instead of the app, in its turn, and end."""
        self.shared.refused[fault.status] += 1
        answer = self._answer(fault)
        if self.stage == "body" and not self.pipeline:
            self._cut_short(answer)
            return
        if self.stage == "body":
            # The broken request is the last in line, and not begun.
            self.pipeline.popleft()
        elif self.cycle is None or self.cycle.response_complete:
            self._end(answer)
            return
        self.stage = "refused"
        self._refusal = answer
        self._raw_bytes = 0
        self.deadline = math.inf
        self.shared.waiting.pop(self, None)
        self.flow.pause_reading()

    def _cut_short(self, answer: bytes) -> None:
        """The app waits for a body that will never be whole."""
        cycle = self.cycle
        # Both before anything is written: what the app still sends goes nowhere.
        cycle.disconnected = True
        cycle.message_event.set()
        if cycle.response_started:
            self._leave()
        else:
            self._end(answer)

    def _end(self, answer: bytes) -> None:
        self.transport.write(answer)
        self._leave()

    def _close(self) -> None:
        """An answer is complete that ends the connection, maybe before its request is."""
        if (self.stage == "body" or self.deaf) and not self.transport.is_closing():
            self._leave()
        else:
            self.transport.close()

    def _leave(self) -> None:
        """Close for writing, and read on for a moment.

        To close with input unread resets the connection, and the answer may be lost before it is read.
        """
        self._line.flush()
        self.stage = "leaving"
        self._raw_bytes = 0
        self.deadline = self.loop.time() + LINGER_SECONDS
        self.shared.reading.pop(self, None)
        self.shared.waiting[self] = None
        try:
            self.transport.write_eof()
            self.flow.resume_reading()
        except (OSError, NotImplementedError):
            # It is gone, or (with TLS) cannot be half closed.
            self.transport.close()

    def _ignore(self, size: int) -> None:
        self._raw_bytes += size
        if self._raw_bytes > _LINGER_BYTES:
            self.transport.abort()

    def _answer(self, fault: HttpFault) -> bytes:
        # Only a head that is whole can say which id the answer is to have.
        scope = cast(Scope, self.scope) if self.stage == "body" else None
        return refusal(fault, scope, self.server_state.default_headers)
