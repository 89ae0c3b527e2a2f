"""Data types for the input and output of a session store.

A session is a name for a *branch*. A branch continues its parent after entry `base`, so a fork copies nothing: entries
have absolute numbers (`seq` counts from 1 over the whole history), and a branch owns those above `base`. Entries are
append-only; what was acknowledged is never rewritten.

A record write never fails on a condition; its `outcome` tells the result. An error would abort the transaction that
it shares with other writers, and a client that retries could do that to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from toolyard.model.errors import SessionError


class AffectedRows(msgspec.Struct, eq=False):
    """Number of rows that a write changed; valid once the write is acknowledged."""

    rows: int = 0

    def set_rows(self, rows: int) -> None:
        """Set the result of the last attempt."""
        self.rows = rows


class PutRecord(msgspec.Struct, frozen=True):
    """Write a record."""

    kind: str
    owner: str
    name: str
    value: bytes
    at: float
    outcome: AffectedRows
    new: bool = False
    """Only if the name does not exist."""
    old: bytes | None = None
    """Only if this is the current value."""


class RemoveRecord(msgspec.Struct, frozen=True):
    """Delete a record."""

    kind: str
    owner: str
    name: str
    outcome: AffectedRows
    old: bytes | None = None
    """Only if this is the current value."""


class ExpireRecords(msgspec.Struct, frozen=True):
    """Delete at most `most` records of a kind that were written before a time. The limit keeps transactions short."""

    kind: str
    before: float
    most: int
    outcome: AffectedRows


RecordWrite = PutRecord | RemoveRecord | ExpireRecords


class Key(msgspec.Struct, frozen=True, array_like=True):
    """A session's owner and its id; together they identify it."""

    owner: str
    session_id: str

    @property
    def slot(self) -> Key | str:
        """Key of dicts of sessions. It is the id alone if there is no owner, because text is faster to look up."""
        return self if self.owner else self.session_id


def lock_number(*names: str, bits: int) -> int:
    """A number for a lock, the same in all processes; lengths are hashed so that ("a", "bc") and ("ab", "c") differ."""
    digest = blake2b(digest_size=8)
    for name in names:
        data = name.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(digest.digest(), "big") >> (64 - bits)


class Create(msgspec.Struct, frozen=True):
    """A new session, on a new branch."""

    key: Key
    branch: str
    """An id chosen by the caller, never used before or again."""
    parent: str | None = None
    base: int = 0
    """Number of entries inherited from the parent, which may continue to grow."""
    entries: tuple[bytes, ...] = ()
    """Initial entries, numbered from 1; only without a parent."""
    changes: bytes = b""
    """Initial engine state."""
    used: float = 0.0


LogTable = Literal["calls", "events"]


class LogRow(msgspec.Struct, frozen=True):
    """A row of a log table; an existing row with the same key is kept."""

    table: LogTable
    values: tuple[object, ...]


class AddRows(msgspec.Struct, frozen=True):
    """Insert log rows. Without rows, it only triggers a transaction for those added by `SessionStore.add_lazily`."""

    rows: tuple[LogRow, ...] = ()


class TrimLog(msgspec.Struct, frozen=True):
    """Delete at most `most` rows of a log before a position. The limit keeps transactions short."""

    table: LogTable
    before: int
    most: int
    outcome: AffectedRows


LogWrite = AddRows | TrimLog


class Append(msgspec.Struct, frozen=True):
    """One completed call. Settles the intent of the same number, if there is one."""

    key: Key
    branch: str
    seq: int
    entry: bytes
    changes: bytes = b""
    """The call's changes of engine state; empty if there are none."""
    used: float = 0.0
    at: float | None = None
    """When it was recorded."""
    took: float | None = None
    """Duration of the call in seconds, if known."""
    rows: tuple[LogRow, ...] = ()
    """Log rows to insert in the same transaction."""


class Intend(msgspec.Struct, frozen=True):
    """Announce a call that may change the outside world; entry `seq` will hold its outcome."""

    key: Key
    branch: str
    seq: int
    call: bytes


class Withdraw(msgspec.Struct, frozen=True):
    """Delete the intent of a call that was never started."""

    key: Key
    branch: str
    seq: int


class Touch(msgspec.Struct, frozen=True):
    """Update the time of last use; does nothing if the session is gone."""

    key: Key
    branch: str
    used: float


class Delete(msgspec.Struct, frozen=True):
    """Delete a session. Entries that other branches inherit stay until those are gone."""

    key: Key


Write = Create | Append | Intend | Withdraw | Touch | Delete | RecordWrite | LogWrite


class StoredEntry(msgspec.Struct, frozen=True):
    """One entry as it was written."""

    seq: int
    entry: bytes
    changes: bytes = b""
    at: float | None = None
    """When it was recorded; None for initial entries, and for entries written by older versions."""
    took: float | None = None


class StoredSession(msgspec.Struct, frozen=True):
    """A session read from the store: inherited entries first, `seq` rising by one from 1."""

    branch: str
    entries: Sequence[StoredEntry]
    changes: Sequence[bytes] = ()
    """Initial engine state of the branch and its ancestors, oldest first."""
    intent: tuple[int, bytes] | None = None
    """The unsettled intent after the last entry, if there is one."""
    used: float = 0.0


class SessionInfo(msgspec.Struct, frozen=True):
    """One line of a listing."""

    session_id: str
    owner: str
    entries: int
    used: float


class Cursor(Protocol):
    """The interface common to both drivers' cursors."""

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""

    def fetchone(self) -> Any:
        """The next row or None."""

    def fetchall(self) -> list[Any]:
        """The rows that are left."""


Run = Callable[[str, tuple[object, ...]], Cursor]
Condition = tuple[str, tuple[object, ...]]
"""An SQL condition and its parameters."""


class Step(NamedTuple):
    """One statement. If `refusal` is given, it must change exactly one row. `report` receives the number of rows."""

    sql: str
    values: tuple[object, ...]
    refusal: Callable[[], SessionError] | None = None
    report: Callable[[int], None] | None = None

    def check(self, rowcount: int) -> None:
        """Report the number of changed rows; raise the refusal if it should be one and is not."""
        if self.report is not None:
            self.report(rowcount)
        if self.refusal is not None and rowcount != 1:
            raise self.refusal()
