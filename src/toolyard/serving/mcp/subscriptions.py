"""Streams on which clients wait for news: `GET /mcp` of a session, and `subscriptions/listen` without one.

`Subscribers` knows all that are open, so that every client is told when the catalog changes, and none has too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.types import Send

from toolyard.dialects.mcp_protocol import INVALID_PARAMS, LIST_CHANGED, SUBSCRIPTION_ID
from toolyard.serving.http_fault import make_overloaded
from toolyard.serving.mcp.event_stream import EventStream, Replays, new_stream_name, send_stream, watch_disconnect
from toolyard.serving.mcp.json_rpc import Json, RpcFault, RpcMessage, encode_notification, encode_result, finish_result
from toolyard.serving.mcp.sessions import McpSession
from toolyard.serving.routing import caller_of


class Subscriber(msgspec.Struct, eq=False):
    """One client that is told of changes as long as it is there."""

    owner: str
    changed: Callable[[], None]
    """Told of each change; returns at once."""
    end: Callable[[], None]
    """Asked to make room."""
    stop: Callable[[], None]
    """Told that the server stops."""


class Subscribers:
    """Every open stream, oldest first. Where there are too many, whoever has most gives one up, the oldest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Subscriber, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def join(self, subscriber: Subscriber) -> None:
        """Count a stream in; `HttpFault` 429 if there are too many, and most of them its owner's."""
        if len(self._open) >= self._most:
            self._make_room(subscriber.owner)
        self._open[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """It is gone; nothing happens if it was before."""
        self._open.pop(subscriber, None)

    def notify_all(self) -> None:
        """The catalog has changed."""
        for subscriber in list(self._open):
            subscriber.changed()

    def end_all(self) -> None:
        """The server stops: end every stream that would go on."""
        for subscriber in list(self._open):
            subscriber.stop()

    def keep_only(self, stays: Callable[[str], bool]) -> None:
        """End the streams of owners who may not have any more."""
        for subscriber in [one for one in self._open if not stays(one.owner)]:
            subscriber.end()

    def _make_room(self, owner: str) -> None:
        counts = Counter(subscriber.owner for subscriber in self._open)
        whose, most = counts.most_common(1)[0]
        if most <= counts[owner]:
            raise make_overloaded("all streams are in use; end one, or try again", 5)
        oldest = next(subscriber for subscriber in self._open if subscriber.owner == whose)
        self.leave(oldest)
        oldest.end()


_CHANGED = encode_notification(LIST_CHANGED)


def nothing() -> None:
    """For a stream that others tell of changes."""


async def stand(
    subscribers: Subscribers,
    request: Request,
    send: Send,
    stream: EventStream,
    changed: Callable[[], None] = nothing,
    *,
    after: int = 0,
    silent: bool = False,
    answering: bool = False,
) -> None:
    """Have a client read a stream until it is gone, or the server stops, or somebody else needs the room.

    `answering`: the stream is the answer to a request, which ends it, and for which a stop waits.
    """
    reader = object()

    def detach() -> None:
        # Whoever is gone may come back for the rest, so only a stop ends the stream itself.
        stream.detach(reader)

    owner = caller_of(request).principal.owner or ""
    subscriber = Subscriber(owner, changed, detach if answering else stream.end, nothing if answering else stream.end)
    subscribers.join(subscriber)
    stream.take_over(reader)
    try:
        async with watch_disconnect(request.receive, detach):
            await send_stream(send, stream, reader, after=after, silent=silent)
    finally:
        stream.detach(reader)
        subscribers.leave(subscriber)


async def listen(subscribers: Subscribers, request: Request, send: Send, message: RpcMessage) -> None:
    """`subscriptions/listen`: first what is listened to, then what happens, each tagged with the request's id."""
    tag, honoured, told = read_subscription(message)
    stream = _ClosingStream(encode_result(message.id, finish_result({"_meta": dict(tag)}, stateless=True)))
    stream.put_answer(told)
    changed = encode_notification(LIST_CHANGED, {"_meta": tag})
    await stand(subscribers, request, send, stream, (lambda: stream.put(changed)) if honoured else nothing)


def read_subscription(message: RpcMessage) -> tuple[Json, bool, bytes]:
    """What a `subscriptions/listen` asks for: the tag of what it is told, whether that is anything, and the first."""
    wanted = message.params.get("notifications")
    if type(wanted) is not dict:
        raise RpcFault(INVALID_PARAMS, "params.notifications must be an object")
    tag: Json = {SUBSCRIPTION_ID: message.id}
    honoured = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
    told = {"notifications": honoured, "_meta": tag}
    return tag, bool(honoured), encode_notification("notifications/subscriptions/acknowledged", told)


class _ClosingStream(EventStream):
    """A stream that says it is over, when it ends."""

    __slots__ = ("_last",)

    def __init__(self, last: bytes) -> None:
        super().__init__()
        self._last = last

    def end(self) -> None:
        """With the result of the request that began it."""
        self.put_answer(self._last)
        super().end()


async def stand_in_session(
    subscribers: Subscribers, replays: Replays, request: Request, send: Send, session: McpSession
) -> None:
    """`GET`: what happens in a session beside its requests, or the rest of an answer that broke off."""
    last = request.headers.get("last-event-id")
    name, number = ("", 0) if last is None else _read_event_id(last)
    stream = replays.find(session.owner, session.id, name)
    if stream is not None and number <= stream.count:
        await stand(subscribers, request, send, stream, after=number, answering=True)
        return
    if session.notices is None or session.notices.over:
        session.notices = EventStream(new_stream_name())
    notices = session.notices
    after = notices.count
    if name == notices.name and number <= after:
        after = number
    elif last is not None:
        # Of a stream that is not kept, or not here: what happened since then, nobody knows.
        notices.put(_CHANGED)
    await stand(subscribers, request, send, notices, after=after, silent=True)


def _read_event_id(last: str) -> tuple[str, int]:
    name, _, number = last.partition(".")
    usable = number.isascii() and number.isdigit() and len(number) < 12
    return (name, int(number)) if usable else ("", 0)
