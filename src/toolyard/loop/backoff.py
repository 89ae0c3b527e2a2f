"""How long to wait before what failed is tried again: twice as long each time, up to a limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from secrets import SystemRandom

draw_chance: Callable[[], float] = SystemRandom().random
"""A number from 0 to 1 that no seed of the user's program decides."""

_MOST_DOUBLINGS = 32


def backoff_delay(attempt: int, first: float, longest: float = math.inf, *, chance: float = 1.0) -> float:
    """Seconds to wait after the failed attempt of that number, counted from 1.

    `chance`, from 0 to 1, takes up to half of it off, so that those that failed together come back apart.
    """
    return min(first * 2.0 ** min(max(attempt - 1, 0), _MOST_DOUBLINGS), longest) * (0.5 + chance / 2)
