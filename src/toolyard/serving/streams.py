"""Streams to clients: server-sent events as they are written, clients that go away, and all that are open.

`Subscribers` has every open stream, so that each client is notified when the catalog changes, and none has too many.
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
"""When a client is to come back after a stream broke off."""
BEAT = 15.0
"""Seconds of silence after which a comment is sent, so that no proxy takes the connection for dead."""

HEAD = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    # Or a proxy would collect events until it has enough of them.
    (b"x-accel-buffering", b"no"),
)
COMMENT = b": \n\n"


def write_event(
    data: bytes | None = None,
    *,
    kind: str | None = None,
    id: str | None = None,  # noqa: A002 - as the standard has it
    retry: int | None = None,
) -> bytes:
    """One event; `data` is a line. Without it nothing is dispatched, but the id counts."""
    lines = [b"" if id is None else b"id: %b\n" % id.encode(), b"" if retry is None else b"retry: %d\n" % retry]
    lines += [b"" if kind is None else b"event: %b\n" % kind.encode(), b"" if data is None else b"data: %b\n" % data]
    return b"".join((*lines, b"\n"))


@asynccontextmanager
async def watch_disconnect(receive: Receive, gone: Callable[[], object]) -> AsyncIterator[None]:
    """Have `gone` called should the client of a request, whose body was read, be gone before the block is over."""
    task = asyncio.get_running_loop().create_task(await_disconnect(receive, gone))
    try:
        yield
    finally:
        task.cancel()


async def await_disconnect(receive: Receive, gone: Callable[[], object]) -> None:
    """Call `gone` once the client of a request, whose body was read, is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone()


class Subscriber(msgspec.Struct, eq=False):
    """One connected client, which is notified of changes."""

    owner: str
    changed: Callable[[], None]
    """Told of each change; returns at once."""
    end: Callable[[], None]
    """Asked to make room, or told that the server stops."""


class Subscribers:
    """Every open stream, oldest first. Where there are too many, the owner with most loses its oldest."""

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
            subscriber.end()

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


def nothing() -> None:
    """For a stream that others tell of changes."""
