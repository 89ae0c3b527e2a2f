"""`Lanes`: whose connections are listened to next, so that many of one key do not delay one of another.

An event loop asks the system which connections have something to read, and reads from all of them before it does
anything else. Of a thousand that are ready at once, the one that belongs to somebody else would wait for all the
others. So the connections of each key have a lane of their own: an epoll within the loop's epoll. The system says which
lanes have something, and of each lane one connection is taken, which then goes to the end of its lane.
"""

from __future__ import annotations

import select
from contextlib import suppress

NEWCOMERS = ""
"""The lane of connections that have not shown a key, which all of them share."""
_ALONE = 16
"""Connections of a lane that are read from in one pass of the loop while nobody else is there."""
_FIRST = 2
"""Newcomers that are read from in one pass: as many as are let in, or they would have to wait once more."""
_AT_ONCE = 16
"""Lanes that are looked at in one pass. Whoever is left out comes first in the next."""
_MOST = 64
"""Lanes that keys have to themselves, since each is an open file."""
_TOGETHER = 16
"""Lanes of all the keys that come later. Which of them share one cannot be known from outside."""


class Lane:
    """The connections of one key."""

    __slots__ = ("connections", "epoll", "name", "turn")

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoll = select.epoll()
        self.connections = 0
        self.turn = -1
        """The pass in which one of them was read from last."""


class Lanes:
    """An epoll, as `selectors.EpollSelector` uses one, of files and of lanes of files."""

    def __init__(self) -> None:
        self._all = select.epoll()
        self._named: dict[str, Lane] = {}
        self._lanes: dict[int, Lane] = {}
        """By the number of the lane's epoll."""
        self._of: dict[int, Lane] = {}
        """By the number of the connection."""
        self._wanted: dict[int, int] = {}
        """What is waited for on each file."""
        self._pass = 0

    @property
    def shared(self) -> bool:
        """Whether there is more than one lane."""
        return len(self._named) > 1

    def assign(self, fd: int, name: str) -> str | None:
        """Have a connection in the lane of that name from now on, whether anything is waited for on it or not.

        Returns which lane it is in, if any: another one if there are too many, and the same as before if the system
        has no more to give. Ask again later, then.
        """
        before = self._of.get(fd)
        try:
            lane = self._named.get(name) or self._open(name)
            if lane is not before:
                self._move(fd, before, lane)
        except OSError:
            return None if before is None else before.name
        return lane.name

    def forget(self, fd: int) -> None:
        """The connection is about to be closed."""
        lane = self._of.pop(fd, None)
        if lane is not None:
            if self._wanted.pop(fd, None) is not None:
                with suppress(OSError):  # it was closed already, and is in no epoll any more
                    lane.epoll.unregister(fd)
            self._left(lane)

    def register(self, fd: int, events: int) -> None:
        """Wait for something on a file that is not waited for."""
        self._epoll_of(fd).register(fd, events)
        self._wanted[fd] = events

    def modify(self, fd: int, events: int) -> None:
        """Wait for something else on it."""
        self._epoll_of(fd).modify(fd, events)
        self._wanted[fd] = events

    def unregister(self, fd: int) -> None:
        """Wait for it no longer."""
        if self._wanted.pop(fd, None) is not None:
            self._epoll_of(fd).unregister(fd)

    def poll(self, timeout: float = -1, maxevents: int = -1) -> list[tuple[int, int]]:
        """What can be done now: in lanes first, and not in a lane that had its turn just now if others wait."""
        del maxevents  # All there are, says the selector; that is what this class is against.
        found: list[tuple[int, int]] = []
        lanes: list[Lane] = []
        for event in self._all.poll(timeout, _AT_ONCE):
            lane = self._lanes.get(event[0])
            if lane is None:
                found.append(event)
            else:
                lanes.append(lane)
        if lanes:
            each = 1 if self.shared else _ALONE
            before, self._pass = self._pass, self._pass + 1
            for lane in [lane for lane in lanes if lane.turn != before] or lanes:
                if lane.name == NEWCOMERS:
                    found += lane.epoll.poll(0, max(each, _FIRST))
                else:
                    lane.turn = self._pass
                    found[:0] = lane.epoll.poll(0, each)
        return found

    def fileno(self) -> int:
        """The number of the epoll that has all the others."""
        return self._all.fileno()

    def close(self) -> None:
        """Wait for nothing any more."""
        for lane in self._named.values():
            lane.epoll.close()
        self._named.clear()
        self._lanes.clear()
        self._of.clear()
        self._wanted.clear()
        self._all.close()

    def _epoll_of(self, fd: int) -> select.epoll:
        lane = self._of.get(fd)
        return self._all if lane is None else lane.epoll

    def _move(self, fd: int, before: Lane | None, lane: Lane) -> None:
        wanted = self._wanted.get(fd)
        lane.connections += 1
        if wanted is not None:
            try:
                lane.epoll.register(fd, wanted)
            except OSError:
                self._left(lane)
                raise
            with suppress(OSError):  # somebody closed a file of that number, and did not say so
                self._epoll_of(fd).unregister(fd)
        self._of[fd] = lane
        if before is not None:
            self._left(before)

    def _open(self, name: str) -> Lane:
        if name != NEWCOMERS and len(self._named) >= _MOST:
            name = f" {hash(name) % _TOGETHER}"
            if name in self._named:
                return self._named[name]
        lane = Lane(name)
        try:
            self._all.register(lane.epoll.fileno(), select.EPOLLIN)
        except OSError:
            lane.epoll.close()
            raise
        self._named[name] = self._lanes[lane.epoll.fileno()] = lane
        return lane

    def _left(self, lane: Lane) -> None:
        lane.connections -= 1
        if not lane.connections:
            del self._named[lane.name]
            del self._lanes[lane.epoll.fileno()]
            self._all.unregister(lane.epoll.fileno())
            lane.epoll.close()
