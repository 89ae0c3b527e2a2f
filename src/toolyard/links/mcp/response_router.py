"""`Mailbox`: requests whose answers come on one shared stream, each found by its number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from toolyard.dialects.mcp_protocol import LISTEN
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import SessionLostError, late, refused, too_large, unreadable
from toolyard.links.mcp.framing import JsonRpcMessage, UnreadableError
from toolyard.links.mcp.peer import Answer, McpReply, Peer, Request
from toolyard.model.errors import CallError, CallTimeout, Interrupted, Unavailable
from toolyard.parsing.lines import TooLong

_log = logging.getLogger("toolyard.mcp")


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
            self._peer.strays += 1
            return
        try:
            waiting[1].set_result(reply_of(self._peer, message, size))
        except CallError as error:
            waiting[1].set_exception(error)

    def _fail_lost_answer(self, head: bytes, tail: bytes, fault: CallError) -> None:
        """Fail the request that a lost message answers; if there is but one, it is that one's."""
        self._peer.strays += 1
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
