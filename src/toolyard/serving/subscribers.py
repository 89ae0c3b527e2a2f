"""`Subscribers`: all open streams, so that every client is told when the catalog changes, and none has too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from toolyard.serving.http_fault import make_overloaded


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
    """Every open stream, oldest first. Where there are too many, whoever has most gives one up, the oldest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Subscriber, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def join(self, subscriber: Subscriber) -> None:
        """Count a stream in; `HttpFault` 429 if there are too many, and most of them its owner's."""
        if len(self._open) >= self._most:
            self._make_room(subscriber.owner)
        self._open[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """It is gone; nothing happens if it was before."""
        self._open.pop(subscriber, None)

    def notify_all(self) -> None:
        """The catalog has changed."""
        for subscriber in list(self._open):
            subscriber.changed()

    def end_all(self) -> None:
        """The server stops: end every stream that would go on."""
        for subscriber in list(self._open):
            subscriber.stop()

    def keep_only(self, stays: Callable[[str], bool]) -> None:
        """End the streams of owners who may not have any more."""
        for subscriber in [one for one in self._open if not stays(one.owner)]:
            subscriber.end()

    def _make_room(self, owner: str) -> None:
        counts = Counter(subscriber.owner for subscriber in self._open)
        whose, most = counts.most_common(1)[0]
        if most <= counts[owner]:
            raise make_overloaded("all streams are in use; end one, or try again", 5)
        oldest = next(subscriber for subscriber in self._open if subscriber.owner == whose)
        self.leave(oldest)
        oldest.end()


def nothing() -> None:
    """For a stream that others tell of changes."""
