"""`Connections`: what all connections of a server share: their limits, and the one sweeper of their deadlines."""

from __future__ import annotations

import asyncio
import select
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.app.server_block import ServerBlock
from toolyard.serving.pace import Rests
from toolyard.serving.turns import Turns

if TYPE_CHECKING:
    from toolyard.serving.ending import Ending
    from toolyard.serving.lanes import Lanes

_SWEEP_SECONDS = 0.5
_FULL_SWEEP = 20


class Connections:
    """Every open connection of one event loop.

    A timer for each request would cost more than the request's parsing, so each connection keeps one number, and
    one timer goes over all of them.
    """

    def __init__(
        self, block: ServerBlock, *, max_connections: int | None = None, is_key: Callable[[str], bool] | None = None
    ) -> None:
        self.header_timeout = block.header_timeout
        self.body_timeout = block.body_timeout
        self.idle_timeout = block.idle_timeout
        self.max_connections = max_connections or block.max_connections
        self.open: set[Ending] = set()
        self.waiting: dict[Ending, None] = {}
        """Those that have asked for nothing, or not yet for anything whole; the longest so first."""
        self.reading: dict[Ending, None] = {}
        """Those whose body is still coming, the longest so first."""
        self.refused: Counter[int] = Counter()
        """Requests answered here, by status: what was not HTTP, too large a head, or too slow."""
        self.turns = Turns(is_key)
        self.rests = Rests()
        self.lanes: Lanes | None = None
        """Of the loop, if it is one of `new_loop`."""
        self._interval = min(_SWEEP_SECONDS, block.header_timeout / 4, block.body_timeout / 4, block.idle_timeout / 4)
        self._sweeps = 0
        self._timer: asyncio.TimerHandle | None = None

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """A loop on which these connections are listened to in turn among their keys, where the system can do that."""
        if not hasattr(select, "epoll"):
            return asyncio.SelectorEventLoop()
        from toolyard.serving.lane_loop import LaneLoop

        loop = LaneLoop()
        self.lanes = loop.lanes
        return loop

    def admit(self, newcomer: Ending) -> bool:
        """Count a new connection in, closing the longest idle one if there are too many; False if none is idle."""
        if len(self.open) >= self.max_connections:
            longest = next(iter(self.waiting), None) or next(iter(self.reading), None)
            if longest is None:
                return False
            self.forget(longest)
            longest.transport.abort()
        self.open.add(newcomer)
        self.waiting[newcomer] = None
        if self._timer is None:
            self._timer = newcomer.loop.call_later(self._interval, self._sweep, newcomer.loop)
        return True

    def forget(self, connection: Ending) -> None:
        """It is gone, or as good as gone."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)
        self.reading.pop(connection, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [item for item in self.open if item.deadline <= now]:
            connection.expire(now)
        self._sweeps += 1
        if self._sweeps % _FULL_SWEEP == 0:
            # Whoever is being closed has no deadline, and would stay for ever if it does not read its answer.
            for connection in self.open:
                if connection.transport.is_closing():
                    connection.deadline = min(connection.deadline, now + self.idle_timeout)
        # Without connections there is nothing to wake up for.
        self._timer = loop.call_later(self._interval, self._sweep, loop) if self.open else None
