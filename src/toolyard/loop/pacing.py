"""Rate limits and waits after failures.

`TokenBucket` limits a rate, with bursts. `ReconnectBackoff` spaces the connection attempts to one server. `Breaker` is
a circuit breaker for many servers.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from secrets import SystemRandom

import msgspec

from toolyard.model.errors import Unavailable


class TokenBucket:
    """Fills by `rate` tokens a second up to `burst`; starts full. Not thread-safe: the owner must lock it."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._at = now

    def try_take(self, now: float, amount: float = 1) -> float:
        """Take the amount and return 0; if there is less, take nothing and return the seconds until there is enough."""
        wait = self.seconds_until(amount, now)
        if wait == 0:
            self._tokens -= amount
        return wait

    def seconds_until(self, amount: float, now: float) -> float:
        """Seconds until the amount can be taken; an amount above `burst` waits for a full bucket."""
        self._refill(now)
        return max(min(amount, self.burst) - self._tokens, 0.0) / self.rate

    def take(self, amount: float, now: float) -> None:
        """Take the amount unconditionally, if necessary below zero. A negative amount is given back."""
        self._refill(now)
        self._tokens = min(self._tokens - amount, self.burst)

    def charge(self, amount: float) -> None:
        """Take more for work that turned out larger. Debt must be refilled before `try_take` succeeds again."""
        # Limit the debt to one burst: a single large request must not lock its owner out for long.
        self._tokens = max(self._tokens - amount, -self.burst)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * self.rate, self.burst)
        self._at = now


draw_chance: Callable[[], float] = SystemRandom().random
"""A random number from 0 to 1, independent of the seed of the user's program."""

_MOST_DOUBLINGS = 32


def backoff_delay(attempt: int, first: float, longest: float = math.inf, *, chance: float = 1.0) -> float:
    """Exponential backoff: seconds to wait after failed attempt number `attempt`, counted from 1.

    `chance`, from 0 to 1, is the jitter: 0 halves the delay. It spreads clients that failed at the same time.
    """
    return min(first * 2.0 ** min(max(attempt - 1, 0), _MOST_DOUBLINGS), longest) * (0.5 + chance / 2)


_FREE_LOSSES = 3
_ASKED_SECONDS = 1.0
"""Longest wait in seconds after a failure if a caller needs the server now."""


class ReconnectBackoff:
    """Delays between connection attempts to one server.

    The first losses after `healthy` seconds of connection cause no delay; each further loss or failure doubles it.
    """

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

    def record_connection(self) -> None:
        """Record that the connection works."""
        self._up_since = self._clock()

    def record_failure(self) -> None:
        """Record that the connection failed or was lost."""
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
        # Jitter, so that many clients of one server do not all reconnect at the same moment.
        self._not_before = now + backoff_delay(self._failures, self._first, self._longest, chance=self._chance())

    def seconds_left(self, *, asked: bool = False) -> float:
        """Seconds until the next attempt; at most a second after the last failure if a caller `asked` for it."""
        now = self._clock()
        left = self._not_before - now
        return max(min(left, self._failed + _ASKED_SECONDS - now) if asked else left, 0.0)


MAX_ORIGINS = 1024


class _OriginState(msgspec.Struct):
    """The state of one failing origin."""

    failures: int = 0
    opened: float | None = None
    probed: float | None = None


class Breaker:
    """A circuit breaker that counts consecutive failures for each origin. Thread-safe.

    After `failures` of them the circuit opens for `pause` seconds; then one call passes as a probe. Its success closes
    the circuit, its failure starts another pause. If a probe reports no outcome, because it was cancelled, the next one
    passes after another pause. The caller decides what a failure is: no response and 5xx are, 4xx and 429 are not. Only
    the latest `origins` failing origins are remembered.
    """

    def __init__(
        self, clock: Callable[[], float], failures: int = 5, pause: float = 30.0, *, origins: int = MAX_ORIGINS
    ) -> None:
        self._clock = clock
        self._failures = failures
        self._pause = pause
        self._origins = origins
        self._lock = threading.Lock()
        self._failing: OrderedDict[str, _OriginState] = OrderedDict()

    def check(self, origin: str) -> None:
        """Raise `Unavailable` with `retry_after` while the circuit of the origin is open."""
        if not self._failing:
            return
        with self._lock:
            state = self._failing.get(origin)
            if state is None or state.opened is None:
                return
            now = self._clock()
            since = state.opened if state.probed is None else state.probed
            left = since + self._pause - now
            if left <= 0:
                state.probed = now
                return
            failures = state.failures
        raise Unavailable(
            f"{origin} failed {failures} times in a row and is left alone for {left:.3g} s more", retry_after=left
        )

    def record_success(self, origin: str) -> None:
        """Record a response: reset the origin."""
        if self._failing:
            with self._lock:
                self._failing.pop(origin, None)

    def record_failure(self, origin: str) -> None:
        """Record a failure."""
        with self._lock:
            state = self._failing.setdefault(origin, _OriginState())
            self._failing.move_to_end(origin)
            if len(self._failing) > self._origins:
                self._failing.popitem(last=False)
            if state.opened is not None and state.probed is None:
                return  # the call began before the pause and does not extend it
            state.failures += 1
            if state.failures >= self._failures:
                state.opened, state.probed = self._clock(), None
