"""Streams to clients: encoding of server-sent events, detection of disconnects, and `Subscribers`.

`Subscribers` keeps all open streams, to notify clients of catalog changes and to limit the number of streams.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from starlette.types import Receive

from toolyard.serving.http_fault import make_overloaded

RETRY_MS = 1000
"""Milliseconds after which a client should reconnect when a stream breaks."""
HEARTBEAT_SECONDS = 15.0
"""Seconds of silence after which a comment is sent, to keep proxies from closing the connection."""

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    # Keeps nginx from buffering events.
    (b"x-accel-buffering", b"no"),
)
COMMENT = b": \n\n"


def write_event(
    data: bytes | None = None,
    *,
    kind: str | None = None,
    id: str | None = None,  # noqa: A002 - the field's name in the standard
    retry: int | None = None,
) -> bytes:
    """Encode an event; `data` is a single line. Without data, clients dispatch no event, but do remember the id."""
    lines = [b"" if id is None else b"id: %b\n" % id.encode(), b"" if retry is None else b"retry: %d\n" % retry]
    lines += [b"" if kind is None else b"event: %b\n" % kind.encode(), b"" if data is None else b"data: %b\n" % data]
    return b"".join((*lines, b"\n"))


@asynccontextmanager
async def watch_disconnect(receive: Receive, gone: Callable[[], object]) -> AsyncIterator[None]:
    """Call `gone` if the client disconnects inside this block. The request body must have been read."""
    task = asyncio.get_running_loop().create_task(await_disconnect(receive, gone))
    try:
        yield
    finally:
        task.cancel()


async def await_disconnect(receive: Receive, gone: Callable[[], object]) -> None:
    """Wait for the client to disconnect, then call `gone`. The request body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone()


class Subscriber(msgspec.Struct, eq=False):
    """One open stream, which is notified of catalog changes."""

    owner: str
    changed: Callable[[], None]
    """Called on each change; must not block."""
    end: Callable[[], None]
    """Called to close the stream, to make room for another or because the server stops."""


class Subscribers:
    """All open streams, oldest first. At the limit, the owner with the most streams loses its oldest."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self._open: dict[Subscriber, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def join(self, subscriber: Subscriber) -> None:
        """Add a stream; raises `HttpFault` 429 at the limit if no other owner has more streams."""
        if len(self._open) >= self._limit:
            self._make_room(subscriber.owner)
        self._open[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a stream, if it is present."""
        self._open.pop(subscriber, None)

    def notify_all(self) -> None:
        """Notify all streams that the catalog has changed."""
        for subscriber in list(self._open):
            subscriber.changed()

    def end_all(self) -> None:
        """End all streams, because the server stops."""
        for subscriber in list(self._open):
            subscriber.end()

    def end_unless(self, stays: Callable[[str], bool]) -> None:
        """End the streams of owners for which `stays` is false."""
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


def no_op() -> None:
    """For the callbacks of a subscriber that need no action."""
