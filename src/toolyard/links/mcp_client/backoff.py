"""`Backoff`: how soon a server may be tried again, the longer the more often it failed lately."""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import SystemRandom

FREE = 3
PATIENT = 1.0
"""Seconds after a failure from which on somebody who needs the server may have it tried."""
_CHANCE = SystemRandom().random


class Backoff:
    """The first losses after a healthy time cost nothing; each further one, and each failure, twice the last."""

    def __init__(
        self,
        first: float,
        longest: float,
        healthy: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = _CHANCE,
    ) -> None:
        self._first = first
        self._longest = longest
        self._healthy = healthy
        self._clock = clock
        self._chance = chance
        self._losses = 0
        self._failures = 0
        self._up_since: float | None = None
        self._not_before = 0.0
        self._failed = 0.0

    def up(self) -> None:
        """It works now."""
        self._up_since = self._clock()

    def failed(self) -> None:
        """It could not be reached, or was lost."""
        now = self._failed = self._clock()
        up_since, self._up_since = self._up_since, None
        if up_since is not None:
            if now - up_since >= self._healthy:
                self._losses = self._failures = 0
            self._losses += 1
            if self._losses <= FREE:
                self._failures, self._not_before = 0, now
                return
        self._failures += 1
        delay = min(self._first * 2 ** min(self._failures - 1, 32), self._longest)
        # Spread, so that many clients of one server do not all come back at the same moment.
        self._not_before = now + delay * (0.5 + self._chance() / 2)

    def left(self, *, asked: bool = False) -> float:
        """Seconds until it may be tried again; if somebody `asked` for it, that is never long."""
        now = self._clock()
        left = self._not_before - now
        return max(min(left, self._failed + PATIENT - now) if asked else left, 0.0)
