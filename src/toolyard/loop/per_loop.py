"""`PerLoop`: a thing for each event loop, made when it is first asked for there and closed there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What can be closed on its own loop."""

    async def aclose(self) -> None:
        """Let go of it."""


T = TypeVar("T", bound=Closable)


class PerLoop(Generic[T]):
    """One `T` for each loop; closed with this, or at the latest when its loop is shut down."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._kept: dict[asyncio.AbstractEventLoop, _Kept[T]] = {}

    async def here(self) -> T:
        """The running loop's own."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is not None:
            return kept.thing
        with self._lock:
            for ended in [other for other in self._kept if other.is_closed()]:
                del self._kept[ended]
            kept = self._kept[loop] = _Kept(self._make())
        await anext(kept.keeper)
        return kept.thing

    def close(self) -> None:
        """Close all of them, each by its own loop, soon."""
        for loop, kept in self._taken():
            _close_there(loop, kept)

    async def aclose(self) -> None:
        """`close`, and the running loop's own is closed when it returns."""
        here = asyncio.get_running_loop()
        for loop, kept in self._taken():
            if loop is here:
                await kept.keeper.aclose()
            else:
                _close_there(loop, kept)

    def _taken(self) -> list[tuple[asyncio.AbstractEventLoop, _Kept[T]]]:
        with self._lock:
            kept, self._kept = self._kept, {}
        return list(kept.items())


class _Kept(Generic[T]):
    def __init__(self, thing: T) -> None:
        self.thing = thing
        self.keeper = _keep(thing)


async def _keep(thing: Closable) -> AsyncGenerator[None, None]:
    """Closes the thing when it is closed itself, which a loop does with every generator left at its end."""
    try:
        yield
    finally:
        await thing.aclose()


_CLOSING: set[asyncio.Task[None]] = set()
"""A loop keeps no strong reference to its tasks."""


def _close_there(loop: asyncio.AbstractEventLoop, kept: _Kept[T]) -> None:
    def start() -> None:
        task = loop.create_task(kept.keeper.aclose())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)

    with suppress(RuntimeError):  # closed already, and the thing with it
        loop.call_soon_threadsafe(start)
