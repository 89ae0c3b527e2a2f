"""Streams on which clients wait for news: `GET /mcp` of a session, and `subscriptions/listen` without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.serving.faults import HttpFault
from toolyard.serving.mcp.hub import Listening
from toolyard.serving.mcp.reply import Accepted, Event, accepted, hear
from toolyard.serving.mcp.results import finished
from toolyard.serving.mcp.streams import Stream, new_name, pour
from toolyard.serving.mcp.wire import (
    INVALID_PARAMS,
    LIST_CHANGED,
    SUBSCRIPTION_ID,
    Json,
    Message,
    RpcFault,
    notification,
    result_text,
)
from toolyard.serving.request import Request
from toolyard.serving.response import Response

if TYPE_CHECKING:
    from toolyard.serving.mcp.face import Face
    from toolyard.serving.mcp.sessions import McpSession

_CHANGED = notification(LIST_CHANGED)


def nothing() -> None:
    """For a stream that others tell of changes."""


async def stand(
    face: Face,
    request: Request,
    stream: Stream,
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
    leave = (lambda: stream.detach(reader)) if answering else stream.end
    listening = Listening(request.principal.owner or "", changed, leave)
    face.hub.join(listening)
    stream.take_over(reader)

    def told(event: Event) -> None:
        # Whoever is gone may come back for the rest, so only a stop ends the stream itself.
        if event == "gone":
            stream.detach(reader)
        elif not answering:
            stream.end()

    hear(request, told)
    try:
        await pour(request, stream, reader, after=after, silent=silent)
    finally:
        hear(request, None)
        stream.detach(reader)
        face.hub.leave(listening)


async def listen(face: Face, request: Request, message: Message, takes: Accepted) -> Response:
    """`subscriptions/listen`: first what is listened to, then what happens, each tagged with the request's id."""
    tag, honoured, told = honour(message)
    if not takes.stream:
        raise HttpFault(406, "request.not_acceptable", "what is listened to comes as text/event-stream; accept it")
    stream = _Closing(result_text(message.id, finished({"_meta": dict(tag)}, stateless=True)))
    stream.put_answer(told)
    changed = notification(LIST_CHANGED, {"_meta": tag})
    await stand(face, request, stream, (lambda: stream.put(changed)) if honoured else nothing)
    return Response()


def honour(message: Message) -> tuple[Json, bool, bytes]:
    """What a `subscriptions/listen` asks for: the tag of what it is told, whether that is anything, and the first."""
    wanted = message.params.get("notifications")
    if type(wanted) is not dict:
        raise RpcFault(INVALID_PARAMS, "params.notifications must be an object")
    tag: Json = {SUBSCRIPTION_ID: message.id}
    honoured = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
    told = {"notifications": honoured, "_meta": tag}
    return tag, bool(honoured), notification("notifications/subscriptions/acknowledged", told)


class _Closing(Stream):
    """A stream that says it is over, when it ends."""

    __slots__ = ("_last",)

    def __init__(self, last: bytes) -> None:
        super().__init__()
        self._last = last

    def end(self) -> None:
        """With the result of the request that began it."""
        self.put_answer(self._last)
        super().end()


async def standing(face: Face, request: Request, session: McpSession) -> Response:
    """`GET`: what happens in a session beside its requests, or the rest of an answer that broke off."""
    if not accepted(request).stream:
        raise HttpFault(406, "request.not_acceptable", "what comes here is text/event-stream; accept it")
    last = request.headers.get(b"last-event-id")
    name, number = ("", 0) if last is None else _event(last)
    stream = face.replays.find(session.owner, session.id, name)
    if stream is not None and number <= stream.count:
        await stand(face, request, stream, after=number, answering=True)
        return Response()
    if session.notices is None or session.notices.over:
        session.notices = Stream(new_name())
    notices = session.notices
    after = notices.count
    if name == notices.name and number <= after:
        after = number
    elif last is not None:
        # Of a stream that is not kept, or not here: what happened since then, nobody knows.
        notices.put(_CHANGED)
    await stand(face, request, notices, after=after, silent=True)
    return Response()


def _event(last: bytes) -> tuple[str, int]:
    name, _, number = last.decode("latin-1").partition(".")
    usable = number.isascii() and number.isdigit() and len(number) < 12
    return (name, int(number)) if usable else ("", 0)
