"""`MemoryRecords`: records that end with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from toolyard.sessions.records.base import Records
from toolyard.sessions.store.record_tables import UNWATCHED, Record

MOST_ANSWERS = 100_000
MOST_BYTES = 256 * 1024 * 1024
"""Of all values of a bounded kind together."""


class _Kind:
    """What there is of one kind: by owner, then by name, oldest first."""

    __slots__ = ("count", "most", "owners", "size", "version")

    def __init__(self, most: int | None) -> None:
        self.owners: dict[str, dict[str, tuple[bytes, float]]] = {}
        self.most = most
        self.count = 0
        self.size = 0
        self.version = 0

    def put(self, owner: str, name: str, value: bytes, at: float) -> None:
        names = self.owners.get(owner)
        if names is None:
            names = self.owners[owner] = {}
        # Out and in again, so that the order stays that of age.
        before = names.pop(name, None)
        names[name] = (value, at)
        self.count += before is None
        self.size += len(value) - (0 if before is None else len(before[0]))
        self.version += 1

    def drop(self, owner: str, name: str) -> None:
        names = self.owners[owner]
        self.size -= len(names.pop(name)[0])
        self.count -= 1
        self.version += 1
        if not names:
            del self.owners[owner]

    def make_room(self, owner: str, name: str) -> None:
        """Drop the oldest until the bounds hold again: of `owner` if they have more than their share, else of
        whoever has most. So one who writes without end pushes out their own.
        """
        if self.most is None:
            return
        while self.count > self.most or (self.size > MOST_BYTES and self.count > 1):
            own = self.owners[owner]
            crowded = len(own) * len(self.owners) >= self.count and len(own) > 1
            whose = owner if crowded else max(self.owners, key=lambda each: len(self.owners[each]))
            oldest = next(iter(self.owners[whose]))
            if (whose, oldest) == (owner, name):
                return
            self.drop(whose, oldest)


class MemoryRecords(Records):
    """Records that end with the process; for one that keeps nothing else either.

    `most` bounds kinds that would grow for ever: the oldest are forgotten.
    """

    shared = False

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        most: Mapping[str, int] = MappingProxyType({"answer": MOST_ANSWERS}),
    ) -> None:
        self._clock = clock
        self._most = most
        self._kinds: dict[str, _Kind] = {}
        self._held: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()

    def put(self, kind: str, owner: str, name: str, value: bytes, *, new: bool = False) -> bool:
        """See `Records`."""
        with self._lock:
            known = self._kind(kind)
            if new and self._value(known, owner, name) is not None:
                return False
            known.put(owner, name, value, self._clock())
            known.make_room(owner, name)
            return True

    def get(self, kind: str, owner: str, name: str) -> bytes | None:
        """See `Records`."""
        known = self._kinds.get(kind)
        return None if known is None else self._value(known, owner, name)

    def remove(self, kind: str, owner: str, name: str, *, old: bytes | None = None) -> bool:
        """See `Records`."""
        with self._lock:
            known = self._kind(kind)
            value = self._value(known, owner, name)
            if value is None or (old is not None and value != old):
                return False
            known.drop(owner, name)
            return True

    def replace(self, kind: str, owner: str, name: str, old: bytes, value: bytes) -> bool:
        """See `Records`."""
        with self._lock:
            known = self._kind(kind)
            if self._value(known, owner, name) != old:
                return False
            known.put(owner, name, value, self._clock())
            known.make_room(owner, name)
            return True

    def all(self, kind: str, owner: str | None = None) -> list[Record]:
        """See `Records`."""
        with self._lock:
            return [
                Record(whose, name, value, at)
                for whose, names in sorted(self._kind(kind).owners.items())
                if owner is None or whose == owner
                for name, (value, at) in sorted(names.items())
            ]

    def version(self, kind: str) -> int:
        """See `Records`."""
        return 0 if kind in UNWATCHED else self._kind(kind).version

    def expire(self, kind: str, before: float) -> int:
        """See `Records`."""
        with self._lock:
            known = self._kind(kind)
            # Not only the oldest: the clock may have been set back in between.
            old = [
                (owner, name) for owner, names in known.owners.items() for name, (_, at) in names.items() if at < before
            ]
            for owner, name in old:
                known.drop(owner, name)
            return len(old)

    def hold(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        with self._lock:
            if (kind, owner, name) in self._held:
                return False
            self._held.add((kind, owner, name))
            return True

    def release(self, kind: str, owner: str, name: str) -> None:
        """See `Records`."""
        with self._lock:
            self._held.discard((kind, owner, name))

    def holds(self, kind: str, owner: str, name: str) -> bool:
        """See `Records`."""
        return (kind, owner, name) in self._held

    def close(self) -> None:
        """See `Records`; nothing to let go of."""

    def _kind(self, kind: str) -> _Kind:
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds.setdefault(kind, _Kind(self._most.get(kind)))
        return known

    @staticmethod
    def _value(known: _Kind, owner: str, name: str) -> bytes | None:
        names = known.owners.get(owner)
        found = None if names is None else names.get(name)
        return None if found is None else found[0]
