"""Server-sent events as they are written, and clients of streams that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import Receive

RETRY_MS = 1000
"""When a client is to come back after a stream broke off."""
BEAT = 15.0
"""Seconds of silence after which something is said, so that nobody in between takes the connection for dead."""

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
    """One event; `data` is a line. Without it nobody is told anything, but the id counts."""
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
