"""What must be made anew in the child of a fork, where threads, loops and connections are still the parent's."""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

_KNOWN: WeakSet[Forked] = WeakSet()
_LEFT: list[Any] = []


class Forked(Protocol):
    """What knows how to begin again in a child."""

    def forked(self) -> None:
        """Called in the child, before anything else happens there."""

    def __hash__(self) -> int: ...


def renewed_in_child(thing: Forked) -> None:
    """Have `thing.forked()` called in every child of this process, for as long as there is the thing."""
    _KNOWN.add(thing)


def leave(*things: Any) -> None:
    """Keep for good what belongs to the parent: tidied up here, its sockets and processes would be lost there, too."""
    _LEFT.extend(thing for thing in things if thing is not None)


def _in_child() -> None:
    for thing in list(_KNOWN):
        thing.forked()


os.register_at_fork(after_in_child=_in_child)
