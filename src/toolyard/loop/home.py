"""The home loop: an event loop in a dedicated thread, for sync callers of async code.

Async state lives there. Sync code submits work to it from any thread; code that runs on it must use the async twins,
since waiting for the loop on the loop would deadlock. `PerLoop` keeps one resource for each event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

from toolyard.loop.threads import keep_alive, reset_after_fork
from toolyard.model.errors import SyncInAsyncError

T = TypeVar("T")
P = ParamSpec("P")


class HomeLoop:
    """An event loop in a daemon thread. Starts on first use, also after `close`."""

    def __init__(self, name: str = "toolyard-home") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        reset_after_fork(self)

    def run(self, work: Coroutine[Any, Any, T], *, twin: str) -> T:
        """Run `work` on the loop and wait for its result; `SyncInAsyncError` on the loop itself, naming the `twin`."""
        if self.is_here() or link_loop.is_here():
            work.close()
            which = "home loop" if self.is_here() else "loop of links"
            raise SyncInAsyncError(f"this is the {which}, which must not wait for itself; await {twin} instead")
        future: Future[T] | None = None
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._ensure_started())
            return future.result()
        except BaseException:
            # After a KeyboardInterrupt in the waiting thread, do not leave the work running.
            if future is not None:
                future.cancel()
            raise

    def sync_twin(self, amethod: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
        """A sync method with the signature and docstring of `amethod`, such as `close` for `aclose`."""
        name = amethod.__name__

        @wraps(amethod)
        def method(*args: P.args, **options: P.kwargs) -> T:
            # Looked up by name, since a subclass may override it.
            work: Coroutine[Any, Any, T] = getattr(args[0], name)(*args[1:], **options)
            return self.run(work, twin=name)

        method.__name__, method.__qualname__ = name[1:], amethod.__qualname__.replace(name, name[1:])
        return cast("Callable[P, T]", method)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._ensure_started())

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on this loop and await it from any other; cancelling this cancels `work`."""
        if self.is_here():
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def call_soon(self, function: Callable[[], object]) -> None:
        """Schedule a function call on the loop."""
        self._ensure_started().call_soon_threadsafe(function)

    def is_here(self) -> bool:
        """True in the loop's thread."""
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

    def reset_in_child(self) -> None:
        """Reset in a forked child, which has no such thread and must not touch the parent's loop."""
        keep_alive(self._loop)
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def _ensure_started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                loop = asyncio.new_event_loop()
                self._loop = loop
                self._thread = threading.Thread(target=self._run_loop, args=(loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            with self._lock:
                # Whatever ended the loop, no work may be submitted to it any more.
                if self._loop is loop:
                    self._loop = self._thread = None
            _cancel_and_close(loop)


def _cancel_and_close(loop: asyncio.AbstractEventLoop) -> None:
    try:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


home_loop = HomeLoop()
"""The home loop of the process."""

link_loop = HomeLoop("toolyard-links")
"""The loop of connections that need constant attention. No user code runs there that could block it."""


class Closable(Protocol):
    """A resource that is closed on the loop that uses it."""

    async def aclose(self) -> None:
        """Release the resource."""


Closes = TypeVar("Closes", bound=Closable)


class PerLoop(Generic[Closes]):
    """One resource for each event loop; closed by `close`, or at the latest when its loop shuts down."""

    def __init__(self, make: Callable[[], Closes]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._resources: dict[asyncio.AbstractEventLoop, tuple[Closes, AsyncGenerator[None, None]]] = {}
        """The resource of each loop, and the generator that closes it."""

    async def get(self) -> Closes:
        """The resource of the running loop, created on first use."""
        loop = asyncio.get_running_loop()
        known = self._resources.get(loop)  # at once: another thread may be closing all
        if known is not None:
            return known[0]
        with self._lock:
            for ended in [other for other in self._resources if other.is_closed()]:
                del self._resources[ended]
            resource = self._make()
            closer = _close_at_end(resource)
            self._resources[loop] = resource, closer
        await anext(closer)
        return resource

    def close(self) -> None:
        """Schedule each resource to be closed on its loop."""
        for loop, closer in self._remove_all():
            _close_on(loop, closer)

    async def aclose(self) -> None:
        """`close`, but waits for the resource of the running loop."""
        here = asyncio.get_running_loop()
        for loop, closer in self._remove_all():
            if loop is here:
                await closer.aclose()
            else:
                _close_on(loop, closer)

    def _remove_all(self) -> list[tuple[asyncio.AbstractEventLoop, AsyncGenerator[None, None]]]:
        with self._lock:
            resources, self._resources = self._resources, {}
        return [(loop, closer) for loop, (_, closer) in resources.items()]


async def _close_at_end(resource: Closable) -> AsyncGenerator[None, None]:
    """Close the resource when the generator is closed; a loop closes all its open generators at shutdown."""
    try:
        yield
    finally:
        await resource.aclose()


_closing: set[asyncio.Task[None]] = set()
"""Strong references to closing tasks, since an event loop keeps only weak ones."""


def _close_on(loop: asyncio.AbstractEventLoop, closer: AsyncGenerator[None, None]) -> None:
    def start() -> None:
        task = loop.create_task(closer.aclose())
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    with suppress(RuntimeError):  # the loop is closed, and with it the resource
        loop.call_soon_threadsafe(start)
