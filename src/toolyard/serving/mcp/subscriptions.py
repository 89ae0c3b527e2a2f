"""Streams on which clients wait for news: `GET /mcp` of a session, and `subscriptions/listen` without one.

`Subscribers` knows all that are open.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.types import Send

from toolyard.dialects.mcp_protocol import INVALID_PARAMS, LIST_CHANGED, SUBSCRIPTION_ID
from toolyard.serving.mcp.event_stream import EventStream, Replays, new_stream_name, send_stream
from toolyard.serving.mcp.json_rpc import Json, RpcFault, RpcMessage, encode_notification, encode_result, finish_result
from toolyard.serving.mcp.sessions import McpSession
from toolyard.serving.routing import caller_of
from toolyard.serving.sse import watch_disconnect
from toolyard.serving.subscribers import Subscriber, Subscribers, nothing

_CHANGED = encode_notification(LIST_CHANGED)


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
