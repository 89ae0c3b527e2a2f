"""The home loop: one event loop in a thread of its own, for sync callers of async code.

State that awaits lives there. Sync code posts to it from any thread; async code on it must use the
a-twin, since waiting for the loop on the loop would never end. `PerLoop` is for what every loop has one of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from toolyard.loop.threads import leave, renewed_in_child
from toolyard.model.errors import SyncInAsyncError

T = TypeVar("T")
P = ParamSpec("P")


class HomeLoop:
    """Started on first use, a daemon, closed with `close`; usable again after that."""

    def __init__(self, name: str = "toolyard-home") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        renewed_in_child(self)

    def run(self, work: Coroutine[Any, Any, T], *, twin: str) -> T:
        """Run `work` on the home loop and wait; on the home loop itself, raise and name the `twin`."""
        if self.is_here() or link_loop.is_here():
            work.close()
            which = "home loop" if self.is_here() else "loop of links"
            raise SyncInAsyncError(f"this is the {which}, which must not wait for itself; await {twin} instead")
        future: Future[T] | None = None
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._started())
            return future.result()
        except BaseException:
            # KeyboardInterrupt in the waiting thread: do not leave the work running unseen.
            if future is not None:
                future.cancel()
            raise

    def sync_twin(self, amethod: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        """The method of the same signature and the same words for a thread, which waits: `close` of `aclose`."""
        name = amethod.__name__

        @wraps(amethod)
        def method(*args: P.args, **options: P.kwargs) -> T:
            # By its name: a subclass may have another.
            work: Coroutine[Any, Any, T] = getattr(args[0], name)(*args[1:], **options)
            return self.run(work, twin=name)

        method.__name__, method.__qualname__ = name[1:], amethod.__qualname__.replace(name, name[1:])
        return cast("Callable[P, T]", method)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have `work` run on the loop; nobody waits here."""
        return asyncio.run_coroutine_threadsafe(work, self._started())

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on this loop and await it from any other; cancelled, it is cancelled too."""
        if self.is_here():
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def call_soon(self, function: Callable[[], object]) -> None:
        """Have a function called on the loop, soon."""
        self._started().call_soon_threadsafe(function)

    def is_here(self) -> bool:
        """True on the loop's own thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Stop the loop and its thread; unfinished work is cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        if threading.current_thread() is not thread:
            thread.join()

    def forked(self) -> None:
        """In a child there is no such thread, and the loop is the parent's."""
        leave(self._loop)
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                loop = asyncio.new_event_loop()
                self._loop = loop
                self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            with self._lock:
                # Whatever ended the loop, nobody may post to it any more.
                if self._loop is loop:
                    self._loop = self._thread = None
            _wind_up(loop)


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    try:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


home_loop = HomeLoop()
"""The application's one home loop."""

link_loop = HomeLoop("toolyard-links")
"""Where connections to other processes live that must be tended all the time; no tool of this process runs there."""


class Closable(Protocol):
    """What can be closed on its own loop."""

    async def aclose(self) -> None:
        """Let go of it."""


Closes = TypeVar("Closes", bound=Closable)


class PerLoop(Generic[Closes]):
    """One `Closes` for each loop; closed with this, or at the latest when its loop is shut down."""

    def __init__(self, make: Callable[[], Closes]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._kept: dict[asyncio.AbstractEventLoop, _Kept[Closes]] = {}

    async def here(self) -> Closes:
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

    def _taken(self) -> list[tuple[asyncio.AbstractEventLoop, _Kept[Closes]]]:
        with self._lock:
            kept, self._kept = self._kept, {}
        return list(kept.items())


class _Kept(Generic[Closes]):
    def __init__(self, thing: Closes) -> None:
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


def _close_there(loop: asyncio.AbstractEventLoop, kept: _Kept[Closes]) -> None:
    def start() -> None:
        task = loop.create_task(kept.keeper.aclose())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)

    with suppress(RuntimeError):  # closed already, and the thing with it
        loop.call_soon_threadsafe(start)
