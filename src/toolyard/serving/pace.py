"""`Pace`: how long a connection rests that was refused, so that refusing cannot keep the server busy."""

from __future__ import annotations

import time
from collections.abc import Callable

_RATE = 100.0
LEAST = 0.1
"""Seconds of rest after one refusal that is not one of many."""
_MOST = 1.0
"""Not longer: behind a proxy, the next request of the connection may be somebody else's."""
_KNOWN = 10_000
_GOLDEN = 0.618034
"""Multiples of it, modulo 1, keep away from each other."""


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
