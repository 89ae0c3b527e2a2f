"""Hold the cyclic garbage collector still while a large document is built.

A parser allocates hundreds of thousands of containers that are all still reachable. Each collection it
triggers meanwhile walks them for nothing, which costs a third to a half of the parse.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """How many pauses are open in the process, and whether the last one to close turns collection on again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open = 0
        self.resume = False

    def begin(self) -> None:
        with self.lock:
            if self.open == 0:
                self.resume = gc.isenabled()
                gc.disable()
            self.open += 1

    def end(self) -> None:
        with self.lock:
            self.open -= 1
            if self.open == 0 and self.resume:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def paused_gc() -> Iterator[None]:
    """No automatic collection inside the block, in any thread.

    Blocks nest and overlap across threads: the last to end restores the state the first one found, so a
    process that runs without the collector is left without it.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
