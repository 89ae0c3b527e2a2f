"""`Hub`: every open stream to a client, so that all are told when the catalog changes, and none has too many."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from toolyard.serving.faults import HttpFault


class Listening(msgspec.Struct, eq=False):
    """One client that is told of changes as long as it is there."""

    owner: str
    changed: Callable[[], None]
    """Told of each change; returns at once."""
    end: Callable[[], None]
    """Asked to make room."""


class Hub:
    """Streams by owner. Where there are too many, whoever has most gives one up, the oldest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: dict[str, dict[Listening, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, listening: Listening) -> None:
        """Count a stream in; `HttpFault` 429 if there are too many, and most of them its owner's."""
        if self._count >= self._most:
            self._make_room(listening.owner)
        self._owners.setdefault(listening.owner, {})[listening] = None
        self._count += 1

    def leave(self, listening: Listening) -> None:
        """It is gone; nothing happens if it was before."""
        own = self._owners.get(listening.owner)
        if own is not None and listening in own:
            del own[listening]
            self._count -= 1
            if not own:
                del self._owners[listening.owner]

    def tell(self) -> None:
        """The catalog has changed."""
        for own in list(self._owners.values()):
            for listening in list(own):
                listening.changed()

    def keep_only(self, stays: Callable[[str], bool]) -> None:
        """End the streams of owners who may not have any more."""
        for owner in [owner for owner in self._owners if not stays(owner)]:
            for listening in list(self._owners[owner]):
                listening.end()

    def _make_room(self, owner: str) -> None:
        whose = max(self._owners, key=lambda each: len(self._owners[each]), default=None)
        own = len(self._owners.get(owner, ()))
        if whose is None or len(self._owners[whose]) <= own:
            raise HttpFault(
                429,
                "server.overloaded",
                "all streams are in use; end one, or try again",
                retryable=True,
                headers=((b"retry-after", b"5"),),
            )
        oldest = next(iter(self._owners[whose]))
        self.leave(oldest)
        oldest.end()
