"""Streams of server-sent events, and responses that a client can resume after its connection broke."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.types import Send

from toolyard.dialects.mcp_protocol import INVALID_PARAMS, LIST_CHANGED, SUBSCRIPTION_ID, encode_notification
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.mcp.json_rpc import Json, RpcFault, RpcMessage, encode_result, finish_result
from toolyard.serving.routing import caller_of
from toolyard.serving.streams import (
    COMMENT,
    HEARTBEAT_SECONDS,
    STREAM_HEADERS,
    Subscriber,
    Subscribers,
    no_op,
    watch_disconnect,
    write_event,
)

_MOST_EVENTS = 512
_MOST_BYTES = 1024 * 1024
_FULL = 8 * 1024 * 1024
"""Unread bytes above which a client's further requests on a stream are refused."""
_MOST_UNREAD = 64 * 1024 * 1024
"""Unread bytes above which a stream is given up. Higher than `_FULL`, since accepted requests are still answered."""
_CHUNK = 256 * 1024
_LONGEST_NUMBER = 12
_log = logging.getLogger(__name__)


class EventStream:
    """A queue of events for one reader.

    A slow reader loses notifications, oldest first. Responses are never dropped; a stream with too many unread ones is
    given up as a whole. Reading removes events. The stream ends with the message `last`, if there is one.
    """

    __slots__ = ("_count", "_droppable", "_events", "_last", "_waiter", "is_broken", "is_over", "size")

    def __init__(self, last: bytes | None = None) -> None:
        self._last = last
        self._count = 0
        self.is_over = False
        self.is_broken = False
        """True if the stream was given up."""
        self._events: OrderedDict[int, bytes] = OrderedDict()
        self._droppable: deque[int] = deque()
        """Numbers of the events that may be dropped."""
        self.size = 0
        """Bytes of unread events."""
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """True if so much is unread that further requests should be refused."""
        return self.size > _FULL

    def put(self, message: bytes) -> None:
        """Add a notification, unless the stream has ended."""
        if not self.is_over:
            self.put_raw(write_event(message, kind="message"), droppable=True)

    def put_answer(self, message: bytes) -> None:
        """Add a message that must not be dropped, unless the stream has ended."""
        if not self.is_over:
            self.put_raw(write_event(message, kind="message"))

    def put_raw(self, event: bytes, *, droppable: bool = False) -> None:
        """Add an encoded event; it may be dropped only if `droppable`."""
        self._count += 1
        self._events[self._count] = event
        self.size += len(event)
        if droppable:
            self._droppable.append(self._count)
        # Never drop the newest event: it may supersede those dropped before.
        while len(self._droppable) > droppable and (len(self._droppable) > _MOST_EVENTS or self.size > _MOST_BYTES):
            self.size -= len(self._events.pop(self._droppable.popleft()))
        if self.size > _MOST_UNREAD and len(self._events) > 1:
            _log.warning("a stream is given up: its client left %d answers unread", len(self._events))
            self.is_broken = self.is_over = True
            self._events.clear()
            self._droppable.clear()
            self.size = 0
        self.wake()

    def end(self) -> None:
        """End the stream after what is unread."""
        if self._last is not None:
            self.put_answer(self._last)
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        """Wake the reader."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield events until the stream ends; while there are none, a comment every `HEARTBEAT_SECONDS` seconds."""
        while True:
            chunk = self._take_chunk()
            if chunk:
                yield chunk
                # Free the chunk, which may be large, before waiting for the next.
                del chunk
            elif self.is_over:
                return
            else:
                waiter = self._waiter = asyncio.get_running_loop().create_future()
                beat = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self.wake)
                try:
                    await waiter
                finally:
                    beat.cancel()
                if not self._events and not self.is_over:
                    yield COMMENT

    def _take_chunk(self) -> bytes:
        """Remove and return unread events, up to `_CHUNK` bytes but at least one."""
        chunk: list[bytes] = []
        size = 0
        while self._events and (not chunk or size + len(next(iter(self._events.values()))) <= _CHUNK):
            number, event = self._events.popitem(last=False)
            if self._droppable and self._droppable[0] == number:
                self._droppable.popleft()
            chunk.append(event)
            size += len(event)
        self.size -= size
        return b"".join(chunk)


async def send_stream(send: Send, stream: EventStream, *, silent: bool = False) -> None:
    """Send a stream as the response to a request, until the stream ends."""
    await send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
    if silent:
        # There may be no event for long; a comment shows the client that the stream is open.
        await send({"type": "http.response.body", "body": COMMENT, "more_body": True})
    async for chunk in stream.read():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        del chunk
    if stream.is_broken:
        # Abort the response, so that the client notices that something is missing.
        raise HttpFault(503, "server.overloaded", "the client did not read the answers it had asked for")
    await send({"type": "http.response.body", "body": b""})


async def serve_stream(
    subscribers: Subscribers,
    request: Request,
    send: Send,
    stream: EventStream,
    changed: Callable[[], None] = no_op,
    *,
    silent: bool = False,
) -> None:
    """Serve a stream until the client disconnects, the server stops, or another stream needs its place."""
    subscriber = Subscriber(caller_of(request).principal.owner or "", changed, stream.end)
    try:
        subscribers.join(subscriber)
        async with watch_disconnect(request.receive, stream.end):
            await send_stream(send, stream, silent=silent)
    finally:
        stream.end()
        subscribers.leave(subscriber)


async def listen(subscribers: Subscribers, request: Request, send: Send, message: RpcMessage) -> None:
    """Serve `subscriptions/listen`: an acknowledgement, then notifications, all tagged with the request's id."""
    tag, wants_changes, acknowledgement = read_subscription(message)
    stream = EventStream(encode_result(message.id, finish_result({"_meta": dict(tag)}, stateless=True)))
    stream.put_answer(acknowledgement)
    changed = encode_notification(LIST_CHANGED, {"_meta": tag})
    await serve_stream(subscribers, request, send, stream, (lambda: stream.put(changed)) if wants_changes else no_op)


def read_subscription(message: RpcMessage) -> tuple[Json, bool, bytes]:
    """Read a `subscriptions/listen`: the tag for its notifications, whether it wants any, and the acknowledgement."""
    wanted = message.params.get("notifications")
    if type(wanted) is not dict:
        raise RpcFault(INVALID_PARAMS, "params.notifications must be an object")
    tag: Json = {SUBSCRIPTION_ID: message.id}
    wants_changes = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
    acknowledgement = {"notifications": wants_changes, "_meta": tag}
    return tag, bool(wants_changes), encode_notification("notifications/subscriptions/acknowledged", acknowledgement)


class ReplyStream:
    """The response to one request and the notifications before it, for one connection at a time.

    With a name, events have ids (`name.number`) and are kept, so a client can resume after its connection broke.
    """

    __slots__ = ("_count", "_events", "_is_over", "name", "size", "stream")

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.stream = EventStream()
        """The stream that the current connection reads."""
        self.size = 0
        """Bytes of kept events."""
        self._count = 0
        self._events: deque[tuple[int, bytes]] = deque()
        self._is_over = False

    def put(self, message: bytes, *, is_last: bool = False) -> None:
        """Add a notification or, with `is_last`, the response itself."""
        self._count += 1
        event = write_event(message, kind="message", id=self.name and f"{self.name}.{self._count}")
        if self.name is not None:
            self._events.append((self._count, event))
            self.size += len(event)
            while len(self._events) > 1 and (len(self._events) > _MOST_EVENTS or self.size > _MOST_BYTES):
                self.size -= len(self._events.popleft()[1])
        if not self.stream.is_over:
            self.stream.put_raw(event, droppable=not is_last)
        if is_last:
            self._is_over = True
            self.stream.end()

    def resume(self, after: int) -> EventStream:
        """A stream for a new connection with the kept and future events after number `after`; ends the previous one."""
        self.stream.end()
        self.stream = EventStream()
        for number, event in self._events:
            if number > after:
                self.stream.put_raw(event)
        if self._is_over:
            self.stream.end()
        return self.stream


_KEPT_BYTES = 16 * 1024 * 1024
_KEPT = 1000


class KeptReplies:
    """Responses that clients can resume. If there are too many, the oldest are dropped."""

    def __init__(self, most: int = _KEPT, most_bytes: int = _KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, str, str], ReplyStream] = OrderedDict()
        """By owner, session id and name."""

    def begin(self, owner: str, session_id: str) -> ReplyStream:
        """Create and keep a response."""
        name = secrets.token_hex(8)
        reply = self._kept[owner, session_id, name] = ReplyStream(name)
        self.settle()
        return reply

    def settle(self) -> None:
        """Drop the oldest responses beyond the limits; call after a response has grown."""
        size = sum(reply.size for reply in self._kept.values())
        while len(self._kept) > self._most or (size > self._most_bytes and len(self._kept) > 1):
            size -= self._kept.popitem(last=False)[1].size

    def resume(self, owner: str, session_id: str, event_id: str) -> EventStream:
        """The events after the given one; an ended stream if its response is not kept in this process."""
        name, _, number = event_id.partition(".")
        reply = self._kept.get((owner, session_id, name))
        if reply is not None and number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER:
            return reply.resume(int(number))
        stream = EventStream()
        stream.end()
        return stream
