"""`Peer`: what both ends of a connection say to each other, whichever way the messages travel.

`LinkLimits` say what a server may cost, `Handlers` who answers what it asks for. `Mailbox` finds the request that a
message answers, where all of them come on one stream.
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
from toolyard.loop.threads import Threads, wrapped
from toolyard.model.call import LogLine, Notify, Progress
from toolyard.model.errors import CallError, CallTimeout, Denied, Interrupted, Unavailable
from toolyard.parsing.lines import TooLong
from toolyard.words.redactor import Redactor, echoes_of

Handler = Callable[[dict[str, Any]], Any]
"""Takes the request's params and gives its result, or an awaitable of it. Sync ones run in a thread."""


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """All of them hold unless an operator says otherwise."""

    connect_seconds: float = 10.0
    """Starting or reaching the server, and agreeing on a protocol, in all."""
    max_message_bytes: int = 16 * 1024 * 1024
    max_depth: int = 200
    """Levels of lists and objects in a message."""
    max_pages: int = 1000
    max_tools: int = 100_000
    max_list_bytes: int = 256 * 1024 * 1024
    """Bytes of all pages of one listing."""
    max_pending: int = 1000
    """Requests in flight at once."""
    max_requests: int = 16
    """Requests of the server that are worked on at once."""
    max_rounds: int = 10
    """How often one call may ask for input."""
    max_connections: int = 200
    """Sockets to one HTTP server."""
    stderr_bytes: int = 4096
    """Of what a process says last on its error stream, for the text of an error."""
    close_seconds: float = 2.0
    """For each step of ending a process."""
    backoff_seconds: float = 0.25
    max_backoff_seconds: float = 30.0
    healthy_seconds: float = 60.0
    """A connection that held this long makes earlier failures forgotten."""


_ASKED = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""What a server may ask for, and what both sides call that."""


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers what a server asks for; what has no handler is refused, and not offered to the server."""

    sampling: Handler | None = None
    elicitation: Handler | None = None
    roots: Handler | None = None

    def capabilities(self) -> dict[str, Any]:
        """What the client tells the server it can do."""
        return {name: {} for name in _ASKED.values() if getattr(self, name) is not None}

    def of(self, method: str) -> Handler | None:
        """The handler for a request of the server."""
        name = _ASKED.get(method)
        return None if name is None else getattr(self, name)


HANDLERS = Threads(64, "toolyard-mcp-handler")
"""For what servers ask for, which a person, or a model, may take minutes to answer."""


RATE = 10_000
"""Messages a second that answer nothing."""


_log = logging.getLogger("toolyard.mcp")
_SHOWN = 2000
_BETWEEN_CHANGES = 0.1
"""Seconds between two times that the tools are said to be others."""

Lost = Callable[[CallError], None]
"""Told once when a server no longer exists."""

Answer = Callable[[bytes], None]
"""Sends an answer to a request of the server; must not wait."""


class McpReply(msgspec.Struct, frozen=True):
    """The server's answer to one request."""

    result: Any
    size: int
    """Bytes of the message."""


class Request(msgspec.Struct):
    """One request to the server."""

    number: int
    method: str
    params: dict[str, Any] | None
    deadline: float | None = None
    """By the loop's clock, which is `time.monotonic`."""
    notify: Notify | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cancellable: bool = True
    sent: bool = False
    """Whether something of it may have left."""
    answered: bool = False
    """Whether the server itself has said what became of it."""
    seconds: float | None = None
    """All the time that it has; known from the deadline."""

    def __post_init__(self) -> None:
        """Its time begins now."""
        if self.deadline is not None:
            self.seconds = self.deadline - time.monotonic()

    def encoded(self) -> bytes:
        """As it is sent."""
        return framing.request(self.number, self.method, self.params)


class McpWire(Protocol):
    """One way to a server: a process, or an address. What fails is a `CallError`."""

    async def open(self) -> None:
        """Start or reach the server."""

    async def request(self, request: Request) -> McpReply:
        """The answer to a request. Given up on, the server is told so."""

    def has_read(self) -> bool:
        """False if the server has certainly not read all that it was sent: it is not as far yet."""
        return True

    def tell(self, data: bytes) -> None:
        """Send a notification or an answer, soon; whether it arrives nobody learns."""

    async def post(self, data: bytes, version: str) -> None:
        """Send the notification that ends a handshake, and go by that version from now on."""

    def listen(self) -> None:
        """Have the server's messages that answer nothing come in, if it takes more than being connected."""

    async def aclose(self) -> None:
        """Let go of the server."""


class Peer:
    """Numbers requests, answers those of the server, and passes on what it says meanwhile."""

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
        """Tool calls in flight, by the token of their progress."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the server says that its tools are others now."""
        self._pace = TokenBucket(RATE, RATE, time.monotonic())
        self._number = 0
        self._change: asyncio.TimerHandle | None = None
        self._changed_at = -_BETWEEN_CHANGES
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def redactor(self) -> Redactor:
        """Takes the secrets there are now out of texts: tokens come and go."""
        return self._find_redactor()

    def number(self) -> int:
        """The next request's."""
        self._number += 1
        return self._number

    def receive(self, message: JsonRpcMessage, answer: Answer, notify: Notify | None = None) -> None:
        """A message that answers nothing; `notify` belongs to the call on whose stream it came."""
        self._pace.take(1, time.monotonic())
        method = message.method
        try:
            if not isinstance(method, str):
                return
            if message.id is msgspec.UNSET:
                self._take_notification(method, message.fields, notify)
            else:
                self._take_request(method, message.fields, message.id, answer)
        except Exception:  # noqa: BLE001 - one message that nobody foresaw must not cost the connection
            _log.warning("a message of %s could not be taken", self.name, exc_info=True)

    def pause(self) -> float:
        """Seconds not to listen, to one who says too much; mostly none."""
        return self._pace.seconds_until(0, time.monotonic())

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have something done meanwhile; it ends with the connection."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """End what was started."""
        if self._change is not None:
            self._change.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def fulfil(self, handler: Handler, params: dict[str, Any]) -> Any:
        """What a handler answers; user code, so it runs neither here nor where it could hold up this loop."""
        params = echoes_of(self._list_credentials()).hide(params)
        if inspect.iscoroutinefunction(handler):
            return await home_loop.arun(handler(params))
        future = HANDLERS.submit(partial(handler, params))
        try:
            result = await wrapped(future)
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
        """Say so at once, but not again and again: later then, for all that came meanwhile."""
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
            answer(framing.refusal(number, INTERNAL_ERROR, "this client is asked too much at once"))
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
        except Exception:  # noqa: BLE001 - a handler is user code; the server must have an answer all the same
            _log.warning("the handler for %s of %s failed", method, self.name, exc_info=True)
            data = framing.refusal(number, INTERNAL_ERROR, "the client could not answer")
        finally:
            self._busy -= 1
        answer(data)


def _number(value: Any) -> float | None:
    """The number, if it is one that fits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


async def _await_result(result: Any) -> Any:
    return await result


class Mailbox:
    """What is waited for on one connection."""

    def __init__(self, peer: Peer, answer: Answer) -> None:
        self._peer = peer
        self._answer = answer
        self._waiting: dict[int, tuple[Request, asyncio.Future[McpReply]]] = {}
        self._last_words = ""
        self.ended: str | None = None
        """How the connection ended; None while it lasts."""

    async def exchange(self, request: Request, send: Callable[[Request, asyncio.Future[McpReply]], None]) -> McpReply:
        """Send a request and wait for its answer; the server is told if nobody waits for it any more."""
        if len(self._waiting) >= self._peer.limits.max_pending:
            raise Unavailable(f"{self._peer.name} has {len(self._waiting)} requests to answer already")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[McpReply] = loop.create_future()
        timer = (
            None if request.deadline is None else loop.call_at(request.deadline, self._expire_request, request, future)
        )
        self._waiting[request.number] = (request, future)
        try:
            send(request, future)
            return await future
        except (CallTimeout, asyncio.CancelledError):
            if request.cancellable and request.sent:
                self._answer(framing.cancellation(request.number))
            raise
        finally:
            del self._waiting[request.number]
            if future.done() and not future.cancelled():
                future.exception()  # heard, also where it could not even be sent
            if timer is not None:
                timer.cancel()

    def deliver(self, data: bytes) -> None:
        """One message off the stream."""
        try:
            found = framing.read(data, self._peer.limits.max_depth)
        except UnreadableError:
            self._fail_lost_answer(data, data, unreadable(self._peer.name))
            return
        for message in found:
            if not message.is_response:
                self._peer.receive(message, self._answer)
                continue
            try:
                self._settle_request(message, len(data))
            except Exception:  # noqa: BLE001 - one answer that nobody foresaw must not cost the connection
                _log.warning("an answer of %s could not be taken", self._peer.name, exc_info=True)
                self._fail_lost_answer(data, data, unreadable(self._peer.name))

    def skipped(self, line: TooLong) -> None:
        """A message that was too long to be kept."""
        self._fail_lost_answer(line.head, line.tail, too_large(self._peer.name, self._peer.limits.max_message_bytes))

    def end(self, how: str, last_words: str = "") -> None:
        """Nothing more will come."""
        if self.ended is None:
            self.ended, self._last_words = how, last_words
        for request, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._explain_end(request))

    def refuse_late(self, request: Request) -> Exception:
        """For a request that comes after the end: nothing was sent, so most can be sent on the next connection."""
        return SessionLostError() if request.cancellable else self._explain_end(request)

    def _explain_end(self, request: Request) -> CallError:
        if request.sent:
            return Interrupted(f"{self._peer.name} {self.ended or 'ended'} before it answered{self._last_words}")
        return Unavailable(f"{self._peer.name} {self.ended or 'ended'}{self._last_words}")

    def _settle_request(self, message: JsonRpcMessage, size: int) -> None:
        number = message.id
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting is None or waiting[1].done():
            return
        try:
            waiting[1].set_result(reply_of(self._peer, message, size))
        except CallError as error:
            waiting[1].set_exception(error)

    def _fail_lost_answer(self, head: bytes, tail: bytes, fault: CallError) -> None:
        """Fail the request that a lost message answers; if there is but one, it is that one's."""
        number = framing.guess_id(head, tail)
        waiting = None if number is None else self._waiting.get(number)
        if number is None and framing.looks_like_one(head, tail):
            likely = [item for item in self._waiting.values() if item[0].method != LISTEN]
            waiting = likely[0] if len(likely) == 1 else None
        if waiting is not None and not waiting[1].done():
            waiting[1].set_exception(fault)

    def _expire_request(self, request: Request, future: asyncio.Future[McpReply]) -> None:
        if not future.done():
            future.set_exception(late(self._peer.name, request.seconds, "unknown" if request.sent else "none"))


def reply_of(peer: Peer, message: JsonRpcMessage, size: int) -> McpReply:
    """The answer that a response is; its error is raised."""
    error: Any = message.error
    if error is not msgspec.UNSET and error is not None:
        raise refused(peer.name, error, peer.redactor)
    return McpReply(message.result, size)
