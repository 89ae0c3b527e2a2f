"""What a durable store is given and gives back.

A session is a name for a *branch*. A branch continues its parent from entry `base` on, so a fork copies nothing:
entries carry absolute numbers (`seq` counts from 1 over the whole history), and a branch owns those above `base`.
Everything is append-only; what was acknowledged is never rewritten.

A write of a record is never refused, what became of it is in its `outcome`: a refusal would break up the transaction it
shares with the writes of others, which a client that repeats itself could then do to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from toolyard.model.errors import SessionError


class AffectedRows(msgspec.Struct, eq=False):
    """How many rows a write changed; valid once the write is acknowledged."""

    rows: int = 0

    def tell(self, rows: int) -> None:
        """What the last attempt did."""
        self.rows = rows


class PutRecord(msgspec.Struct, frozen=True):
    """A value under a name."""

    kind: str
    owner: str
    name: str
    value: bytes
    at: float
    outcome: AffectedRows
    new: bool = False
    """Only if nothing has that name."""
    old: bytes | None = None
    """Only if this is the value now."""


class RemoveRecord(msgspec.Struct, frozen=True):
    """No value under that name any more."""

    kind: str
    owner: str
    name: str
    outcome: AffectedRows
    old: bytes | None = None
    """Only if this is the value now."""


class ExpireRecords(msgspec.Struct, frozen=True):
    """Some of the records of a kind that were written before a time, so that no transaction is long."""

    kind: str
    before: float
    most: int
    outcome: AffectedRows


RecordWrite = PutRecord | RemoveRecord | ExpireRecords


class Key(msgspec.Struct, frozen=True, array_like=True):
    """Who owns a session and what they call it; both are needed to find it."""

    owner: str
    session_id: str

    @property
    def slot(self) -> Key | str:
        """What it is looked up by: most sessions have no owner, and looking up text is quicker than a pair."""
        return self if self.owner else self.session_id


def lock_number(*names: str, bits: int) -> int:
    """A number that all processes agree on; the lengths keep ("a", "bc") apart from ("ab", "c")."""
    digest = blake2b(digest_size=8)
    for name in names:
        data = name.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(digest.digest(), "big") >> (64 - bits)


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


LogTable = Literal["calls", "events"]


class LogRow(msgspec.Struct, frozen=True):
    """A row of a log, which is a table of its own; one that is there already stays."""

    table: LogTable
    values: tuple[object, ...]


class AddRows(msgspec.Struct, frozen=True):
    """Rows of logs. Without any it is an occasion for those that wait in `SessionStore.add_lazily`."""

    rows: tuple[LogRow, ...] = ()


class TrimLog(msgspec.Struct, frozen=True):
    """Some of the rows of a log that lie before a place, so that no transaction is long."""

    table: LogTable
    before: int
    most: int
    outcome: AffectedRows


LogWrite = AddRows | TrimLog


class Append(msgspec.Struct, frozen=True):
    """One answered call. Settles the intent of the same number, if there is one."""

    key: Key
    branch: str
    seq: int
    entry: bytes
    changes: bytes = b""
    """What the call changed in engine state; empty for nothing."""
    used: float = 0.0
    at: float | None = None
    """When it was recorded."""
    took: float | None = None
    """Seconds from the beginning of the call to its answer, if they are known."""
    rows: tuple[LogRow, ...] = ()
    """Of logs, written if the entry is."""


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


Write = Create | Append | Intend | Withdraw | Touch | Delete | RecordWrite | LogWrite


class StoredEntry(msgspec.Struct, frozen=True):
    """One entry as it was written."""

    seq: int
    entry: bytes
    changes: bytes = b""
    at: float | None = None
    """When it was recorded; None for what a session began with, and for what older versions wrote."""
    took: float | None = None


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


class Cursor(Protocol):
    """What both drivers' cursors can do."""

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""

    def fetchone(self) -> Any:
        """The next row or None."""

    def fetchall(self) -> list[Any]:
        """The rows that are left."""


Run = Callable[[str, tuple[object, ...]], Cursor]
Condition = tuple[str, tuple[object, ...]]
"""What rows must fulfil, and the values in it."""


class Step(NamedTuple):
    """One statement; where `refusal` is given, it must change exactly one row. `tell` hears how many it changed."""

    sql: str
    values: tuple[object, ...]
    refusal: Callable[[], SessionError] | None = None
    tell: Callable[[int], None] | None = None

    def check(self, rowcount: int) -> None:
        """Raise the refusal unless the statement did its work."""
        if self.tell is not None:
            self.tell(rowcount)
        if self.refusal is not None and rowcount != 1:
            raise self.refusal()
