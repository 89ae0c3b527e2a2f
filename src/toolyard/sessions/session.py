"""`Session`: one history, the engines' state beside it, and the turn that callers take in it.

`SessionViews` gives sessions as plain data of the reader's own.
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

INSIDE: ContextVar[tuple[Stay, ...]] = ContextVar("toolyard_inside", default=())
"""Turns that the code running here is part of; who waits for the session of one of them waits for ever."""


class Stay(msgspec.Struct, eq=False):
    """One turn in a session, as the code inside it sees it; over when the turn is."""

    gate: Gate
    over: bool = False

    def enter(self) -> None:
        """Mark the code that runs from here on, in this context and in those that are copied from it."""
        INSIDE.set((*[stay for stay in INSIDE.get() if not stay.over], self))


_committing = threading.Lock()
"""Held for the moment in which history and state change together, and while a fork reads both."""


_NO_HISTORY, _NO_STATE, _NO_GATE = History(), State(), Gate()
"""Of all sessions in which nothing is kept."""


class Session:
    """What is known of one session. Appending is for whoever has its turn."""

    __slots__ = (
        *("branch", "counts", "drafted", "durable", "full", "gate", "history", "holder"),
        *("is_alone", "kept", "key", "over", "parent", "replays", "room", "state", "taken", "tallies", "told"),
        *("turn_since", "used"),
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
        """True if a store must have an entry before anybody is told of it."""
        self.used = self.told = used
        """When it was last used, and when the store last heard of it."""
        self.gate = gate or Gate()
        self.holder: object = None
        """The thread or task that has the turn, if it is known."""
        self.taken = False
        """True while somebody has the turn by `Sessions.enter`; cleared as it is given back."""
        self.turn_since = len(history)
        """How many entries there were when a batch last took its turn, or gave it back."""
        self.over = False
        self.parent: str | None = None
        """The session that it was forked from, where there is no store to ask."""
        self.full = False
        """True where nothing more may be added to it."""
        self.room: int = sys.maxsize
        """Bytes that may be added before it is measured; where nobody counts, all there are."""
        self.kept = True
        """False for a session that nobody will ever read: nothing need be written down in it."""
        self.replays = False
        """True where a wire has sent calls by way of an engine's own `execute`, which cannot say that they may be
        repeats: a `call_id` that was answered before gets that answer again."""
        self.is_alone = False
        """True for calls without a session; what is counted by session is counted by their owner."""
        self.drafted = False
        """True for the throw-away fork of a `simulate`."""
        self.counts: dict[str, int] | None = None
        """Calls that ran, by qualified name; kept only where a budget needs it."""
        self.tallies: dict[object, tuple[int, Counter[Any]]] = {}
        """For whoever counts entries: how many it has looked at, and what it counted."""

    @classmethod
    @lru_cache(maxsize=1024)
    def alone(cls, owner: str | None, mode: Mode) -> Session:
        """For calls by themselves: it is empty and stays so, since nothing is written down in it."""
        session = cls(Key(owner or "", ""), _NO_HISTORY, _NO_STATE, gate=_NO_GATE)
        session.kept, session.is_alone, session.drafted = False, True, mode == "simulate"
        return session

    @classmethod
    def stored(cls, key: Key, stored: StoredSession) -> Session:
        """A session as a store has it."""
        session = cls(key, History(), State(), branch=stored.branch, durable=True, used=stored.used)
        for first in stored.changes:
            session.state.apply(read_changes(first))
        for item in stored.entries:
            session.commit(item.entry, read_changes(item.changes), item.at, item.took)
        return session

    def commit(
        self, entry: bytes, changes: Changes | None = None, at: float | None = None, took: float | None = None
    ) -> None:
        """Add an entry and what its call changed, as one step."""
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
        """A fork for one `simulate`: nobody else sees it, no store hears of it, and it is dropped unread."""
        draft = Session(self.key, self.history.fork(throw_away=True), self.state.fork(), gate=self.gate)
        draft.drafted, draft.is_alone, draft.tallies = True, self.is_alone, self.tallies
        draft.counts = None if self.counts is None else dict(self.counts)
        return draft

    def count_entries(self, whose: object, count: Callable[[int, bytes, Counter[Any]], None]) -> Counter[Any]:
        """What somebody counted so far, brought up to date: `count` is given every new entry and its place once.

        Only for whoever has the turn.
        """
        upto, counts = self.tallies.get(whose) or (0, Counter())
        if upto < len(self.history):
            if self.drafted:
                counts = counts.copy()
            for place, entry in enumerate(self.history.since(upto), upto):
                count(place, entry, counts)
            if not self.drafted:
                self.tallies[whose] = (len(self.history), counts)
        return counts

    def forget(self) -> None:
        """Let go of the entries, if nobody is inside who may be reading them."""
        with _committing:
            if not self.gate.busy:
                self.history.forget()

    def branches(self, at: int | None = None) -> tuple[History, State, int]:
        """History and state as a fork begins with them, and how many entries that is: all, or the first `at`.

        Going back costs what the entries behind it changed, nothing else.
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
        return history, state.undone(undos), at


def busy_error(session: Session) -> SessionBusyError:
    """Somebody else had its turn for too long."""
    return SessionBusyError(
        f"session {session.key.session_id!r} is still busy with another call; nothing of this batch was run"
    )


def inside_itself_error(session: Session) -> SessionError:
    """It would wait for itself."""
    return SessionError(
        f"a tool running in session {session.key.session_id!r} called into that session, which would wait for itself; "
        "use another session"
    )


def check_number(name: str, value: object) -> int:
    """Refuse what is no number of entries."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UnknownEntryError(f"{name} must be a whole number of entries, 0 or more, not {value!r}")
    return value


def check_beginning(session_id: str, initial_state: object, fork_of: str | None, at: int | None) -> None:
    """Refuse a session of no good id, with two beginnings, or with an `at` that is no number of entries of a fork."""
    check_session_id(session_id)
    if initial_state is not None and fork_of is not None:
        raise SessionError("a fork begins with the state of what it forks; give initial_state or fork_of, not both")
    if at is not None:
        check_number("at", at)
        if fork_of is None:
            raise SessionError("'at' is the number of entries that a fork begins with; give fork_of, too")


def check_session_id(session_id: str) -> None:
    """Refuse an id that not every store could keep."""
    if not isinstance(session_id, str) or not session_id:
        raise SessionError("a session id is text and not empty")
    if "\0" in session_id or any("\ud800" <= char <= "\udfff" for char in session_id):
        raise SessionError("a session id holds no NUL and no half of a surrogate pair; not every store could keep it")


class RecordedCall(msgspec.Struct, frozen=True):
    """An entry of a history, and what stands beside it."""

    seq: int
    """Its number; the first is 1."""
    tool_call: ToolCall
    tool_output: ToolResult
    at: datetime | None = None
    """When it was recorded; None if the session began with it."""
    took: float | None = None
    """Seconds from the beginning of the call to its answer, if they are known."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the time as text; what is not known is left out."""
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
    """What can be read of a session, with what other processes added to it."""

    clock: Callable[[], float]
    """What the times of sessions and of their entries are told by; see `date_of`."""
    _epoch: float

    @abstractmethod
    def current(self, session_id: str, owner: str | None = None) -> Session:
        """The session; `UnknownSessionError` if there is none."""

    def state(self, session_id: str, owner: str | None = None) -> dict[str, Any] | None:
        """History and engine state, good as `initial_state`; None if there is no such session."""
        try:
            session = self.current(session_id, owner)
        except UnknownSessionError:
            return None
        history, state, _ = session.branches()
        if session.over:
            return None
        entries = [read_entry(entry) for entry in history]
        executions = [{"tool_call": e.tool_call.to_dict(), "tool_output": e.tool_output.to_dict()} for e in entries]
        return {"tool_executions": executions, **state.to_dict()}

    def calls(
        self, session_id: str, owner: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedCall]:
        """The history from behind that entry on, each call with its time."""
        check_number("after", after)
        if limit is not None:
            check_number("limit", limit)
        history, _, _ = self.current(session_id, owner).branches()
        found: list[RecordedCall] = []
        for number, (text, at, took, _) in enumerate(islice(history.kept_since(after), limit), after + 1):
            entry = read_entry(text)
            when = None if at is None else self.date_of(at)
            found.append(RecordedCall(number, entry.tool_call, entry.tool_output, when, took))
        return found

    def date_of(self, seconds: float) -> datetime:
        """The date of a time that `clock` told."""
        return datetime.fromtimestamp(seconds + self._epoch, UTC)

    def world(self, session_id: str, owner: str | None = None, *, at: int | None = None) -> State:
        """What engines keep in it, now or behind its `at`-th entry."""
        if at is not None:
            check_number("at", at)
        session = self.current(session_id, owner)
        _, state, _ = session.branches(at)
        if session.over:
            raise UnknownSessionError(f"session {session_id!r} is over")
        return state

    def world_hash(self, session_id: str, owner: str | None = None, *, at: int | None = None) -> str:
        """Equal for equal worlds, whatever path led there."""
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
        """What leads from the world of one session, or of one point in it, to that of another, or of another point."""
        before = self.world(session_id, owner, at=at_a)
        return diff_states(before, self.world(session_id if other_id is None else other_id, owner, at=at_b))

    def state_hash(self, session_id: str, owner: str | None = None) -> str:
        """Equal for sessions with equal histories and equal engine state."""
        session = self.current(session_id, owner)
        _, state, length = session.branches()
        whole = session.history.digest(length)
        return hashlib.blake2b(whole + (state.digest() if state.slots() else b""), digest_size=32).hexdigest()
