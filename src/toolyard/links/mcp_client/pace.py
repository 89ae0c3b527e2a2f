"""`Pace`: how much a server may say unasked before it is made to wait."""

from __future__ import annotations

import time
from collections.abc import Callable

RATE = 10_000
"""Messages a second that answer nothing."""


class Pace:
    """Lets through what one second allows at once, and from then on as much as time allows."""

    def __init__(self, rate: int = RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._left = float(rate)
        self._since = clock()

    def count(self) -> None:
        """One more."""
        self._left -= 1

    def pause(self) -> float:
        """Seconds not to listen; mostly none."""
        if self._left > 0:
            return 0.0
        now = self._clock()
        self._left = min(self._left + (now - self._since) * self._rate, float(self._rate))
        self._since = now
        return max(-self._left / self._rate, 0.0)
