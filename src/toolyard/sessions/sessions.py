"""`Sessions`: every session this process knows, their turns, and the store that must have what is acknowledged."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolyard.model.errors import SessionError, SessionExistsError, UnknownSessionError
from toolyard.sessions.entry import read_entry
from toolyard.sessions.history import History
from toolyard.sessions.initial import read_initial
from toolyard.sessions.session import Session
from toolyard.sessions.state import Changes, State, write_changes
from toolyard.sessions.store import Create, Delete, Key, SessionStore, Touch
from toolyard.sessions.turns import Turns

MAX_OPEN = 100_000
_COUNT_SECONDS = 1.0
_CACHED = 10_000
"""Stored sessions kept in memory; more are read again when they are needed."""


class Sessions(Turns):
    """Finds, opens and ends sessions; without a store they live as long as this object.

    `ttl` ends sessions that many seconds after their last use. `max_open` bounds how many there may be.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        *,
        ttl: float | None = None,
        max_open: int = MAX_OPEN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if ttl is not None and ttl <= 0:
            raise SessionError(f"ttl must be more than 0 seconds, not {ttl}")
        super().__init__(store, clock)
        self.ttl = ttl
        self.max_open = max_open
        self.at_hand: dict[Key | str, Session] = {}
        """Sessions in memory, by id; by owner and id if they have one."""
        self._change = threading.RLock()
        self._swept = clock()
        self._counted = (float("-inf"), 0)

    def open(
        self,
        session_id: str,
        *,
        owner: str | None = None,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
    ) -> Session:
        """Begin a session: empty, with a given state, or where another one now is."""
        _check_id(session_id)
        if initial_state is not None and fork_of is not None:
            raise SessionError("a fork begins with the state of what it forks; give initial_state or fork_of, not both")
        key = Key(owner or "", session_id)
        if self.store is not None and _slot(key) in self.at_hand:
            with suppress(UnknownSessionError):  # another process may have ended it
                self.current(session_id, owner)
        parent = None if fork_of is None else self.current(fork_of, owner)
        entries, changes = ((), {}) if initial_state is None else read_initial(initial_state)
        with self._change:
            self._sweep()
            if _slot(key) in self.at_hand:
                raise SessionExistsError(f"session {session_id!r} is already set up; tear it down or pick another id")
            self._check_room()
            if parent is not None and parent.over:
                raise UnknownSessionError(f"session {fork_of!r} is over")
            session, base = self._new(key, parent, entries, changes)
            # Found by others from now on; its gate is shut until the store has it.
            session.gate.enter_at_once()
            self.at_hand[_slot(key)] = session
        try:
            if self.store is not None:
                branch = None if parent is None else parent.branch
                self.store.write(
                    Create(key, session.branch, branch, base, entries, write_changes(changes), session.used)
                )
        except BaseException:
            session.over = True
            self._gone(session)
            raise
        finally:
            session.gate.leave()
        return session

    def _new(
        self, key: Key, parent: Session | None, entries: tuple[bytes, ...], changes: Changes
    ) -> tuple[Session, int]:
        history, state, base = (History(), State(), 0) if parent is None else parent.branches()
        for entry in entries:
            history.append(entry)
        if changes:
            state.apply(changes)
        durable = self.store is not None
        branch = uuid.uuid4().hex if durable else ""
        session = Session(key, history, state, branch=branch, durable=durable, used=self._clock())
        session.counts = None if parent is None or parent.counts is None else dict(parent.counts)
        return session, base

    def find(self, session_id: str, owner: str | None = None) -> Session:
        """The session; `UnknownSessionError` if there is none, or it belongs to somebody else."""
        session = self.at_hand.get(Key(owner, session_id) if owner else session_id)
        if session is None:
            session = self._load(Key(owner or "", session_id))
        if session is None or session.over or self._expired(session):
            raise UnknownSessionError(f"no session is called {session_id!r}; set it up first")
        return session

    def known(self, session_id: str, owner: str | None = None) -> bool:
        """True if `find` needs no store for it."""
        return self.store is None or _slot(Key(owner or "", session_id)) in self.at_hand

    def current(self, session_id: str, owner: str | None = None) -> Session:
        """The session, with what other processes added to it meanwhile."""
        session = self.find(session_id, owner)
        if session.durable and session.gate.enter_at_once():
            try:
                self._look_again(session)
            finally:
                session.gate.leave()
        return session

    def drop(self, session_id: str, owner: str | None = None) -> None:
        """End a session; nothing happens if there is none."""
        key = Key(owner or "", session_id)
        with self._change:
            session = self.at_hand.pop(_slot(key), None)
            if session is not None:
                session.over = True
                session.forget()
        if self.store is not None:
            self.store.write(Delete(key))

    def state(self, session_id: str, owner: str | None = None) -> dict[str, Any] | None:
        """History and engine state as plain data of the caller's own; None if there is no such session."""
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

    def state_hash(self, session_id: str, owner: str | None = None) -> str:
        """Equal for sessions with equal histories and equal engine state."""
        import hashlib

        session = self.current(session_id, owner)
        _, state, length = session.branches()
        whole = session.history.digest(length)
        return hashlib.blake2b(whole + (state.digest() if state.slots() else b""), digest_size=32).hexdigest()

    def close(self) -> None:
        """Forget every session; the stored ones stay in the store, which is closed."""
        with self._change:
            self.at_hand.clear()
        if self.store is not None:
            self.store.close()
        self._threads.close()

    def __len__(self) -> int:
        return len(self.at_hand)

    def _load(self, key: Key) -> Session | None:
        if self.store is None:
            return None
        with self._change:
            session = self.at_hand.get(_slot(key))
            if session is not None:
                return session
            stored = self.store.load(key)
            if stored is None:
                return None
            session = Session.stored(key, stored)
            self._make_room()
            self.at_hand[_slot(key)] = session
        if stored.intent is not None and session.gate.enter_at_once():
            try:
                self._look_again(session)
            finally:
                session.gate.leave()
        return session

    def _expired(self, session: Session) -> bool:
        if not self._unused(session) or not session.gate.enter_at_once():
            return False
        try:
            if session.durable and not self._unused_elsewhere(session):
                return False
            self.drop(session.key.session_id, session.key.owner or None)
        finally:
            session.gate.leave()
        return True

    def _unused(self, session: Session) -> bool:
        return self.ttl is not None and self._clock() - session.used > self.ttl

    def _unused_elsewhere(self, session: Session) -> bool:
        """Whether other processes, too, have not used it for so long."""
        store = self._durable()
        if not store.try_hold(session.key):
            return False
        try:
            newer = store.newer(session.key, session.branch, len(session.history))
            session.used = max(session.used, 0.0 if newer is None else newer.used)
            return self._unused(session)
        finally:
            store.release(session.key)

    def count(self, owner: str) -> int:
        """How many sessions an owner has, not counting those that have expired."""
        with self._change:
            self._sweep()
            if self.store is None:
                return sum(one.key.owner == owner and not one.over for one in list(self.at_hand.values()))
        return self.store.count(owner)

    def _sweep(self) -> None:
        """End what nobody used for so long; looks at all of them, so not each time."""
        now = self._clock()
        if self.ttl is None or (now - self._swept < min(self.ttl, 1.0) and len(self.at_hand) < self.max_open):
            return
        self._swept = now
        for session in [s for s in self.at_hand.values() if self._unused(s)]:
            self._expired(session)
        if self.store is not None:
            self.store.expire(now - self.ttl)

    def _tell_of_use(self, session: Session) -> None:
        if self.ttl is not None and session.used - session.told > self.ttl / 4 and not session.over:
            session.told = session.used
            self._durable().submit(Touch(session.key, session.branch, session.used), _never_mind)

    def _gone(self, session: Session) -> None:
        self.at_hand.pop(_slot(session.key), None)

    def _check_room(self) -> None:
        count = len(self.at_hand) if self.store is None else self._stored_count(self.store)
        if count >= self.max_open:
            raise SessionError(f"{count:,} sessions are open, the most allowed; tear some down, or set a ttl")
        self._make_room()

    def _stored_count(self, store: SessionStore) -> int:
        """How many the store has, within a moment: counting takes longer the more there are."""
        now = self._clock()
        when, number = self._counted
        fresh = when <= now < when + _COUNT_SECONDS and number + 1 < self.max_open
        self._counted = (when, number + 1) if fresh else (now, store.count())
        return self._counted[1]

    def _make_room(self) -> None:
        if self.store is None or len(self.at_hand) < _CACHED:
            return
        idle = sorted((s for s in self.at_hand.values() if not s.gate.busy), key=lambda s: s.used)
        for session in idle[: _CACHED // 10]:
            self.at_hand.pop(_slot(session.key), None)


def _check_id(session_id: str) -> None:
    if not isinstance(session_id, str) or not session_id:
        raise SessionError("a session id is text and not empty")
    if "\0" in session_id or any("\ud800" <= char <= "\udfff" for char in session_id):
        raise SessionError("a session id holds no NUL and no half of a surrogate pair; not every store could keep it")


def _never_mind(error: BaseException | None) -> None:
    """A session may expire too early if the store did not hear of its use; nothing is lost that was acknowledged."""


def _slot(key: Key) -> Key | str:
    # Most sessions have no owner, and looking up text is quicker than looking up a pair.
    return key if key.owner else key.session_id
