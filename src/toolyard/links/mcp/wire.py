"""`McpWire`: what all transports have in common, and the requests that they send.

`Mailbox` assigns responses to requests if all of them arrive on one stream.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from toolyard.dialects.mcp_protocol import LISTEN
from toolyard.links.http.messages import make_timeout_error
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import SessionLostError, make_size_error, make_unreadable_error
from toolyard.links.mcp.framing import JsonRpcMessage, UnreadableError
from toolyard.links.mcp.peer import Answer, McpReply, Peer
from toolyard.model.call import Notify
from toolyard.model.errors import CallError, CallTimeout, Interrupted, Unavailable
from toolyard.parsing.lines import SkippedLine

_log = logging.getLogger("toolyard.mcp")


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

    def encode(self) -> bytes:
        """The encoded message."""
        return framing.encode_request(self.number, self.method, self.params)


class McpWire(ABC):
    """A transport to a server: a process or a URL. Errors are `CallError`s."""

    def __init__(self, peer: Peer, lost: Lost) -> None:
        self.peer = peer
        self._lost = lost

    @abstractmethod
    async def open(self) -> None:
        """Start or reach the server."""

    @abstractmethod
    async def request(self, request: Request) -> McpReply:
        """Send a request and return the response. If it is cancelled or times out, the server is notified."""

    def has_read(self) -> bool:
        """False if the server has certainly not read everything that it was sent, so it is still starting."""
        return True

    @abstractmethod
    def send_soon(self, data: bytes) -> None:
        """Send a notification or a response in the background, without reporting whether it arrives."""

    @abstractmethod
    async def finish_handshake(self, version: str) -> None:
        """Send the notification that ends a handshake, and use that version from now on."""

    @property
    def has_notification_stream(self) -> bool:
        """Whether the server's own messages take a stream of their own, in the old protocol."""
        return False

    async def read_notifications(self) -> float | None:
        """Read that stream until it ends; returns after how many seconds to go on, if the server said so."""
        return None

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connection to the server."""


Lost = Callable[[McpWire, CallError], None]
"""Called once when the server behind a wire no longer exists."""


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
        except (CallTimeout, asyncio.CancelledError):
            self._cancel(request)
            raise
        except TimeoutError:
            if not future.cancelled():
                return future.result()  # it came in time, but the loop was busy until after the deadline
            self._cancel(request)
            raise make_timeout_error(self._peer.name, request.seconds, "unknown" if request.sent else "none") from None
        finally:
            del self._waiting[request.number]
            if future.done() and not future.cancelled():
                future.exception()  # retrieved, even if the request could not be sent

    def _cancel(self, request: Request) -> None:
        if request.cancellable and request.sent:
            self._answer(framing.encode_cancellation(request.number))

    def is_busy_before(self, request: Request) -> bool:
        """Whether a request that was sent earlier is pending, so that the server may be working on that."""
        earlier = [item for number, (item, _) in self._waiting.items() if number < request.number]
        return any(item.method != LISTEN for item in earlier)  # a subscription is pending all the time

    def deliver(self, data: bytes, fault: CallError | None = None) -> bool:
        """Handle one message from the stream; False if it is none. With a `fault`, it only fails the request."""
        try:
            found = framing.read_messages(data, self._peer.limits.max_depth)
        except UnreadableError:
            self._fail_lost_answer(data, data, make_unreadable_error(self._peer.name))
            return False
        for message in found:
            if message.is_response:
                self._settle_request(message, len(data), fault)
            elif fault is None:
                self._peer.receive(message, self._answer)
        return any(message.is_response or message.method for message in found)

    def deliver_skipped(self, line: SkippedLine) -> None:
        """Handle a message that was too long to keep."""
        self._fail_lost_answer(
            line.head, line.tail, make_size_error(self._peer.name, self._peer.limits.max_message_bytes)
        )

    def end(self, how: str, last_words: str = "") -> None:
        """Fail all pending requests; no more messages will come."""
        if self.ended is None:
            self.ended, self._last_words = how, last_words
        for request, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._explain_end(request))

    def make_closed_error(self, request: Request) -> Exception:
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
            future.set_result(self._peer.read_reply(message, size))
        except CallError as error:
            future.set_exception(error)
        except Exception:  # noqa: BLE001 - one unexpected response must not end the connection
            _log.warning("an answer of %s could not be taken", self._peer.name, exc_info=True)
            future.set_exception(make_unreadable_error(self._peer.name))

    def _fail_lost_answer(self, head: bytes, tail: bytes, fault: CallError) -> None:
        """Fail the request that an unreadable message responds to; if its id is unknown, the only pending one."""
        number = framing.guess_id(head, tail)
        waiting = None if number is None else self._waiting.get(number)
        if number is None and framing.looks_like_one(head, tail):
            likely = [item for item in self._waiting.values() if item[0].method != LISTEN]
            waiting = likely[0] if len(likely) == 1 else None
        if waiting is not None and not waiting[1].done():
            waiting[1].set_exception(fault)
