"""`Breaker`: leaves a server alone for a while after it has failed several times in a row."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from toolyard.model.errors import Unavailable

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
