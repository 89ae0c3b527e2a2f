"""The home loop: one event loop in a thread of its own, for sync callers of async code.

State that awaits lives there. Sync code posts to it from any thread; async code on it must use the
a-twin, since waiting for the loop on the loop would never end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from toolyard.model.errors import SyncInAsyncError

T = TypeVar("T")


class HomeLoop:
    """Started on first use, a daemon, closed with `close`; usable again after that."""

    def __init__(self, name: str = "toolyard-home") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T], *, twin: str) -> T:
        """Run `work` on the home loop and wait; on the home loop itself, raise and name the `twin`."""
        if threading.current_thread() is self._thread:
            work.close()
            raise SyncInAsyncError(f"this is the home loop, which must not wait for itself; await {twin} instead")
        future: Future[T] | None = None
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._started())
            return future.result()
        except BaseException:
            # KeyboardInterrupt in the waiting thread: do not leave the work running unseen.
            if future is not None:
                future.cancel()
            raise

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
