"""`Replays`: streams of answers whose reader may come back for the rest."""

from __future__ import annotations

from collections import OrderedDict

from toolyard.serving.mcp.event_stream import EventStream

_KEPT_BYTES = 16 * 1024 * 1024
_KEPT = 1000

Key = tuple[str, str]
"""Session and name."""


class Replays:
    """Streams by owner, oldest first. Where there are too many, whoever keeps most loses the oldest."""

    def __init__(self, most: int = _KEPT, most_bytes: int = _KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._owners: dict[str, OrderedDict[Key, EventStream]] = {}
        self._count = 0

    def add(self, owner: str, session_id: str, stream: EventStream) -> None:
        """Keep a stream that has begun."""
        assert stream.name is not None
        self._owners.setdefault(owner, OrderedDict())[session_id, stream.name] = stream
        self._count += 1
        while self._count > self._most:
            self._drop(max(self._owners, key=lambda each: len(self._owners[each])))

    def find(self, owner: str, session_id: str, name: str) -> EventStream | None:
        """The stream of that name, if it is still kept."""
        kept = self._owners.get(owner)
        return None if kept is None else kept.get((session_id, name))

    def settle(self) -> None:
        """One of them has grown: let those go that are too much."""
        sizes = {owner: sum(stream.size for stream in kept.values()) for owner, kept in self._owners.items()}
        total = sum(sizes.values())
        while total > self._most_bytes and self._count > 1:
            whose = max(sizes, key=sizes.__getitem__)
            size = self._drop(whose)
            sizes[whose] -= size
            total -= size

    def forget(self, owner: str, session_id: str) -> None:
        """Its session is over."""
        kept = self._owners.get(owner, OrderedDict())
        gone = [key for key in kept if key[0] == session_id]
        for key in gone:
            del kept[key]
        self._count -= len(gone)
        if gone and not kept:
            del self._owners[owner]

    def _drop(self, owner: str) -> int:
        kept = self._owners[owner]
        _, oldest = kept.popitem(last=False)
        self._count -= 1
        if not kept:
            del self._owners[owner]
        return oldest.size
