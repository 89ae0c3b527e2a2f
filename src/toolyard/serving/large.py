"""`Larges`: large requests take turns with everybody else by what they cost, which is far more than one request."""

from __future__ import annotations

import asyncio
import math
import time
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request

T = TypeVar("T")
Clock = Callable[[], float]

_MOST_SHARE = 1 / 3
"""Of the time, that a key's large requests may take beside a key that asks now and then."""
_SELDOM = 2.0
"""Requests a second of others up to which that is so. Beyond, the share falls with the square of how often they ask."""
_LEAST_SHARE = 1 / 300
"""Beside whoever asks all the time. While a large request has the loop, or the interpreter's lock, nobody is answered:
of the others' requests as large a part meets one as these have of the time, and less than one in a hundred may."""
_GUESS = 5e-9
"""Seconds that a byte costs to read, check, hand over and answer; what it really cost is set right afterwards."""
_READING = 2e-9
"""Seconds of them that go by before the work on a request begins, which is all that is measured."""
_LONGEST = 2.0
"""Seconds that a large request waits for its turn; one that would wait longer is refused instead."""
_DEBT = 10.0
"""Seconds ahead that a key's turns can be used up, whatever it sent."""
_WINDOW = 2.0
"""Seconds over which requests are counted. Whoever sent nothing in this window and the one before is not there."""
_SOONEST = 0.5
"""Seconds of a window that are needed to tell how often somebody asks."""
_KNOWN = 10_000


class Larges:
    """Spreads each key's large requests over time while another key is being served; alone, a key need not wait.

    Used on one event loop.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str | None, float] = {}
        """By key: when its next large request may begin, if others are there."""
        self._seen: Counter[str | None] = Counter()
        """Requests of each key in this window, and in the one before."""
        self._before: Counter[str | None] = Counter()
        self._all = self._all_before = 0
        self._since = clock()

    def see(self, key_id: str | None) -> None:
        """Somebody sends a request that is not large."""
        now = self._clock()
        if now - self._since >= _WINDOW:
            self._turn_over(now)
        self._seen[key_id] += 1
        self._all += 1

    def share(self, key_id: str | None) -> float:
        """The part of the time that a key's large requests may take: 1 if nobody else is there."""
        now = self._clock()
        self._turn_over(now)
        lately = (self._all - self._seen[key_id]) / max(now - self._since, _SOONEST)
        rate = max(lately, (self._all_before - self._before[key_id]) / _WINDOW)
        if not rate:
            return 1.0
        return max(_LEAST_SHARE, _MOST_SHARE / max(1.0, rate / _SELDOM) ** 2)

    async def turn(self, request: Request, size: int) -> None:
        """Return when a request of that size may be read, or worked on if it is there; 429 if that is too far away.

        Whoever has had a turn for it need not wait for another.
        """
        if request.allotted:
            return
        key_id = request.principal.key_id
        share = self.share(key_id)
        wait = self._wait(key_id) if share < 1 else 0.0
        request.allotted = size * _GUESS
        request.booked = self._book(key_id, _pause(request.allotted, share))
        if wait > 0:
            await asyncio.sleep(wait)

    def settle(self, request: Request) -> None:
        """It is done; what it cost more, or less, than was expected is set right for the next."""
        key_id = request.principal.key_id
        cost = request.spent + len(request.body or b"") * _READING
        self._book(key_id, _pause(cost, self.share(key_id)) - request.booked)
        request.booked = 0.0

    def _turn_over(self, now: float) -> None:
        gone = now - self._since
        if gone >= _WINDOW:
            whole = gone < 2 * _WINDOW
            self._before, self._all_before = (self._seen, self._all) if whole else (Counter(), 0)
            self._seen, self._all = Counter(), 0
            self._since = self._since + _WINDOW if whole else now

    def _wait(self, key_id: str | None) -> float:
        wait = self._next.get(key_id, -math.inf) - self._clock()
        if wait > _LONGEST:
            raise HttpFault(
                429,
                "request.rate_limited",
                "this key sends more large requests than it may while others are served",
                retryable=True,
                details={"retry_after": round(wait, 3)},
                headers=((b"retry-after", b"%d" % math.ceil(wait)),),
            )
        return max(0.0, wait)

    def _book(self, key_id: str | None, seconds: float) -> float:
        """Have the key's next turn come so much later, or earlier; returns by how much it does."""
        now = self._clock()
        if len(self._next) >= _KNOWN:
            self._next = {known: due for known, due in self._next.items() if due > now}
        before = max(self._next.get(key_id, now), now)
        self._next[key_id] = due = max(now, min(before + seconds, now + _DEBT))
        return due - before


def _pause(seconds: float, share: float) -> float:
    """How long others are to be left alone for what took so many seconds."""
    return seconds / share if share < 1 else 0.0


@types.coroutine
def counted(work: Coroutine[Any, Any, T], request: Request) -> Generator[Any, Any, T]:
    """Await `work`, and add up in `request.spent` the processor time that its steps take of the event loop."""
    try:
        step = _step(request, work.send, None)
        while True:
            try:
                sent = yield step
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the work to see
                step = _step(request, work.throw, error)
            else:
                step = _step(request, work.send, sent)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        work.close()


def _step(request: Request, go: Callable[[Any], Any], with_it: Any) -> Any:
    began = time.thread_time()
    try:
        return go(with_it)
    finally:
        request.spent += time.thread_time() - began
