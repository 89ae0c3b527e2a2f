"""`Session`: a history, the engines' state, and the gate that lets one caller in at a time.

`SessionViews` reads sessions as plain data.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import SessionBusyError, SessionError, UnknownEntryError, UnknownSessionError
from toolyard.sessions.gate import Gate
from toolyard.sessions.history import History, read_entry
from toolyard.sessions.state import Changes, State, read_changes
from toolyard.sessions.store.base import Key, StoredSession
from toolyard.sessions.world_diff import WorldDiff, diff_states, hash_world

ENTERED_TURNS: ContextVar[tuple[EnteredTurn, ...]] = ContextVar("toolyard_inside", default=())
"""Turns that the current context runs inside of. Waiting for the session of one of them would deadlock."""


class EnteredTurn(msgspec.Struct, eq=False):
    """One turn in a session, visible to the code that runs inside it. `is_over` is set when the turn ends."""

    gate: Gate
    is_over: bool = False

    def enter(self) -> None:
        """Add this turn to `ENTERED_TURNS`, for the current context and contexts copied from it."""
        ENTERED_TURNS.set((*[turn for turn in ENTERED_TURNS.get() if not turn.is_over], self))


_committing = threading.Lock()
"""Held while history and state change together, and while a fork reads both."""


_NO_HISTORY, _NO_STATE, _NO_GATE = History(), State(), Gate()
"""Shared by all sessions that keep nothing."""


class Session:
    """One session in memory. Only the caller that holds its turn may append."""

    __slots__ = (
        *("branch", "counts", "is_draft", "durable", "is_full", "gate", "history", "holder"),
        *("is_alone", "is_recorded", "key", "is_over", "parent", "replays", "room", "state", "taken", "tallies"),
        *("stored_use", "turn_since", "used"),
    )

    def __init__(
        self,
        key: Key,
        history: History,
        state: State,
        *,
        branch: str = "",
        durable: bool = False,
        used: float = 0.0,
        gate: Gate | None = None,
    ) -> None:
        self.key = key
        self.history = history
        self.state = state
        self.branch = branch
        self.durable = durable
        """True if an entry must be in a store before it is acknowledged."""
        self.used = self.stored_use = used
        """When the session was last used, and the last such time that the store knows."""
        self.gate = gate or Gate()
        self.holder: object = None
        """Id of the thread that has the turn; None if free or held by a task."""
        self.taken = False
        """True while a caller has the turn through `SessionTurns.enter` or `aenter`."""
        self.turn_since = len(history)
        """Number of entries when a batch last took or returned the turn."""
        self.is_over = False
        self.parent: str | None = None
        """Id of the session this one was forked from in this process; with a store, ask the store."""
        self.is_full = False
        """True if nothing more may be added."""
        self.room: int = sys.maxsize
        """Bytes that may be added before the size is measured again; unlimited if no quota applies."""
        self.is_recorded = True
        """False for a session that is never read, in which nothing is recorded."""
        self.replays = False
        """True if a wire sent calls through an engine's overridden `execute`, which has no way to mark them as
        possible repeats. A `call_id` that has an answer then gets that answer again."""
        self.is_alone = False
        """True for calls without a session; limits per session then apply per owner."""
        self.is_draft = False
        """True for the throw-away fork of a `simulate`."""
        self.counts: dict[str, int] | None = None
        """Number of calls that ran, by qualified name; None until a budget needs it."""
        self.tallies: dict[object, tuple[int, Counter[Any]]] = {}
        """By counter (see `count_entries`): number of entries counted so far, and the counts."""

    @classmethod
    @lru_cache(maxsize=1024)
    def alone(cls, owner: str | None, mode: Mode) -> Session:
        """The shared placeholder for calls without a session. Stays empty, since nothing is recorded in it."""
        session = cls(Key(owner or "", ""), _NO_HISTORY, _NO_STATE, gate=_NO_GATE)
        session.is_recorded, session.is_alone, session.is_draft = False, True, mode == "simulate"
        return session

    @classmethod
    def stored(cls, key: Key, stored: StoredSession) -> Session:
        """A session restored from a store."""
        session = cls(key, History(), State(), branch=stored.branch, durable=True, used=stored.used)
        for first in stored.changes:
            session.state.apply(read_changes(first))
        for item in stored.entries:
            session.commit(item.entry, read_changes(item.changes), item.at, item.took)
        return session

    def commit(
        self, entry: bytes, changes: Changes | None = None, at: float | None = None, took: float | None = None
    ) -> None:
        """Append an entry and apply the state changes of its call, atomically."""
        self.room -= len(entry)
        if changes:
            undo = self.state.undo(changes)
            self.room -= undo[1] + sum(len(value) for value in changes.values() if value is not None)
            with _committing:
                self.state.apply(changes)
                self.history.keep((entry, at, took, undo))
        else:
            self.history.keep((entry, at, took, None))

    def draft(self) -> Session:
        """A private fork for one `simulate`, never stored and dropped afterwards."""
        draft = Session(self.key, self.history.fork(throw_away=True), self.state.fork(), gate=self.gate)
        draft.is_draft, draft.is_alone, draft.tallies = True, self.is_alone, self.tallies
        draft.counts = None if self.counts is None else dict(self.counts)
        return draft

    def count_entries(self, whose: object, count: Callable[[int, bytes, Counter[Any]], None]) -> Counter[Any]:
        """Incremental counts under the key `whose`: `count` is called once for each new entry with its index.

        Only for the caller that holds the turn. The result of a draft is not kept.
        """
        upto, counts = self.tallies.get(whose) or (0, Counter())
        if upto < len(self.history):
            if self.is_draft:
                counts = counts.copy()
            for place, entry in enumerate(self.history.since(upto), upto):
                count(place, entry, counts)
            if not self.is_draft:
                self.tallies[whose] = (len(self.history), counts)
        return counts

    def forget(self) -> None:
        """Free the entries, unless the session is busy and they may be being read."""
        with _committing:
            if not self.gate.busy:
                self.history.forget()

    def branches(self, at: int | None = None) -> tuple[History, State, int]:
        """History and state for a fork, and its number of entries: all, or the first `at`.

        Going back costs only what the entries after `at` changed.
        """
        with _committing:
            state = self.state.fork()
            if at is None:
                history = self.history.fork()
                return history, state, len(history)
            if at > len(self.history):
                name, most = self.key.session_id, len(self.history)
                raise UnknownEntryError(
                    f"at is {at:,}, and session {name!r} has only {most:,} entries; use 0 to {most:,}"
                )
            history = self.history.fork(at)
            undos = self.history.undos_since(at)
        return history, state.with_undone(undos), at


def busy_error(session: Session) -> SessionBusyError:
    """The error for a turn that did not become free in time."""
    return SessionBusyError(
        f"session {session.key.session_id!r} is still busy with another call, perhaps one that missed its deadline "
        "and was not released (`abandoned`); nothing of this batch was run"
    )


def inside_itself_error(session: Session) -> SessionError:
    """The error for a call from inside a session's turn into the same session."""
    return SessionError(
        f"a tool running in session {session.key.session_id!r} called into that session, which would wait for itself; "
        "use another session"
    )


def check_number(name: str, value: object) -> int:
    """Return the value; `UnknownEntryError` unless it is a number of entries."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UnknownEntryError(f"{name} must be a whole number of entries, 0 or more, not {value!r}")
    return value


def check_setup(session_id: str, initial_state: object, fork_of: str | None, at: int | None) -> None:
    """Raise `SessionError` for an invalid id, for both `initial_state` and `fork_of`, and for an invalid `at`."""
    check_session_id(session_id)
    if initial_state is not None and fork_of is not None:
        raise SessionError("a fork begins with the state of what it forks; give initial_state or fork_of, not both")
    if at is not None:
        check_number("at", at)
        if fork_of is None:
            raise SessionError("'at' is the number of entries that a fork begins with; give fork_of, too")


def check_session_id(session_id: str) -> None:
    """Raise `SessionError` for an id that not every store could keep."""
    if not isinstance(session_id, str) or not session_id:
        raise SessionError("a session id is text and not empty")
    if "\0" in session_id or any("\ud800" <= char <= "\udfff" for char in session_id):
        raise SessionError("a session id holds no NUL and no half of a surrogate pair; not every store could keep it")


class RecordedCall(msgspec.Struct, frozen=True):
    """One entry of a history, with its number and times."""

    seq: int
    """The entry's number; the first is 1."""
    tool_call: ToolCall
    tool_output: ToolResult
    at: datetime | None = None
    """When it was recorded; None if the session was set up with it."""
    took: float | None = None
    """Duration of the call in seconds, if known."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data with the time in ISO 8601; unknown times are omitted."""
        plain: dict[str, Any] = {
            "seq": self.seq,
            "tool_call": self.tool_call.to_dict(),
            "tool_output": self.tool_output.to_dict(),
        }
        if self.at is not None:
            plain["at"] = self.at.isoformat(timespec="milliseconds")
        if self.took is not None:
            plain["took"] = round(self.took, 6)
        return plain


class SessionViews(ABC):
    """Read access to sessions, including entries added by other processes."""

    clock: Callable[[], float]
    """The clock for the times of sessions and entries; `date_of` converts its values to dates."""
    _epoch: float

    @abstractmethod
    def current(self, session_id: str, owner: str | None = None) -> Session:
        """The session; `UnknownSessionError` if there is none."""

    def state(self, session_id: str, owner: str | None = None) -> dict[str, Any] | None:
        """History and engine state, usable as `initial_state`; None if there is no such session."""
        try:
            session = self.current(session_id, owner)
        except UnknownSessionError:
            return None
        history, state, _ = session.branches()
        if session.is_over:
            return None
        entries = [read_entry(entry) for entry in history]
        executions = [{"tool_call": e.tool_call.to_dict(), "tool_output": e.tool_output.to_dict()} for e in entries]
        return {"tool_executions": executions, **state.to_dict()}

    def calls(
        self, session_id: str, owner: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedCall]:
        """At most `limit` entries after entry number `after`, in order."""
        check_number("after", after)
        if limit is not None:
            check_number("limit", limit)
        history, _, _ = self.current(session_id, owner).branches()
        found: list[RecordedCall] = []
        for number, (text, at, took, _) in enumerate(islice(history.records_since(after), limit), after + 1):
            entry = read_entry(text)
            when = None if at is None else self.date_of(at)
            found.append(RecordedCall(number, entry.tool_call, entry.tool_output, when, took))
        return found

    def date_of(self, seconds: float) -> datetime:
        """Convert a time of `clock` to a date in UTC."""
        return datetime.fromtimestamp(seconds + self._epoch, UTC)

    def world(self, session_id: str, owner: str | None = None, *, at: int | None = None) -> State:
        """The engines' state in the session, now or after its `at`-th entry."""
        if at is not None:
            check_number("at", at)
        session = self.current(session_id, owner)
        _, state, _ = session.branches(at)
        if session.is_over:
            raise UnknownSessionError(f"session {session_id!r} is over")
        return state

    def world_hash(self, session_id: str, owner: str | None = None, *, at: int | None = None) -> str:
        """A hash of the world; equal for equal worlds, whatever calls led to them."""
        return hash_world(self.world(session_id, owner, at=at))

    def world_diff(
        self,
        session_id: str,
        other_id: str | None = None,
        owner: str | None = None,
        *,
        at_a: int | None = None,
        at_b: int | None = None,
    ) -> WorldDiff:
        """Changes from the world of `session_id`, after entry `at_a`, to that of `other_id`, after entry `at_b`.

        Without `other_id`, both are of one session; without `at_a` or `at_b`, the current world is compared.
        """
        before = self.world(session_id, owner, at=at_a)
        return diff_states(before, self.world(session_id if other_id is None else other_id, owner, at=at_b))

    def state_hash(self, session_id: str, owner: str | None = None) -> str:
        """A hash of history and engine state; equal for sessions in which both are equal."""
        session = self.current(session_id, owner)
        _, state, length = session.branches()
        whole = session.history.digest(length)
        return hashlib.blake2b(whole + (state.digest() if state.slots() else b""), digest_size=32).hexdigest()
