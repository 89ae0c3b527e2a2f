"""A pause of the cyclic garbage collector while a large document is parsed.

A parser allocates hundreds of thousands of containers that are all reachable, and the collections this triggers cost a
third to a half of the parse for nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LARGE = 64 * 1024
"""Size in bytes from which pausing the garbage collector is worth taking its lock."""

_MANY = 50_000
"""Number of containers that take the garbage collector milliseconds to traverse."""


class _Pauses:
    """Process-wide count of open pauses, and whether the last one to end enables the collector again."""

    lock = threading.Lock()
    open = 0
    resume = False


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable automatic garbage collection in all threads for the duration of the block.

    Blocks may nest and overlap across threads: the last to end restores the state that the first one found, so
    the collector stays off in a process that had disabled it.
    """
    with _Pauses.lock:
        if _Pauses.open == 0:
            _Pauses.resume = gc.isenabled()
            gc.disable()
        _Pauses.open += 1
    try:
        yield
    finally:
        with _Pauses.lock:
            _Pauses.open -= 1
            if _Pauses.open == 0 and _Pauses.resume:
                if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                    # Move the new objects to the oldest generation at once; otherwise they are traversed twice.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
