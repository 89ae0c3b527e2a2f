"""`Session`: one history, the engines' state beside it, and the turn that callers take in it."""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import Any

from toolyard.model.call import Mode
from toolyard.model.errors import SessionBusyError, SessionError, UnknownEntryError
from toolyard.sessions.gate import Gate
from toolyard.sessions.history import History
from toolyard.sessions.state import Changes, State, read_changes
from toolyard.sessions.store.base import Key, StoredSession

INSIDE: ContextVar[tuple[Stay, ...]] = ContextVar("toolyard_inside", default=())
"""Turns that the code running here is part of; who waits for the session of one of them waits for ever."""


class Stay:
    """One turn in a session, as the code inside it sees it; over when the turn is."""

    __slots__ = ("gate", "over")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.over = False

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
        *("answered", "branch", "counts", "drafted", "durable", "flights", "full", "gate", "history", "holder"),
        *("is_alone", "kept", "key", "looked_at", "over", "parent", "room", "state", "taken", "told", "used"),
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
        self.over = False
        self.parent: str | None = None
        """The session that it was forked from, where there is no store to ask."""
        self.full = False
        """True where nothing more may be added to it."""
        self.room: int = sys.maxsize
        """Bytes that may be added before it is measured; where nobody counts, all there are."""
        self.kept = True
        """False for a session that nobody will ever read: nothing need be written down in it."""
        self.is_alone = False
        """True for calls without a session; what is counted by session is counted by their owner."""
        self.drafted = False
        """True for the throw-away fork of a `simulate`."""
        self.counts: dict[str, int] | None = None
        """Calls that ran, by qualified name; kept only where a budget needs it."""
        self.flights: dict[str, Any] = {}
        """Calls under way or in line, by call id."""
        self.answered: dict[str, int] = {}
        """Where in the history a call id stands, as far as somebody looked."""
        self.looked_at = 0

    @classmethod
    def alone(cls, owner: str | None, mode: Mode) -> Session:
        """For a call by itself: it begins empty, nothing is written down in it, and nobody else is ever inside."""
        session = cls(Key(owner or "", ""), _NO_HISTORY, _NO_STATE, gate=_NO_GATE)
        session.kept, session.is_alone, session.drafted = False, True, mode == "simulate"
        return session

    @classmethod
    def stored(cls, key: Key, stored: StoredSession) -> Session:
        """A session as a store has it."""
        history, state = History(), State()
        for first in stored.changes:
            state.apply(read_changes(first))
        for item in stored.entries:
            changes = read_changes(item.changes)
            history.keep((item.entry, item.at, item.took, state.undo(changes) if changes else None))
            if changes:
                state.apply(changes)
        return cls(key, history, state, branch=stored.branch, durable=True, used=stored.used)

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
        draft.drafted, draft.is_alone = True, self.is_alone
        draft.counts = None if self.counts is None else dict(self.counts)
        return draft

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
                raise _no_entry_error(self, at)
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


def _no_entry_error(session: Session, at: int) -> UnknownEntryError:
    name, length = session.key.session_id, len(session.history)
    return UnknownEntryError(f"at is {at:,}, and session {name!r} has only {length:,} entries; use 0 to {length:,}")


def check_number(name: str, value: object) -> int:
    """Refuse what is no number of entries."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UnknownEntryError(f"{name} must be a whole number of entries, 0 or more, not {value!r}")
    return value


def check_fork_point(fork_of: str | None, at: int | None) -> None:
    """Refuse an `at` that says nothing: no number of entries, or no session to fork."""
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
