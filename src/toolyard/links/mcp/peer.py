"""`Peer`: the parts of a connection that do not depend on the transport.

`LinkLimits` bound what a server may cost, `Handlers` answer its requests. `Mailbox` assigns responses to requests if
all of them arrive on one stream.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import msgspec

from toolyard.dialects.mcp_protocol import DECLINED, INTERNAL_ERROR, LEVELS, LIST_CHANGED, LISTEN, METHOD_NOT_FOUND
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import SessionLostError, late, refused, too_large, unreadable
from toolyard.links.mcp.framing import Id, JsonRpcMessage, UnreadableError
from toolyard.loop.home import home_loop
from toolyard.loop.pacing import TokenBucket
from toolyard.loop.threads import Threads, await_future
from toolyard.model.call import LogLine, Notify, Progress
from toolyard.model.errors import CallError, CallTimeout, Denied, Interrupted, Unavailable
from toolyard.parsing.lines import SkippedLine
from toolyard.words.redactor import Redactor, echoes_of

Handler = Callable[[dict[str, Any]], Any]
"""Takes the params of a request and returns its result or an awaitable. Sync handlers run in a thread."""


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a link. The defaults apply unless the operator sets others."""

    connect_seconds: float = 10.0
    """Total time for starting or reaching the server and for the handshake."""
    max_message_bytes: int = 16 * 1024 * 1024
    max_depth: int = 200
    """Maximum nesting of lists and objects in a message."""
    max_pages: int = 1000
    max_tools: int = 100_000
    max_list_bytes: int = 256 * 1024 * 1024
    """Total bytes of the pages of one listing."""
    max_pending: int = 1000
    """Concurrent requests to the server."""
    max_requests: int = 16
    """Concurrent requests of the server."""
    max_rounds: int = 10
    """Maximum number of times that one call may request input."""
    max_connections: int = 200
    """Maximum sockets to one HTTP server."""
    stderr_bytes: int = 4096
    """Bytes kept of the end of a process's stderr, for error messages."""
    close_seconds: float = 2.0
    """Time limit of each step of ending a process."""
    silence_seconds: float = 5.0
    """After a call timed out, a process that writes nothing for so long, and for as long as the call had, is ended."""
    backoff_seconds: float = 0.25
    max_backoff_seconds: float = 30.0
    healthy_seconds: float = 60.0
    """After so many seconds of connection, earlier failures are forgotten."""


_ASKED = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""Requests that a server may send, with the names of their capabilities and handlers."""


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """The handlers of server requests; a capability without a handler is not offered, and its requests are rejected."""

    sampling: Handler | None = None
    elicitation: Handler | None = None
    roots: Handler | None = None

    def capabilities(self) -> dict[str, Any]:
        """The client's capabilities in the handshake."""
        return {name: {} for name in _ASKED.values() if getattr(self, name) is not None}

    def of(self, method: str) -> Handler | None:
        """The handler for a request method of the server; None if there is none."""
        name = _ASKED.get(method)
        return None if name is None else getattr(self, name)


HANDLERS = Threads(64, "toolyard-mcp-handler")
"""Threads for handlers, which may wait minutes for a user or a model."""


RATE = 10_000
"""Maximum messages per second that are not responses."""


_log = logging.getLogger("toolyard.mcp")
_SHOWN = 2000
_BETWEEN_CHANGES = 0.1
"""Minimum seconds between two notifications of changed tools."""

Lost = Callable[[CallError], None]
"""Told once when a server no longer exists."""

Answer = Callable[[bytes], None]
"""Sends the response to a request of the server; must not block."""


class McpReply(msgspec.Struct, frozen=True):
    """The server's response to one request."""

    result: Any
    size: int
    """Bytes of the message."""


class Request(msgspec.Struct):
    """One request to the server."""

    number: int
    method: str
    params: dict[str, Any] | None
    deadline: float | None = None
    """In the loop's time, which is that of `time.monotonic`."""
    notify: Notify | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cancellable: bool = True
    sent: bool = False
    """Whether any part of it may have been sent."""
    answered: bool = False
    """Whether the server has responded to it."""
    seconds: float | None = None
    """Total time for the request, computed from the deadline."""

    def __post_init__(self) -> None:
        """Compute the total time, which starts now."""
        if self.deadline is not None:
            self.seconds = self.deadline - time.monotonic()

    def encoded(self) -> bytes:
        """The encoded message."""
        return framing.request(self.number, self.method, self.params)


class McpWire(Protocol):
    """A transport to a server: a process or a URL. Errors are `CallError`s."""

    async def open(self) -> None:
        """Start or reach the server."""

    async def request(self, request: Request) -> McpReply:
        """Send a request and return the response. If it is cancelled or times out, the server is notified."""

    def has_read(self) -> bool:
        """False if the server has certainly not read everything that it was sent, so it is still starting."""
        return True

    def tell(self, data: bytes) -> None:
        """Send a notification or a response in the background, without reporting whether it arrives."""

    async def post(self, data: bytes, version: str) -> None:
        """Send the notification that ends a handshake, and use that version from now on."""

    def listen(self) -> None:
        """Start receiving the server's own messages, if that takes more than a connection."""

    async def aclose(self) -> None:
        """Close the connection to the server."""


class Peer:
    """Numbers requests, answers requests of the server, and dispatches its notifications."""

    def __init__(
        self,
        name: str,
        handlers: Handlers,
        limits: LinkLimits,
        find_redactor: Callable[[], Redactor],
        list_credentials: Callable[[], tuple[str, ...]],
    ) -> None:
        self.name = name
        self.handlers = handlers
        self.limits = limits
        self._find_redactor = find_redactor
        self._list_credentials = list_credentials
        self.calls: dict[int, Notify | None] = {}
        """Tool calls in flight, by progress token."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the server reports that its tools changed."""
        self._pace = TokenBucket(RATE, RATE, time.monotonic())
        self._number = 0
        self._change: asyncio.TimerHandle | None = None
        self._changed_at = -_BETWEEN_CHANGES
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def redactor(self) -> Redactor:
        """Redacts the current secrets from texts, since tokens change."""
        return self._find_redactor()

    def number(self) -> int:
        """The number of the next request."""
        self._number += 1
        return self._number

    def receive(self, message: JsonRpcMessage, answer: Answer, notify: Notify | None = None) -> None:
        """Handle a message that is not a response; `notify` is that of the call on whose stream it arrived."""
        self._pace.take(1, time.monotonic())
        method = message.method
        try:
            if not isinstance(method, str):
                return
            if message.id is msgspec.UNSET:
                self._take_notification(method, message.fields, notify)
            else:
                self._take_request(method, message.fields, message.id, answer)
        except Exception:  # noqa: BLE001 - one unexpected message must not end the connection
            _log.warning("a message of %s could not be taken", self.name, exc_info=True)

    def pause(self) -> float:
        """Seconds to pause reading from a server that exceeds the message rate; usually 0."""
        return self._pace.seconds_until(0, time.monotonic())

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task that ends with the connection."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Cancel the background tasks."""
        if self._change is not None:
            self._change.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def fulfil(self, handler: Handler, params: dict[str, Any]) -> Any:
        """Run a handler. As user code, it runs on the home loop or in a thread, so that it cannot block this loop."""
        params = echoes_of(self._list_credentials()).hide(params)
        if inspect.iscoroutinefunction(handler):
            return await home_loop.arun(handler(params))
        future = HANDLERS.submit(partial(handler, params))
        try:
            result = await await_future(future)
        except asyncio.CancelledError:
            HANDLERS.give_up(future)
            raise
        return await home_loop.arun(_await_result(result)) if inspect.isawaitable(result) else result

    def _take_notification(self, method: str, params: dict[str, Any], notify: Notify | None) -> None:
        if method == "notifications/progress":
            self._tell_progress(params)
        elif method == "notifications/message":
            self._tell_log_line(params, notify)
        elif method == LIST_CHANGED:
            self._has_changed()

    def _has_changed(self) -> None:
        """Report a change at once, or delayed and combined if the last one was recent."""
        if self._change is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._changed_at + _BETWEEN_CHANGES - loop.time()
        if wait > 0:
            self._change = loop.call_later(wait, self._say_changed)
        else:
            self._say_changed()

    def _say_changed(self) -> None:
        self._change = None
        self._changed_at = asyncio.get_running_loop().time()
        self.changed()

    def _tell_progress(self, params: dict[str, Any]) -> None:
        token = params.get("progressToken")
        notify = self.calls.get(token) if isinstance(token, int) else None
        progress, total, message = _number(params.get("progress")), _number(params.get("total")), params.get("message")
        if notify is None or progress is None:
            return
        text = self.redactor.text(message)[:_SHOWN] if isinstance(message, str) else None
        notify(Progress(progress, total, text))

    def _tell_log_line(self, params: dict[str, Any], notify: Notify | None) -> None:
        level, logger = params.get("level"), params.get("logger")
        if notify is None and len(self.calls) == 1:
            (notify,) = self.calls.values()
        data = self.redactor.value(params.get("data"))
        if notify is None:
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s says (%s): %s", self.name, level, str(data)[:_SHOWN])
            return
        known: Any = level if level in LEVELS else "info"
        notify(LogLine(data, known, self.redactor.text(logger)[:_SHOWN] if isinstance(logger, str) else None))

    def _take_request(self, method: str, params: dict[str, Any], number: Id, answer: Answer) -> None:
        if method == "ping":
            answer(framing.response(number, {}))
            return
        handler = self.handlers.of(method)
        if handler is None:
            answer(framing.refusal(number, METHOD_NOT_FOUND, f"this client does not answer {method[:100]}"))
        elif self._busy >= self.limits.max_requests:
            answer(framing.refusal(number, INTERNAL_ERROR, "this client has too many open requests of the server"))
        else:
            self._busy += 1
            self.start(self._answer_request(handler, method, params, number, answer))

    async def _answer_request(
        self, handler: Handler, method: str, params: dict[str, Any], number: Id, answer: Answer
    ) -> None:
        try:
            data = framing.response(number, await self.fulfil(handler, params))
        except Denied as error:
            data = framing.refusal(number, DECLINED, self.redactor.text(str(error))[:_SHOWN])
        except CallError as error:
            data = framing.refusal(number, INTERNAL_ERROR, self.redactor.text(str(error))[:_SHOWN])
        except Exception:  # noqa: BLE001 - the server needs a response even if a handler, which is user code, fails
            _log.warning("the handler for %s of %s failed", method, self.name, exc_info=True)
            data = framing.refusal(number, INTERNAL_ERROR, "the client could not answer")
        finally:
            self._busy -= 1
        answer(data)


def _number(value: Any) -> float | None:
    """The value as a float; None if it is not a number or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


async def _await_result(result: Any) -> Any:
    return await result


class Mailbox:
    """The pending requests of one connection."""

    def __init__(self, peer: Peer, answer: Answer) -> None:
        self._peer = peer
        self._answer = answer
        self._waiting: dict[int, tuple[Request, asyncio.Future[McpReply]]] = {}
        self._last_words = ""
        self.ended: str | None = None
        """How the connection ended; None while it is open."""

    async def exchange(self, request: Request, send: Callable[[Request, asyncio.Future[McpReply]], None]) -> McpReply:
        """Send a request and wait for its response; on cancellation or timeout, the server is notified."""
        if len(self._waiting) >= self._peer.limits.max_pending:
            raise Unavailable(f"{self._peer.name} has {len(self._waiting)} requests to answer already")
        future: asyncio.Future[McpReply] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = (request, future)
        try:
            send(request, future)
            async with asyncio.timeout_at(request.deadline):
                return await future
        except (TimeoutError, CallTimeout, asyncio.CancelledError) as error:
            if request.cancellable and request.sent:
                self._answer(framing.cancellation(request.number))
            if isinstance(error, TimeoutError):
                raise late(self._peer.name, request.seconds, "unknown" if request.sent else "none") from None
            raise
        finally:
            del self._waiting[request.number]
            if future.done() and not future.cancelled():
                future.exception()  # retrieved, even if the request could not be sent

    def is_busy_before(self, request: Request) -> bool:
        """Whether a request that was sent earlier is pending, so that the server may be working on that."""
        return any(number < request.number for number in self._waiting)

    def deliver(self, data: bytes, fault: CallError | None = None) -> bool:
        """Handle one message from the stream; False if it is none. With a `fault`, it only fails the request."""
        try:
            found = framing.read(data, self._peer.limits.max_depth)
        except UnreadableError:
            self._fail_lost_answer(data, data, unreadable(self._peer.name))
            return False
        for message in found:
            if message.is_response:
                self._settle_request(message, len(data), fault)
            elif fault is None:
                self._peer.receive(message, self._answer)
        return any(message.is_response or message.method for message in found)

    def skipped(self, line: SkippedLine) -> None:
        """Handle a message that was too long to keep."""
        self._fail_lost_answer(line.head, line.tail, too_large(self._peer.name, self._peer.limits.max_message_bytes))

    def end(self, how: str, last_words: str = "") -> None:
        """Fail all pending requests; no more messages will come."""
        if self.ended is None:
            self.ended, self._last_words = how, last_words
        for request, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._explain_end(request))

    def refuse_late(self, request: Request) -> Exception:
        """The exception for a request after the end: nothing was sent, so most can be sent on the next connection."""
        return SessionLostError() if request.cancellable else self._explain_end(request)

    def _explain_end(self, request: Request) -> CallError:
        if request.sent:
            return Interrupted(f"{self._peer.name} {self.ended or 'ended'} before it answered{self._last_words}")
        return Unavailable(f"{self._peer.name} {self.ended or 'ended'}{self._last_words}")

    def _settle_request(self, message: JsonRpcMessage, size: int, fault: CallError | None) -> None:
        _, future = self._waiting.get(message.id, (None, None)) if isinstance(message.id, int) else (None, None)
        if future is None or future.done():
            return
        try:
            if fault is not None:
                raise fault
            future.set_result(reply_of(self._peer, message, size))
        except CallError as error:
            future.set_exception(error)
        except Exception:  # noqa: BLE001 - one unexpected response must not end the connection
            _log.warning("an answer of %s could not be taken", self._peer.name, exc_info=True)
            future.set_exception(unreadable(self._peer.name))

    def _fail_lost_answer(self, head: bytes, tail: bytes, fault: CallError) -> None:
        """Fail the request that an unreadable message responds to; if its id is unknown, the only pending one."""
        number = framing.guess_id(head, tail)
        waiting = None if number is None else self._waiting.get(number)
        if number is None and framing.looks_like_one(head, tail):
            likely = [item for item in self._waiting.values() if item[0].method != LISTEN]
            waiting = likely[0] if len(likely) == 1 else None
        if waiting is not None and not waiting[1].done():
            waiting[1].set_exception(fault)


def reply_of(peer: Peer, message: JsonRpcMessage, size: int) -> McpReply:
    """The reply from a response; raises if the response is an error."""
    error: Any = message.error
    if error is not msgspec.UNSET and error is not None:
        raise refused(peer.name, error, peer.redactor)
    return McpReply(message.result, size)
