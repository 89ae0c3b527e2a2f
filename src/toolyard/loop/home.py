"""The home loop: one event loop in a thread of its own, for sync callers of async code.

State that awaits lives there. Sync code posts to it from any thread; async code on it must use the
a-twin, since waiting for the loop on the loop would never end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from toolyard.loop.forking import leave, renewed_in_child
from toolyard.model.errors import SyncInAsyncError

T = TypeVar("T")


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
