"""`Reply`: the answer to one request over HTTP, JSON if nothing else is to be said, else a stream from then on."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.mcp.event_stream import EventStream, new_stream_name, send_stream
from toolyard.serving.mcp.json_rpc import WITH_PRIMING
from toolyard.serving.mcp.replays import Replays
from toolyard.serving.mcp.sessions import McpSession
from toolyard.serving.responses import JsonResponse

_BOTH = "application/json, text/event-stream"


class AcceptedTypes:
    """What kinds of answer a client takes."""

    __slots__ = ("json", "stream")

    def __init__(self, json: bool, stream: bool) -> None:
        self.json = json
        self.stream = stream


_ALL = AcceptedTypes(True, True)


def answer_accepted() -> Response:
    """There is nothing to say about it here."""
    return Response(status_code=202)


def read_accept(request: Request) -> AcceptedTypes:
    """What the client takes; 406 if that is nothing that is ever sent here."""
    given = request.headers.get("accept")
    if given is None or given == _BOTH:
        return _ALL
    kinds = {part.partition(";")[0].strip().lower() for part in given.split(",")}
    everything = "*/*" in kinds
    found = AcceptedTypes(
        everything or bool(kinds & {"application/json", "application/*"}),
        everything or bool(kinds & {"text/event-stream", "text/*"}),
    )
    if not found.json and not found.stream:
        raise HttpFault(
            406, "request.not_acceptable", "answers are application/json or text/event-stream; accept one, or both"
        )
    return found


def refuse_head(request: Request) -> None:
    """A stream has no end that a HEAD could tell of."""
    if request.method == "HEAD":
        raise HttpFault(405, "request.method_not_allowed", "HEAD is not allowed here", headers=((b"allow", b"GET"),))


class Reply:
    """Collects what is said before the answer. From the first such thing on, the answer is a stream.

    What ends it returns a response to be sent, or None if the stream was the answer.
    """

    __slots__ = ("_replays", "_send", "_session", "_task", "stream")

    def __init__(self, replays: Replays, send: Send, session: McpSession | None) -> None:
        self._replays = replays
        self._send = send
        self._session = session
        self._task: asyncio.Task[None] | None = None
        self.stream: EventStream | None = None

    def tell(self, message: bytes) -> None:
        """Say something before the answer."""
        stream = self.stream or self._begin()
        stream.put(message)

    def _begin(self) -> EventStream:
        session = self._session
        if session is None:
            stream = EventStream()
        else:
            stream = EventStream(new_stream_name())
            self._replays.add(session.owner, session.id, stream)
            if session.version >= WITH_PRIMING:
                stream.prime()
        stream.take_over(self)
        self._task = asyncio.get_running_loop().create_task(send_stream(self._send, stream, self))
        self.stream = stream
        return stream

    async def finish(self, message: bytes) -> Response | None:
        """The answer itself, the last that is said."""
        if self.stream is None or self._task is None:
            return JsonResponse(message)
        self.stream.put_answer(message)
        self.stream.end()
        if self._session is not None:
            self._replays.settle()
        await self._task
        return None

    async def finish_as_stream(self, message: bytes) -> Response | None:
        """The answer for a client that takes nothing but a stream."""
        if self.stream is None:
            self._begin()
        return await self.finish(message)
