"""`Protocol`: uvicorn's HTTP/1.1 with deadlines, limits and answers of our own where it has none.

Of uvicorn's `HttpToolsProtocol` it leans on the parser's callbacks, `cycle` (`transport`, `message_event`,
`disconnected`, `response_started`, `response_complete`), `pipeline`, `flow` and `_start_asgi_task`. The version is
pinned for their sake, and tests speak to each of them over real sockets.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from toolyard.serving.ending import LINGER_SECONDS, Ending
from toolyard.serving.faults import HttpFault
from toolyard.serving.lanes import NEWCOMERS
from toolyard.serving.line import NO_TRAILERS, Line
from toolyard.serving.refusals import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PIPELINED, invalid, large_head, late
from toolyard.serving.request import Scope

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from toolyard.serving.connections import Connections

SLOW_DOWN = "toolyard.slow_down"
"""Among a scope's extensions: a function that rests the connection, for so many seconds, after this answer."""

ANSWER = "toolyard.answer"
"""Among a scope's extensions: a function that writes a whole answer at once, for an app that has it whole."""

HEAR = "toolyard.hear"
"""Among a scope's extensions: a function that takes who is told when the client is gone or the server stops."""

BELONG = "toolyard.belong"
"""Among a scope's extensions: a function that is told whose key the request has shown."""

Fate = Literal["gone", "stopping"]
Told = Callable[[Fate], None]

_ASGI = {"version": "3.0", "spec_version": "2.3"}
_LEAST_RATE = 16 * 1024
"""Bytes a second at which a body earns time beyond its deadline."""
_UNWANTED_BYTES = 1024 * 1024
"""What is read of a body that was answered before it came, to keep the connection."""
_READ_BYTES = 64 * 1024
"""What is read of a connection before others are looked at."""
_FRAMING = 16
"""Bytes that a chunked body may spend on each of its own."""


class Protocol(Ending):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        shared: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, shared)
        self._extensions = {SLOW_DOWN: self.slow_down, ANSWER: self.answer, HEAR: self.hear, BELONG: self.belong}
        self._told: Told | None = None
        self._fd = -1
        self._lane: str | None = None
        self._fate: Fate | None = None
        self._large = False
        self._head_bytes = 0
        self._timed = False
        self._began = 0.0
        self._body_bytes = 0
        self._unsent = -1
        self._pause = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A newcomer, for whom the longest idle connection may have to go."""
        super().connection_made(transport)
        self._line = Line(transport, self._close)
        cast(Any, transport).max_size = _READ_BYTES
        self._fd = transport.get_extra_info("socket").fileno()
        self.belong(NEWCOMERS)
        if self.shared.admit(self):
            self.deadline = self.loop.time() + self.shared.header_timeout
            return
        fault = HttpFault(503, "server.overloaded", "all connections are in use; try again", retryable=True)
        transport.write(self._answer(fault))
        self.stage = "leaving"
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave nothing of it behind."""
        self.shared.forget(self)
        if self.shared.lanes is not None:
            self.shared.lanes.forget(self._fd)
            self._fd = -1
        super().connection_lost(exc)
        self._fate = "gone"
        self._tell()
        self._told = None
        # They refer to this object, which would otherwise have to wait for the collector.
        self._extensions = {}
        del self._line
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle = self.scope = cast(Any, None)

    def data_received(self, data: bytes) -> None:
        """Parse what came, then see what the connection waits for."""
        if self.deaf or self.stage == "leaving" or self.stage == "refused":
            self._ignore(len(data))
            return
        self._large = self._head_bytes + len(data) > MAX_HEAD_BYTES
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # What follows is in no language that is spoken here, whatever it looks like.
            self.deaf = True
            self._raw_bytes = 0
        except httptools.HttpParserError as error:
            self._refuse(self._fault or invalid(error))
            return
        stage = self.stage
        if stage == "whole":
            if self.cycle.response_complete:
                self._rest()
            elif self.deadline != math.inf:
                self.deadline = math.inf
                self.shared.waiting.pop(self, None)
                self.shared.reading.pop(self, None)
        elif stage == "body":
            self._body_goes_on(len(data))
        elif stage == "head":
            self._head_goes_on(len(data))

    def on_message_begin(self) -> None:
        """A request begins."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        scope: Any = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            "state": self.app_state,
            "extensions": self._extensions,
        }
        self.scope = scope
        self.stage = "head"
        self._timed = False

    def on_headers_complete(self) -> None:
        """Its head is whole, and small enough."""
        if len(self.headers) > MAX_HEADERS or (self._large and self._head_size() > MAX_HEAD_BYTES):
            self._stop(large_head())
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop(invalid(f"more than {MAX_PIPELINED} requests ahead of their answers"))
        upgrade = self.parser.should_upgrade()
        if upgrade:
            self._plain(self.parser.get_method())
        HttpToolsProtocol.on_headers_complete(self)
        cycle = self.cycle
        cycle.transport = self._line
        if upgrade:
            cycle.keep_alive = False
        self.headers = NO_TRAILERS
        self.stage = "body"
        self._timed = False
        self._head_bytes = self._body_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        cycle = self.cycle
        self._body_bytes += len(body)
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        """All of it."""
        self.stage = "whole"
        cycle = self.cycle
        cycle.more_body = False
        cycle.message_event.set()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if self._lane:
            # It was read in its turn already.
            self._begin_task(cycle, app)
        else:
            self._start_in_turn(cycle, app)

    def _start_in_turn(self, cycle: Any, app: Any) -> None:
        turns = self.shared.turns
        if turns.needed:
            turns.take(self.loop, cycle.scope["headers"], partial(self._begin_task, cycle, app))
        else:
            self._begin_task(cycle, app)

    def _begin_task(self, cycle: Any, app: Any) -> None:
        self.tasks.add(self.loop.create_task(self._answered(cycle, app)))

    async def _answered(self, cycle: Any, app: Any) -> None:
        try:
            await cycle.run_asgi(app)
        finally:
            # From inside: a callback of the task would cost another pass of the loop.
            self.tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _head_goes_on(self, size: int) -> None:
        if not self._timed:
            self._timed = True
            # On a new connection the time runs since it was made.
            newly = self.cycle is None
            until = self.loop.time() + self.shared.header_timeout
            self.deadline = min(self.deadline, until) if newly else until
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(large_head())

    def _body_goes_on(self, size: int) -> None:
        if not self._timed:
            self._timed = True
            self._began = self.loop.time()
            self.deadline = self._began + self.shared.body_timeout
            self._raw_bytes = 0
            self.shared.waiting.pop(self, None)
            self.shared.reading[self] = None
        self._raw_bytes += size
        if self._raw_bytes > 2 * MAX_HEAD_BYTES + _FRAMING * self._body_bytes:
            self._refuse(invalid("the body is framed in pieces that are too small, or its trailers are too large"))
        elif self.cycle.response_complete and self._raw_bytes > _UNWANTED_BYTES:
            self._leave()

    def on_response_complete(self) -> None:
        """An answer was written; go on to what waits for it."""
        self.server_state.total_requests += 1
        self._line.flush()
        if self.transport.is_closing():
            self.stage = "leaving"
            self.deadline = self.loop.time() + self.shared.idle_timeout
        elif self._pause:
            self.flow.pause_reading()
            self.shared.rests.add(self.loop, self._pause, self._wake_up)
            self._pause = 0.0
            self.shared.waiting[self] = None  # As good as idle, if somebody else needs its place.
        else:
            self._go_on()

    def _wake_up(self) -> bool:
        if self.transport.is_closing():
            return False
        self._go_on()
        return True

    def _go_on(self) -> None:
        if self.stage == "leaving" or self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self.shared.waiting.pop(self, None)
            cycle, app = self.pipeline.pop()
            self._start_in_turn(cycle, app)
        elif self.stage == "whole":
            self._rest()
        elif self.stage == "refused":
            self._end(self._refusal)
        elif self.stage == "body":
            if self.expect_100_continue:
                # Whoever asked first whether to send may now send the body or not; nobody could tell.
                self._leave()
                return
            self._raw_bytes = self._body_bytes = 0
            self.deadline = min(self.deadline, self.loop.time() + LINGER_SECONDS)

    def answer(self, scope: Scope, head: bytes, body: bytes) -> bool:
        """Write an answer whose head is whole but for the last line; False if it has to take the way of ASGI.

        That way goes twice through the loop's machinery and looks at every header of every answer.
        """
        cycle = self.cycle
        if cycle.scope is not scope or cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        lines = [head, *(b"%b: %b\r\n" % header for header in self.server_state.default_headers)]
        lines.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if scope["method"] != "HEAD":
            lines.append(body)
        self.transport.write(b"".join(lines))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True

    def hear(self, told: Told | None) -> bool:
        """Have somebody told, until they ask not to be, what becomes of the connection; False if it is gone.

        Whoever begins to listen too late is told soon, as if it had happened then.
        """
        self._told = told
        if told is not None and self._fate is not None:
            self.loop.call_soon(self._tell)
        return self._fate != "gone"

    def belong(self, name: str) -> None:
        """Listen to the connection, as long as it is there, in turn with all others of that name."""
        if name != self._lane and self.shared.lanes is not None and self._fd != -1:
            self._lane = self.shared.lanes.assign(self._fd, name)

    def _tell(self) -> None:
        if self._told is not None and self._fate is not None:
            self._told(self._fate)

    def shutdown(self) -> None:
        """The server stops once what runs has ended."""
        self._fate = self._fate or "stopping"
        self._tell()
        super().shutdown()

    def slow_down(self, seconds: float) -> bool:
        """Rest after the answer that is being made. True if the connection ends with it: then the answer must wait."""
        self._pause = max(self._pause, seconds)
        if not self.cycle.keep_alive:
            self.shared.waiting[self] = None
        return not self.cycle.keep_alive

    def pause_writing(self) -> None:
        """The other side does not read as fast as it is written to; it gets a deadline."""
        super().pause_writing()
        self._unsent = -1
        self.deadline = min(self.deadline, self.loop.time() + self.shared.idle_timeout)

    def resume_writing(self) -> None:
        """It has read on."""
        super().resume_writing()
        if self.stage == "whole" or self.stage == "refused":
            self.deadline = math.inf

    def expire(self, now: float) -> None:
        """The deadline has passed: of whatever the connection waits for."""
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            if unsent == self._unsent:
                self.transport.abort()
            self._unsent = unsent
            self.deadline = now + self.shared.idle_timeout
        elif self.stage == "idle":
            self.transport.close()
        elif self.stage == "leaving":
            self.transport.abort()
        elif self.stage == "whole" or self.stage == "refused":
            self.deadline = math.inf
        elif self.flow.read_paused:
            # It is not the other side that keeps us waiting.
            self._began = now
            self.deadline = now + self.shared.body_timeout
        elif self.stage == "head":
            self._refuse(late("the head of the request did not arrive in time", self.shared.header_timeout))
        else:
            self._hurry_body(now)

    def _hurry_body(self, now: float) -> None:
        earned = self._body_bytes / _LEAST_RATE
        if self.cycle.response_complete:
            self._leave()
        elif self._began + self.shared.body_timeout + earned > now:
            self.deadline = self._began + self.shared.body_timeout + earned
        else:
            self._refuse(late("the body of the request did not arrive in time", self.shared.body_timeout))

    def _rest(self) -> None:
        self.stage = "idle"
        self._unsent = -1
        self.deadline = self.loop.time() + self.shared.idle_timeout
        self.shared.reading.pop(self, None)
        self.shared.waiting[self] = None
