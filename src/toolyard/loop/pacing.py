"""How fast to go, and how long to leave alone who failed.

`TokenBucket`: so much a second, so much at once after a rest. `ReconnectBackoff`: one server that is connected to again
and again. `Breaker`: many servers, of which those that fail in a row are left alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from secrets import SystemRandom

from toolyard.model.errors import Unavailable


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


_FREE_LOSSES = 3
_ASKED_SECONDS = 1.0
"""Seconds after a failure from which on somebody who needs the server may have it tried."""


class ReconnectBackoff:
    """The first losses after a healthy time cost nothing; each further one, and each failure, twice the last."""

    def __init__(
        self,
        first: float,
        longest: float,
        healthy: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = draw_chance,
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
            if self._losses <= _FREE_LOSSES:
                self._failures, self._not_before = 0, now
                return
        self._failures += 1
        # Spread, so that many clients of one server do not all come back at the same moment.
        self._not_before = now + backoff_delay(self._failures, self._first, self._longest, chance=self._chance())

    def left(self, *, asked: bool = False) -> float:
        """Seconds until it may be tried again; if somebody `asked` for it, that is never long."""
        now = self._clock()
        left = self._not_before - now
        return max(min(left, self._failed + _ASKED_SECONDS - now) if asked else left, 0.0)


MAX_ORIGINS = 1024


class _Trouble:
    """What is known of one failing origin."""

    __slots__ = ("failures", "opened", "probed")

    def __init__(self) -> None:
        self.failures = 0
        self.opened: float | None = None
        self.probed: float | None = None


class Breaker:
    """Counts failures in a row for each origin; thread safe.

    After `failures` of them nothing is let through for `pause` seconds, then one call as a probe: its success closes
    the circuit, its failure begins another pause. A probe that never tells its outcome, because it was cancelled, is
    followed by the next after another pause. What counts as a failure is for the caller to say: no answer and 5xx
    are, 4xx and 429 are answers. Only failing origins are remembered, the latest `origins` of them.
    """

    def __init__(
        self, clock: Callable[[], float], failures: int = 5, pause: float = 30.0, *, origins: int = MAX_ORIGINS
    ) -> None:
        self._clock = clock
        self._failures = failures
        self._pause = pause
        self._origins = origins
        self._lock = threading.Lock()
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()

    def check(self, origin: str) -> None:
        """`Unavailable`, with when to try again, while the origin is left alone."""
        if not self._troubles:
            return
        with self._lock:
            trouble = self._troubles.get(origin)
            if trouble is None or trouble.opened is None:
                return
            now = self._clock()
            since = trouble.opened if trouble.probed is None else trouble.probed
            left = since + self._pause - now
            if left <= 0:
                trouble.probed = now
                return
            failures = trouble.failures
        raise Unavailable(
            f"{origin} failed {failures} times in a row and is left alone for {left:.3g} s more", retry_after=left
        )

    def succeeded(self, origin: str) -> None:
        """The origin answered: all is forgotten."""
        if self._troubles:
            with self._lock:
                self._troubles.pop(origin, None)

    def failed(self, origin: str) -> None:
        """The origin failed once more."""
        with self._lock:
            trouble = self._troubles.setdefault(origin, _Trouble())
            self._troubles.move_to_end(origin)
            if len(self._troubles) > self._origins:
                self._troubles.popitem(last=False)
            if trouble.opened is not None and trouble.probed is None:
                return  # began before the pause, which it does not make longer
            trouble.failures += 1
            if trouble.failures >= self._failures:
                trouble.opened, trouble.probed = self._clock(), None
