"""`Peer`: the parts of a connection that do not depend on the transport.

`LinkLimits` bound what a server may cost, `Handlers` answer its requests.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from toolyard.dialects.mcp_protocol import DECLINED, INTERNAL_ERROR, LEVELS, LIST_CHANGED, METHOD_NOT_FOUND
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import make_rpc_error
from toolyard.links.mcp.framing import Id, JsonRpcMessage
from toolyard.loop.home import home_loop
from toolyard.loop.pacing import TokenBucket
from toolyard.loop.threads import Threads, await_future
from toolyard.model.call import LogLine, Notify, Progress
from toolyard.model.errors import CallError, Denied
from toolyard.words.redactor import Redactor, credential_finder

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


_HANDLED_METHODS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""Requests that a server may send, with the names of their capabilities and handlers."""


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """The handlers of server requests; a capability without a handler is not offered, and its requests are rejected."""

    sampling: Handler | None = None
    elicitation: Handler | None = None
    roots: Handler | None = None

    def capabilities(self) -> dict[str, Any]:
        """The client's capabilities in the handshake."""
        return {name: {} for name in _HANDLED_METHODS.values() if getattr(self, name) is not None}

    def find(self, method: str) -> Handler | None:
        """The handler for a request method of the server; None if there is none."""
        name = _HANDLED_METHODS.get(method)
        return None if name is None else getattr(self, name)


HANDLERS = Threads(64, "toolyard-mcp-handler")
"""Threads for handlers, which may wait minutes for a user or a model."""


RATE = 10_000
"""Maximum messages per second that are not responses."""


_log = logging.getLogger("toolyard.mcp")
_SHOWN = 2000
_BETWEEN_CHANGES = 0.1
"""Minimum seconds between two notifications of changed tools."""

Answer = Callable[[bytes], None]
"""Sends the response to a request of the server; must not block."""


class McpReply(msgspec.Struct, frozen=True):
    """The server's response to one request."""

    result: Any
    size: int
    """Bytes of the message."""


class LinkSecrets:
    """The secrets and credentials of a server, and the current tokens for it, which change while a link lives."""

    def __init__(
        self, secrets: tuple[str, ...], credentials: tuple[str, ...], list_tokens: Callable[[], tuple[str, ...]]
    ) -> None:
        self._fixed = secrets
        self._credentials = credentials
        self._list_tokens = list_tokens
        self._tokens: tuple[str, ...] = ()
        self._redactor = Redactor(secrets)

    @property
    def credentials(self) -> tuple[str, ...]:
        """The configured credentials and current tokens, which results must not repeat."""
        return (*self._credentials, *self._list_tokens())

    @property
    def redactor(self) -> Redactor:
        """Redacts the current secrets from texts."""
        tokens = self._list_tokens()
        if tokens != self._tokens:
            self._redactor, self._tokens = Redactor((*self._fixed, *tokens)), tokens
        return self._redactor


class Peer:
    """Numbers requests, answers requests of the server, and dispatches its notifications."""

    def __init__(self, name: str, handlers: Handlers, limits: LinkLimits, secrets: LinkSecrets) -> None:
        self.name = name
        self.handlers = handlers
        self.limits = limits
        self._secrets = secrets
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
        return self._secrets.redactor

    def next_number(self) -> int:
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
            if message.id is not msgspec.UNSET:
                self._take_request(method, message.fields, message.id, answer)
            elif method == "notifications/progress":
                self._report_progress(message.fields)
            elif method == "notifications/message":
                self._report_log_line(message.fields, notify)
            elif method == LIST_CHANGED:
                self._note_change()
        except Exception:  # noqa: BLE001 - one unexpected message must not end the connection
            _log.warning("a message of %s could not be taken", self.name, exc_info=True)

    def seconds_to_pause(self) -> float:
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

    def read_reply(self, message: JsonRpcMessage, size: int) -> McpReply:
        """The reply in a response of so many bytes; raises if the response is an error."""
        error: Any = message.error
        if error is not msgspec.UNSET and error is not None:
            raise make_rpc_error(self.name, error, self.redactor)
        return McpReply(message.result, size)

    async def run_handler(self, handler: Handler, params: dict[str, Any]) -> Any:
        """Run a handler. As user code, it runs on the home loop or in a thread, so that it cannot block this loop."""
        params = credential_finder(self._secrets.credentials).hide(params)
        if inspect.iscoroutinefunction(handler):
            return await home_loop.arun(handler(params))
        future = HANDLERS.submit(partial(handler, params))
        try:
            result = await await_future(future)
        except asyncio.CancelledError:
            HANDLERS.give_up(future)
            raise
        return await home_loop.arun(_await_result(result)) if inspect.isawaitable(result) else result

    def _note_change(self) -> None:
        """Report a change at once, or delayed and combined if the last one was recent."""
        if self._change is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._changed_at + _BETWEEN_CHANGES - loop.time()
        if wait > 0:
            self._change = loop.call_later(wait, self._announce_change)
        else:
            self._announce_change()

    def _announce_change(self) -> None:
        self._change = None
        self._changed_at = asyncio.get_running_loop().time()
        self.changed()

    def _report_progress(self, params: dict[str, Any]) -> None:
        token = params.get("progressToken")
        notify = self.calls.get(token) if isinstance(token, int) else None
        progress, message = _read_number(params.get("progress")), params.get("message")
        if notify is None or progress is None:
            return
        text = self.redactor.text(message)[:_SHOWN] if isinstance(message, str) else None
        notify(Progress(progress, _read_number(params.get("total")), text))

    def _report_log_line(self, params: dict[str, Any], notify: Notify | None) -> None:
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
            answer(framing.encode_response(number, {}))
            return
        handler = self.handlers.find(method)
        if handler is None:
            answer(framing.encode_error(number, METHOD_NOT_FOUND, f"this client does not answer {method[:100]}"))
        elif self._busy >= self.limits.max_requests:
            answer(framing.encode_error(number, INTERNAL_ERROR, "this client has too many open requests of the server"))
        else:
            self._busy += 1
            self.start(self._answer_request(handler, method, params, number, answer))

    async def _answer_request(
        self, handler: Handler, method: str, params: dict[str, Any], number: Id, answer: Answer
    ) -> None:
        try:
            data = framing.encode_response(number, await self.run_handler(handler, params))
        except Denied as error:
            data = framing.encode_error(number, DECLINED, self.redactor.text(str(error))[:_SHOWN])
        except CallError as error:
            data = framing.encode_error(number, INTERNAL_ERROR, self.redactor.text(str(error))[:_SHOWN])
        except Exception:  # noqa: BLE001 - the server needs a response even if a handler, which is user code, fails
            _log.warning("the handler for %s of %s failed", method, self.name, exc_info=True)
            data = framing.encode_error(number, INTERNAL_ERROR, "the client could not answer")
        finally:
            self._busy -= 1
        answer(data)


def _read_number(value: Any) -> float | None:
    """The value as a float; None if it is not a number or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


async def _await_result(result: Any) -> Any:
    return await result
