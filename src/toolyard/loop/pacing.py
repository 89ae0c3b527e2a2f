"""How fast to go: `TokenBucket` (so much a second, so much at once after a rest), and the wait after a failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from secrets import SystemRandom


class TokenBucket:
    """Fills by `rate` tokens a second up to `burst`, full at first. Not locked: its owner has a lock or one loop."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._at = now

    def try_take(self, now: float, amount: float = 1) -> float:
        """Take the amount and return 0; or, if there is less, take nothing and return the seconds until there is."""
        wait = self.seconds_until(amount, now)
        if wait == 0:
            self._tokens -= amount
        return wait

    def seconds_until(self, amount: float, now: float) -> float:
        """Seconds until so much could be taken; more than a burst waits for a full bucket."""
        self._refill(now)
        return max(min(amount, self.burst) - self._tokens, 0.0) / self.rate

    def take(self, amount: float, now: float) -> None:
        """Take it, down to below nothing: who comes next waits the longer. A negative amount is given back."""
        self._refill(now)
        self._tokens = min(self._tokens - amount, self.burst)

    def charge(self, amount: float) -> None:
        """Take more for what has turned out to be more work; a debt is paid off before anything else is let through."""
        # Not more than a burst's worth: one large request must not lock its owner out for long.
        self._tokens = max(self._tokens - amount, -self.burst)

    def is_full(self, now: float) -> bool:
        """True if forgetting this bucket would change nothing."""
        return self._tokens + (now - self._at) * self.rate >= self.burst

    def _refill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * self.rate, self.burst)
        self._at = now


draw_chance: Callable[[], float] = SystemRandom().random
"""A number from 0 to 1 that no seed of the user's program decides."""

_MOST_DOUBLINGS = 32


def backoff_delay(attempt: int, first: float, longest: float = math.inf, *, chance: float = 1.0) -> float:
    """Seconds to wait after the failed attempt of that number, counted from 1.

    `chance`, from 0 to 1, takes up to half of it off, so that those that failed together come back apart.
    """
    return min(first * 2.0 ** min(max(attempt - 1, 0), _MOST_DOUBLINGS), longest) * (0.5 + chance / 2)
