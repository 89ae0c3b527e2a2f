"""`Pace`: how long a connection rests that was refused; `Rests`: how those who rested come back, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

_RATE = 100.0
LEAST = 0.1
"""Seconds of rest after one refusal that is not one of many."""
_MOST = 1.0
"""Not longer: behind a proxy, the next request of the connection may be somebody else's."""
_KNOWN = 10_000
_GOLDEN = 0.618034
"""Multiples of it, modulo 1, keep away from each other."""
_APART = 0.0005
"""Seconds between one that comes back and the next; whoever else is served gets in between."""
_GONE = 64
"""Those that are looked for at a time and are not there any more: they take nobody's turn."""


class Pace:
    """Spreads the refusals of each key over time: the more of them, the longer each connection rests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str | None, float] = {}
        self._spread = 0.0

    def pause(self, key_id: str | None) -> float:
        """Seconds that the connection of one more refusal is to rest. None stands for all who have no key."""
        now = self._clock()
        turn = max(self._next.get(key_id, 0.0), now) + 1 / _RATE
        if len(self._next) >= _KNOWN:
            self._next.clear()
        if turn - now < _MOST:
            self._next[key_id] = turn
            return max(LEAST, turn - now)
        # All that rest equally long would come back together.
        self._spread = (self._spread + _GOLDEN) % 1
        return _MOST * (1 + self._spread) / 2


class Rests:
    """Wakes whoever rests when it is time, and never two at once, however late it is. Used on one event loop."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._number = count()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, loop: asyncio.AbstractEventLoop, seconds: float, wake: Callable[[], object]) -> None:
        """Call `wake` after so many seconds, or a little later. It says False if there was nobody to wake."""
        due = loop.time() + seconds
        heappush(self._due, (due, next(self._number), wake))
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        # A timer may come a little early, by as much as the clock cannot tell.
        until, due = loop.time() + _APART, self._due
        self._timer = None
        for _ in range(_GONE):
            if not due or due[0][0] > until or heappop(due)[2]() is not False:
                break
        if due and self._timer is None:
            self._timer = loop.call_at(max(due[0][0], until), self._wake, loop)
