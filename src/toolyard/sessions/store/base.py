"""`SessionStore`: what a durable store must do, and the few records it is given.

A session is a name for a *branch*. A branch continues its parent from entry `base` on, so a fork copies nothing:
entries carry absolute numbers (`seq` counts from 1 over the whole history), and a branch owns those above `base`.
Everything is append-only; what was acknowledged is never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from toolyard.sessions.store.record_writes import RecordWrite


class Key(msgspec.Struct, frozen=True, array_like=True):
    """Who owns a session and what they call it; both are needed to find it."""

    owner: str
    session_id: str


class Create(msgspec.Struct, frozen=True):
    """A new session, on a new branch."""

    key: Key
    branch: str
    """An id of the caller's making, unique for ever."""
    parent: str | None = None
    base: int = 0
    """How many entries are inherited from the parent; the parent may go on growing."""
    entries: tuple[bytes, ...] = ()
    """Entries to begin with; only without a parent. Numbered from 1."""
    changes: bytes = b""
    """Engine state to begin with."""
    used: float = 0.0


class Append(msgspec.Struct, frozen=True):
    """One answered call. Settles the intent of the same number, if there is one."""

    key: Key
    branch: str
    seq: int
    entry: bytes
    changes: bytes = b""
    """What the call changed in engine state; empty for nothing."""
    used: float = 0.0


class Intend(msgspec.Struct, frozen=True):
    """A call that is about to change the world; entry `seq` will say what came of it."""

    key: Key
    branch: str
    seq: int
    call: bytes


class Withdraw(msgspec.Struct, frozen=True):
    """The announced call was never begun: its intent is void."""

    key: Key
    branch: str
    seq: int


class Touch(msgspec.Struct, frozen=True):
    """The session was used, though nothing was added to it; nothing happens if it is gone."""

    key: Key
    branch: str
    used: float


class Delete(msgspec.Struct, frozen=True):
    """The session is over. Entries that other branches inherit stay until those are gone."""

    key: Key


Write = Create | Append | Intend | Withdraw | Touch | Delete | RecordWrite


class StoredEntry(msgspec.Struct, frozen=True):
    """One entry as it was written."""

    seq: int
    entry: bytes
    changes: bytes = b""


class StoredSession(msgspec.Struct, frozen=True):
    """A whole session as the store has it: inherited entries first, `seq` rising by one from 1."""

    branch: str
    entries: Sequence[StoredEntry]
    changes: Sequence[bytes] = ()
    """Initial engine state of every branch in the line, eldest first."""
    intent: tuple[int, bytes] | None = None
    """The intent above the last entry, if the branch has one."""
    used: float = 0.0


class SessionInfo(msgspec.Struct, frozen=True):
    """One line of a listing."""

    session_id: str
    owner: str
    entries: int
    used: float


class SessionStore(Protocol):
    """Durable sessions, for callers in many threads. A raised error means that nothing was written."""

    quick: bool
    """True if reading and holding are so fast that an event loop may do them inline."""

    def write(self, write: Write) -> None:
        """Returns when the write is as durable as configured. `SessionExistsError` for a taken key;
        `SessionError` for an `Append` or `Intend` whose number is taken, or whose session is gone.
        """

    def submit(self, write: Write, done: Callable[[BaseException | None], None]) -> None:
        """The same without waiting: `done` is called once, from any thread, with None or the error."""

    def load(self, key: Key) -> StoredSession | None:
        """The session, or None."""

    def newer(self, key: Key, branch: str, seq: int) -> StoredSession | None:
        """What came after entry `seq` (only that, in `entries`; `changes` empty), from whichever process;
        None if the session is gone or now names another branch.
        """

    def sessions(self, owner: str | None = None) -> list[SessionInfo]:
        """What is stored, of one owner or of all, by owner and id."""

    def count(self, owner: str | None = None) -> int:
        """How many sessions there are, of one owner or of all."""

    def expire(self, used_before: float) -> list[Key]:
        """Delete sessions that nobody holds and that were last used before that; says which."""

    def try_hold(self, key: Key) -> bool:
        """Take the session for this process if no other process (or other store object) has it.
        A holder that dies lets go. Not re-entrant: callers of one store object take turns before they ask.
        """

    def release(self, key: Key) -> None:
        """Let go of a session that was held."""

    def close(self) -> None:
        """Finish what was submitted and let go of everything; safe to call twice."""
