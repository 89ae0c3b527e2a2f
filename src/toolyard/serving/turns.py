"""`Turns`: in which order requests that arrive together begin, so that many of one key do not delay one of another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Start = Callable[[], None]
Headers = list[tuple[bytes, bytes]]

_EACH = 4
"""Requests that begin in one pass of the event loop. More would save a little, and make everybody wait longer."""
_BEARER = b"bearer ty_"


class Turns:
    """Lets a few requests begin in each pass of the event loop, in turn among the keys they came with.

    An event loop serves whoever is ready. Of a thousand connections that are ready at once, the one that belongs to
    somebody else would wait for all the others. Used on one event loop.
    """

    def __init__(self, is_key: Callable[[str], bool] | None = None, each: int = _EACH) -> None:
        self._is_key = is_key
        self.needed = is_key is not None
        """False where nobody has a key: there is nobody to take turns with."""
        self._each = self._left = each
        self._waiting: dict[str, deque[Start]] = {}
        """By key id; strangers, and everybody where there are no keys, share one."""
        self._coming = False

    def take(self, loop: asyncio.AbstractEventLoop, headers: Headers, start: Start) -> None:
        """Call `start` now, or when its turn comes."""
        if self._left and not self._waiting:
            self._left -= 1
            start()
        else:
            self._waiting.setdefault(self._whose(headers), deque()).append(start)
        if not self._coming:
            self._coming = True
            loop.call_soon(self._pass, loop)

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, left = self._waiting, self._each
        while waiting and left:
            whose = next(iter(waiting))
            queue = waiting.pop(whose)
            left -= 1
            queue.popleft()()
            if queue:
                # To the end of the round.
                waiting[whose] = queue
        self._coming = left < self._each
        self._left = left
        if self._coming:
            loop.call_soon(self._pass, loop)

    def _whose(self, headers: Headers) -> str:
        if self._is_key is None:
            return ""
        for name, value in headers:
            if name == b"x-api-key" or name == b"authorization":
                key = value[len(_BEARER) :] if value[: len(_BEARER)].lower() == _BEARER else value.removeprefix(b"ty_")
                key_id = key.partition(b"_")[0].decode("latin-1")
                # The secret is not looked at here, so all that do not even have an id count as one.
                return key_id if self._is_key(key_id) else ""
        return ""
