"""`LaneLoop`: an event loop whose passes stay short, whoever has how much to be done. Only where there is epoll."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, cast

from toolyard.serving.lanes import Lanes

_BACKLOG = 64
"""Of so many that wait to be taken over, one more is taken at a time, or they would wait for ever longer."""


class LaneSelector(selectors.EpollSelector):
    """The selector of an event loop whose files may have lanes. Where Python keeps the epoll is its own matter."""

    _selector_cls = Lanes

    @property
    def lanes(self) -> Lanes:
        """What it waits with."""
        return cast(Lanes, cast(Any, self)._selector)


class LaneLoop(asyncio.SelectorEventLoop):
    """Connections are read from in turn among their keys, and what threads hand over is taken one at a time.

    Calls that were begun together end together, each in its thread. If the loop took over all their results in one
    pass, as loops do, whoever asked for something else would wait for all their answers to be written. Threads' calls
    keep their order among themselves, and those of the loop's own thread theirs.
    """

    def __init__(self) -> None:
        selector = LaneSelector()
        super().__init__(selector)
        self.lanes: Lanes = selector.lanes
        self._handed: deque[asyncio.Handle] = deque()
        """What threads want called, in the order in which they came."""
        self._coming = False
        """Whether `_take_over` will be called."""

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call something on the loop soon; this may be said by any thread."""
        own = cast(Any, self)
        if own._thread_id == threading.get_ident():
            handle = self.call_soon(callback, *args, context=context)
            # A signal handler says so on the loop's own thread, too, while that waits.
            own._write_to_self()
            return handle
        own._check_closed()
        if self.get_debug():
            own._check_callback(callback, "call_soon_threadsafe")
        handle = asyncio.Handle(callback, args, self, context)
        self._handed.append(handle)
        # Two threads may find that nobody comes; then it is done twice, and the second finds less to do.
        if not self._coming:
            self._coming = True
            try:
                super().call_soon_threadsafe(self._take_over)
            except RuntimeError:
                # The loop is closed.
                self._handed.clear()
                self._coming = False
                raise
        return handle

    def close(self) -> None:
        """Call nothing any more."""
        super().close()
        self._handed.clear()

    def _take_over(self) -> None:
        handed = self._handed
        try:
            for _ in range(1 + len(handed) // _BACKLOG if self.lanes.shared else len(handed)):
                if handed:
                    handle = handed.popleft()
                    if not handle.cancelled():
                        handle._run()
        finally:
            # Also after a SystemExit: the loop is run again to clean up. In this order: whoever hands something over
            # after the next line sees to it.
            self._coming = False
            if handed:
                self._coming = True
                self.call_soon(self._take_over)
