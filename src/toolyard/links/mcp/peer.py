"""`Peer`: what both ends of a connection say to each other, whichever way the messages travel.

`LinkLimits` say what a server may cost, `Handlers` who answers what it asks for; `Notices` pass on what it says during
a call: outside of the loop of links, in order, before the call returns.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import msgspec

from toolyard.dialects.mcp_protocol import DECLINED, INTERNAL_ERROR, LEVELS, LIST_CHANGED, METHOD_NOT_FOUND
from toolyard.links.mcp import framing
from toolyard.links.mcp.framing import Id, JsonRpcMessage
from toolyard.loop.home import home_loop
from toolyard.loop.pacing import TokenBucket
from toolyard.loop.threads import Threads, wrapped
from toolyard.model.call import LogLine, Notice, Notify, Progress
from toolyard.model.errors import CallError, Denied
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


MOST = 256
"""Notices of one call that may wait to be told."""
PATIENCE = 5.0
"""Seconds that an answer waits, at most, for who is still being told."""
HANDLERS = Threads(64, "toolyard-mcp-handler")
"""For what servers ask for, which a person, or a model, may take minutes to answer."""
TELLERS = Threads(32, "toolyard-mcp-notices")
"""For what servers say meanwhile."""


class Notices:
    """Tells one caller, one notice after the other. What is too much is dropped, progress first, eldest first."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: deque[Notice] = deque()
        self._runner: Future[None] | None = None
        self._is_over = False
        self.dropped = 0

    def __call__(self, notice: Notice) -> None:
        """Have it told, soon."""
        with self._lock:
            if self._is_over:
                self.dropped += 1
                return
            if len(self._waiting) >= MOST:
                self._make_room()
            self._waiting.append(notice)
            if self._runner is None or self._runner.done():
                self._runner = TELLERS.submit(self._tell)

    async def told(self, seconds: float) -> None:
        """Wait until all of it was told, at most so long; from then on nothing is."""
        runner = self._runner
        if runner is not None and not runner.done():
            await asyncio.wait({asyncio.wrap_future(runner)}, timeout=max(seconds, 0.0))
        self.close()

    def close(self) -> None:
        """Tell nothing any more."""
        with self._lock:
            self._is_over = True
            self.dropped += len(self._waiting)
            self._waiting.clear()
            runner = self._runner
        if runner is not None and not runner.done():
            TELLERS.give_up(runner)

    def _make_room(self) -> None:
        self.dropped += 1
        eldest = next((notice for notice in self._waiting if isinstance(notice, Progress)), None)
        if eldest is None:
            self._waiting.popleft()
        else:
            with suppress(ValueError):
                self._waiting.remove(eldest)

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._runner = None
                    return
                notice = self._waiting.popleft()
            try:
                self._notify(notice)
            except Exception:  # noqa: BLE001 - somebody else's code, and the call goes on
                _log.warning("who is told of a call's progress failed", exc_info=True)


RATE = 10_000
"""Messages a second that answer nothing."""


class MessagePace:
    """Lets through what one second allows at once, and from then on as much as time allows."""

    def __init__(self, rate: int = RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bucket = TokenBucket(rate, rate, clock())

    def count(self) -> None:
        """One more."""
        self._bucket.take(1, self._clock())

    def pause(self) -> float:
        """Seconds not to listen; mostly none."""
        return self._bucket.seconds_until(0, self._clock())


_log = logging.getLogger("toolyard.mcp")
_SHOWN = 2000
_BETWEEN_CHANGES = 0.1
"""Seconds between two times that the tools are said to be others."""

Lost = Callable[[CallError], None]
"""Told once when a server is not there any more."""

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
        self.limits = limits
        self._find_redactor = find_redactor
        self._list_credentials = list_credentials
        self.calls: dict[int, Notify | None] = {}
        """Tool calls in flight, by the token of their progress."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the server says that its tools are others now."""
        self.strays = 0
        """Messages that were for nobody, or no messages at all."""
        self.dropped = 0
        """Notices that came faster than they were taken."""
        self.pace = MessagePace()
        self._handlers = handlers
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
        self.pace.count()
        method = message.method
        try:
            if not isinstance(method, str):
                self.strays += 1
            elif message.id is msgspec.UNSET:
                self._take_notification(method, message.fields, notify)
            else:
                self._take_request(method, message.fields, message.id, answer)
        except Exception:  # noqa: BLE001 - one message that nobody foresaw must not cost the connection
            self.strays += 1
            _log.warning("a message of %s could not be taken", self.name, exc_info=True)

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

    def handler(self, method: str) -> Handler | None:
        """Who answers such a request of the server."""
        return self._handlers.of(method)

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
            self.strays += 1
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
        handler = self.handler(method)
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
