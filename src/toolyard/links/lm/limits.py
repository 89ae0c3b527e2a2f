"""`RateLimits`: the rates that a provider allows, for all threads and event loops that share a client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolyard.loop.pacing import TokenBucket
from toolyard.model.errors import Unavailable

_MINUTE = 60.0


class RateLimits:
    """Token buckets for requests and tokens, and a pause requested by the server. Thread safe."""

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = self._make_bucket(requests_per_minute)
        self._tokens = self._make_bucket(tokens_per_minute)
        self._paused_until = 0.0

    def reserve(self, tokens: int, deadline: float | None) -> float:
        """Reserve one request and its tokens; return the seconds to wait before sending it.

        Raises `Unavailable` and reserves nothing if the wait would pass the deadline.
        """
        with self._lock:
            now = self._clock()
            waits = [self._paused_until - now, 0.0]
            pairs = [(self._requests, 1), (self._tokens, tokens)]
            waits += [bucket.seconds_until(amount, now) for bucket, amount in pairs if bucket is not None]
            wait = max(waits)
            if deadline is not None and now + wait > deadline:
                raise Unavailable(
                    f"the rate limit of the language model is used up; the next request is possible in {wait:.3g} s",
                    hint="try again later, or raise requests_per_minute and tokens_per_minute of lm_config",
                    retry_after=wait,
                )
            for bucket, amount in pairs:
                if bucket is not None:
                    bucket.take(amount, now)
            return wait

    def settle(self, reserved: int, used: int) -> None:
        """Replace the estimated number of tokens by the actual one."""
        if self._tokens is not None and used:
            with self._lock:
                self._tokens.take(used - reserved, self._clock())

    def cancel(self, tokens: int) -> None:
        """Undo `reserve` for a request that was not sent."""
        with self._lock:
            for bucket, amount in ((self._requests, 1), (self._tokens, tokens)):
                if bucket is not None:
                    bucket.take(-amount, self._clock())

    def pause(self, seconds: float) -> None:
        """Delay all requests by at least so many seconds, as requested by the server."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _make_bucket(self, per_minute: int | None) -> TokenBucket | None:
        """A bucket that allows a minute's worth in one burst; None without a limit."""
        return None if per_minute is None else TokenBucket(per_minute / _MINUTE, per_minute, self._clock())
