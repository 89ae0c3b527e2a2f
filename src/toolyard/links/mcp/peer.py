"""`Peer`: what both ends of a connection say to each other, whichever way the messages travel."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import msgspec

from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import ServerRedactor
from toolyard.links.mcp.framing import Id, JsonRpcMessage
from toolyard.links.mcp.limits import Handler, Handlers, LinkLimits
from toolyard.links.mcp.notification_queue import HANDLERS
from toolyard.loop.home import home_loop
from toolyard.model.context import LogLine, Notify, Progress
from toolyard.model.errors import CallError, Denied

RATE = 10_000
"""Messages a second that answer nothing."""


class MessagePace:
    """Lets through what one second allows at once, and from then on as much as time allows."""

    def __init__(self, rate: int = RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._left = float(rate)
        self._since = clock()

    def count(self) -> None:
        """One more."""
        self._left -= 1

    def pause(self) -> float:
        """Seconds not to listen; mostly none."""
        if self._left > 0:
            return 0.0
        now = self._clock()
        self._left = min(self._left + (now - self._since) * self._rate, float(self._rate))
        self._since = now
        return max(-self._left / self._rate, 0.0)


_log = logging.getLogger("toolyard.mcp")
_LEVELS = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})
_SHOWN = 2000
_BETWEEN_CHANGES = 0.1
"""Seconds between two times that the tools are said to be others."""

LISTEN = "subscriptions/listen"
"""The request that is answered only when the server has nothing more to tell."""

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

    def encoded(self) -> bytes:
        """As it is sent."""
        return framing.request(self.number, self.method, self.params)


class McpWire(Protocol):
    """One way to a server: a process, or an address. What fails is a `CallError`."""

    async def open(self) -> None:
        """Start or reach the server."""

    async def request(self, request: Request) -> McpReply:
        """The answer to a request. Given up on, the server is told so."""

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

    def __init__(self, name: str, handlers: Handlers, limits: LinkLimits, redactor: ServerRedactor) -> None:
        self.name = name
        self.limits = limits
        self.redactor = redactor
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
                self._told(method, message.fields, notify)
            else:
                self._asked(method, message.fields, message.id, answer)
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
        if inspect.iscoroutinefunction(handler):
            return await home_loop.arun(handler(params))
        result = await HANDLERS.run(partial(handler, params))
        return await home_loop.arun(_awaited(result)) if inspect.isawaitable(result) else result

    def handler(self, method: str) -> Handler | None:
        """Who answers such a request of the server."""
        return self._handlers.of(method)

    def _told(self, method: str, params: dict[str, Any], notify: Notify | None) -> None:
        if method == "notifications/progress":
            self._progress(params)
        elif method == "notifications/message":
            self._logged(params, notify)
        elif method == "notifications/tools/list_changed":
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

    def _progress(self, params: dict[str, Any]) -> None:
        token = params.get("progressToken")
        notify = self.calls.get(token) if isinstance(token, int) else None
        progress, total, message = _number(params.get("progress")), _number(params.get("total")), params.get("message")
        if notify is None or progress is None:
            self.strays += 1
            return
        text = self.redactor.text(message)[:_SHOWN] if isinstance(message, str) else None
        notify(Progress(progress, total, text))

    def _logged(self, params: dict[str, Any], notify: Notify | None) -> None:
        level, logger = params.get("level"), params.get("logger")
        if notify is None and len(self.calls) == 1:
            (notify,) = self.calls.values()
        data = self.redactor.value(params.get("data"))
        if notify is None:
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s says (%s): %s", self.name, level, str(data)[:_SHOWN])
            return
        known: Any = level if level in _LEVELS else "info"
        notify(LogLine(data, known, self.redactor.text(logger)[:_SHOWN] if isinstance(logger, str) else None))

    def _asked(self, method: str, params: dict[str, Any], number: Id, answer: Answer) -> None:
        if method == "ping":
            answer(framing.response(number, {}))
            return
        handler = self.handler(method)
        if handler is None:
            answer(framing.refusal(number, framing.METHOD_NOT_FOUND, f"this client does not answer {method[:100]}"))
        elif self._busy >= self.limits.max_requests:
            answer(framing.refusal(number, framing.INTERNAL_ERROR, "this client is asked too much at once"))
        else:
            self._busy += 1
            self.start(self._answered(handler, method, params, number, answer))

    async def _answered(
        self, handler: Handler, method: str, params: dict[str, Any], number: Id, answer: Answer
    ) -> None:
        try:
            data = framing.response(number, await self.fulfil(handler, params))
        except Denied as error:
            data = framing.refusal(number, framing.REFUSED, self.redactor.text(str(error))[:_SHOWN])
        except CallError as error:
            data = framing.refusal(number, framing.INTERNAL_ERROR, self.redactor.text(str(error))[:_SHOWN])
        except Exception:  # noqa: BLE001 - a handler is user code; the server must have an answer all the same
            _log.warning("the handler for %s of %s failed", method, self.name, exc_info=True)
            data = framing.refusal(number, framing.INTERNAL_ERROR, "the client could not answer")
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


async def _awaited(result: Any) -> Any:
    return await result
