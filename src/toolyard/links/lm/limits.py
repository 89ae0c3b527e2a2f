"""How fast a model may be asked: requests and tokens a minute, over all threads and loops of a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolyard.model.errors import Unavailable

_MINUTE = 60.0


class Bucket:
    """Fills by `rate` a minute, up to a minute's worth. Whoever takes more than is there waits for it to fill."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = float(rate)
        self._clock = clock
        self._level = float(rate)
        self._at = clock()

    def wait_for(self, amount: float) -> float:
        """Seconds until so much could be taken; more than a minute's worth waits for a full bucket."""
        self._fill()
        return max(min(amount, self._rate) - self._level, 0.0) / self._rate * _MINUTE

    def take(self, amount: float) -> None:
        """Take it, down to below nothing: who comes next waits the longer."""
        self._fill()
        self._level = min(self._level - amount, self._rate)

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._level + (now - self._at) * self._rate / _MINUTE, self._rate)
        self._at = now


class Limits:
    """Both buckets, and a pause that a server asked for."""

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = None if requests_per_minute is None else Bucket(requests_per_minute, clock)
        self._tokens = None if tokens_per_minute is None else Bucket(tokens_per_minute, clock)
        self._paused_until = 0.0

    def reserve(self, tokens: int, deadline: float | None) -> float:
        """Take one request of so many tokens and say how many seconds to wait before it is made.

        `Unavailable`, and nothing is taken, if that would be past the deadline.
        """
        with self._lock:
            now = self._clock()
            waits = [self._paused_until - now, 0.0]
            pairs = [(self._requests, 1), (self._tokens, tokens)]
            waits += [bucket.wait_for(amount) for bucket, amount in pairs if bucket is not None]
            wait = max(waits)
            if deadline is not None and now + wait > deadline:
                raise Unavailable(
                    f"as many requests and tokens as allowed went to the language model; room comes in {wait:.3g} s",
                    hint="try again later, or raise requests_per_minute and tokens_per_minute of lm_config",
                    retry_after=wait,
                )
            for bucket, amount in pairs:
                if bucket is not None:
                    bucket.take(amount)
            return wait

    def settle(self, reserved: int, used: int) -> None:
        """Put right what was reserved by an estimate."""
        if self._tokens is not None and used:
            with self._lock:
                self._tokens.take(used - reserved)

    def give_back(self, tokens: int) -> None:
        """Put back what was reserved for a request that was not made after all."""
        with self._lock:
            for bucket, amount in ((self._requests, 1), (self._tokens, tokens)):
                if bucket is not None:
                    bucket.take(-amount)

    def pause(self, seconds: float) -> None:
        """Let nobody ask for so long: the server said so."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)
