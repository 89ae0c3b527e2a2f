"""`Subscribers`: every open stream, so that all clients are told when the catalog changes, and none has too many."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from toolyard.serving.http_fault import HttpFault


class Subscriber(msgspec.Struct, eq=False):
    """One client that is told of changes as long as it is there."""

    owner: str
    changed: Callable[[], None]
    """Told of each change; returns at once."""
    end: Callable[[], None]
    """Asked to make room."""
    stop: Callable[[], None]
    """Told that the server stops."""


class Subscribers:
    """Streams by owner. Where there are too many, whoever has most gives one up, the oldest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: dict[str, dict[Subscriber, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, subscriber: Subscriber) -> None:
        """Count a stream in; `HttpFault` 429 if there are too many, and most of them its owner's."""
        if self._count >= self._most:
            self._make_room(subscriber.owner)
        self._owners.setdefault(subscriber.owner, {})[subscriber] = None
        self._count += 1

    def leave(self, subscriber: Subscriber) -> None:
        """It is gone; nothing happens if it was before."""
        own = self._owners.get(subscriber.owner)
        if own is not None and subscriber in own:
            del own[subscriber]
            self._count -= 1
            if not own:
                del self._owners[subscriber.owner]

    def notify_all(self) -> None:
        """The catalog has changed."""
        for own in list(self._owners.values()):
            for subscriber in list(own):
                subscriber.changed()

    def end_all(self) -> None:
        """The server stops: end every stream that would go on."""
        for own in list(self._owners.values()):
            for subscriber in list(own):
                subscriber.stop()

    def keep_only(self, stays: Callable[[str], bool]) -> None:
        """End the streams of owners who may not have any more."""
        for owner in [owner for owner in self._owners if not stays(owner)]:
            for subscriber in list(self._owners[owner]):
                subscriber.end()

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
