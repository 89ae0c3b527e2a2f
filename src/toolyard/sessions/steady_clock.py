"""`steady_clock`: the time by which sessions and records expire, which nobody sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolyard.sessions.store.base import SessionStore


def steady_clock(store: SessionStore | None, *, dated: bool = False) -> Callable[[], float]:
    """Seconds that pass evenly, even where somebody sets the clock of this machine.

    What is in memory has no use for dates, unless people are shown them (`dated`). What is stored goes by the store's
    clock, which other processes know, as it was when it was opened; a store without `now` has that of this machine.
    """
    if store is None and not dated:
        return time.monotonic
    now: Callable[[], float] = getattr(store, "now", time.time)
    ahead = now() - time.monotonic()
    return lambda: time.monotonic() + ahead
