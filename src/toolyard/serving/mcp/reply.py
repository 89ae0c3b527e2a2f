"""`Reply`: the answer to one request over HTTP, JSON if nothing else is to be said, else a stream from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from toolyard.serving.faults import HttpFault
from toolyard.serving.mcp.streams import Stream, new_name, pour
from toolyard.serving.mcp.wire import WITH_PRIMING
from toolyard.serving.request import Request
from toolyard.serving.response import JSON, Response

if TYPE_CHECKING:
    from toolyard.serving.mcp.face import Face
    from toolyard.serving.mcp.sessions import McpSession

_HEAR = "toolyard.hear"
_BOTH = b"application/json, text/event-stream"
Event = Literal["gone", "stopping"]


class Accepted:
    """What kinds of answer a client takes."""

    __slots__ = ("json", "stream")

    def __init__(self, json: bool, stream: bool) -> None:
        self.json = json
        self.stream = stream


_ALL = Accepted(True, True)

ACCEPTED = Response(202)
"""There is nothing to say about it here."""


def accepted(request: Request) -> Accepted:
    """What the client takes; 406 if that is nothing that is ever sent here."""
    given = request.headers.get(b"accept")
    if given is None or given == _BOTH:
        return _ALL
    kinds = {part.partition(b";")[0].strip().lower() for part in given.split(b",")}
    everything = b"*/*" in kinds
    found = Accepted(
        everything or bool(kinds & {b"application/json", b"application/*"}),
        everything or bool(kinds & {b"text/event-stream", b"text/*"}),
    )
    if not found.json and not found.stream:
        raise HttpFault(
            406, "request.not_acceptable", "answers are application/json or text/event-stream; accept one, or both"
        )
    return found


def hear(request: Request, told: Callable[[Event], None] | None) -> bool:
    """Have somebody told when the client is gone, where the server can tell; False if it is gone already."""
    extensions = request.scope.get("extensions")
    function = None if extensions is None else extensions.get(_HEAR)
    here: bool = function is None or function(told)
    return here


class Reply:
    """Collects what is said before the answer. From the first such thing on, the answer is a stream."""

    __slots__ = ("_face", "_request", "_session", "_task", "stream")

    def __init__(self, face: Face, request: Request, session: McpSession | None) -> None:
        self._face = face
        self._request = request
        self._session = session
        self._task: asyncio.Task[None] | None = None
        self.stream: Stream | None = None

    def tell(self, message: bytes) -> None:
        """Say something before the answer."""
        if self.stream is None:
            self._begin()
        assert self.stream is not None
        self.stream.put(message)

    def _begin(self) -> None:
        session = self._session
        if session is None:
            self.stream = Stream()
        else:
            self.stream = Stream(new_name())
            self._face.replays.add(session.owner, session.id, self.stream)
            if session.version >= WITH_PRIMING:
                self.stream.prime()
        self.stream.take_over(self)
        self._task = asyncio.get_running_loop().create_task(pour(self._request, self.stream, self))

    async def finish(self, message: bytes) -> Response:
        """The answer itself, the last that is said."""
        if self.stream is None or self._task is None:
            return Response(200, message, JSON)
        self.stream.put_answer(message)
        self.stream.end()
        if self._session is not None:
            self._face.replays.settle()
        await self._task
        return Response()

    async def only_stream(self, message: bytes) -> Response:
        """The answer for a client that takes nothing but a stream."""
        if self.stream is None:
            self._begin()
        return await self.finish(message)
