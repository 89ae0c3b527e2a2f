"""`Sessions`: all sessions of this process, their memory quota, and their durable store."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolyard.loop.threads import Threads, wait_uncancelled
from toolyard.model.errors import SessionError, SessionExistsError, SessionFullError, UnknownSessionError
from toolyard.model.names import find_similar
from toolyard.sessions.history import History, interrupted
from toolyard.sessions.session import Session, SessionViews, check_setup
from toolyard.sessions.state import Changes, State, read_changes, read_initial, write_changes
from toolyard.sessions.store.base import Append, Create, Delete, Intend, Key, Withdraw, Write
from toolyard.sessions.store.sql import SessionStore, steady_clock, submit_write
from toolyard.sessions.turns import SessionTurns

_log = logging.getLogger(__name__)

MAX_OPEN = 100_000
MAX_SESSION_BYTES = 256 * 1024 * 1024
MAX_BYTES = 4 * 1024 * 1024 * 1024
_STORE_THREADS = 8
_CRASHED = "the call has no known outcome: its process ended, or its engine was closed, before it was recorded"
_COUNT_SECONDS = 1.0
_COMPARED = 200
_CACHED = 10_000
"""Most stored sessions cached in memory; others are loaded again when needed."""
_LEAST_ROOM = 4096
"""Least number of bytes that a session may add before it is measured again."""
_ROOM_DIVISOR = 16
"""A session may add this fraction (1/16) of its size before it is measured again, so large ones are measured rarely."""


class Charge:
    """Bytes charged for one tail of entries, returned to the quota when the tail is freed."""

    __slots__ = ("_quota", "size")

    def __init__(self, quota: MemoryQuota) -> None:
        self._quota = quota
        self.size = 0

    def __del__(self) -> None:
        # Must not take the lock: the garbage collector may run this in a thread that holds it.
        self._quota.returned.append(self.size)


class MemoryQuota:
    """Limits the bytes of sessions in memory, for each session and in total.

    Each entry reduces its session's `room`; the session is measured only when that is used up. Entries shared by forks
    are charged once, to the session that wrote them, and returned when the last fork is gone.
    """

    def __init__(self, max_session_bytes: int, max_bytes: int) -> None:
        self.max_session_bytes = max_session_bytes
        self.max_bytes = max_bytes
        self.returned: list[int] = []
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of all sessions, as of their last measurement."""
        with self._lock:
            return self._settle()

    def admit(self, session: Session) -> None:
        """Start counting a session that is not stored; `SessionFullError` if its initial content is too large."""
        if session.durable:
            return
        session.history.charge = Charge(self)
        self.measure(session)
        self.check(session)

    def measure(self, session: Session) -> None:
        """Measure a session and set its `is_full` and `room`."""
        state, own = session.state.size, session.history.own_size
        size = state + session.history.size
        charge = session.history.charge
        with self._lock:
            if charge is not None:
                self._used += state + own - charge.size
                charge.size = state + own
            used = self._settle()
        left = min(self.max_session_bytes - size, self.max_bytes - used)
        session.is_full = left < 0
        session.room = max(min(left, max(_LEAST_ROOM, size // _ROOM_DIVISOR)), 0)

    def check(self, session: Session) -> None:
        """Measure a session; `SessionFullError` if it is full."""
        self.measure(session)
        if session.is_full:
            raise full_error(session)

    def release(self, session: Session) -> None:
        """Return the bytes of an ended session that no fork shares."""
        charge = session.history.charge
        if charge is not None:
            own = session.history.own_size
            with self._lock:
                self._used += own - charge.size
                charge.size = own

    def _settle(self) -> int:
        while self.returned:
            self._used -= self.returned.pop()
        return self._used


def full_error(session: Session) -> SessionFullError:
    """The error for a session that is full."""
    return SessionFullError(
        f"session {session.key.session_id!r} is full, or all sessions in memory together are; nothing of this was run. "
        "Tear sessions down, ask for less, keep them in a store, or raise sessions.max_session_bytes or max_bytes"
    )


class Sessions(SessionViews, SessionTurns):
    """Finds, opens and ends sessions. Without a store they live as long as this object.

    `ttl` ends sessions that many seconds after their last use. `max_open` limits their number. Without a store,
    `max_session_bytes` limits the size of each and `max_bytes` that of all. Owns the store: `close` closes it.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        *,
        ttl: float | None = None,
        max_open: int = MAX_OPEN,
        max_session_bytes: int = MAX_SESSION_BYTES,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if store is not None and not callable(getattr(store, "try_hold", None)):
            raise SessionError(f"store must be a SessionStore, such as SqliteStore(path), not {type(store).__name__}")
        if ttl is not None and (not isinstance(ttl, int | float) or not ttl > 0):
            raise SessionError(f"ttl must be more than 0 seconds, not {ttl!r}")
        if not isinstance(max_open, int) or max_open < 1:
            raise SessionError(f"max_open must be a whole number, 1 or more, not {max_open!r}")
        self.store = store
        self.yard = ""
        """Path of this yard's file if several yards share the store, else empty."""
        self.clock = clock or (time.monotonic if store is None else steady_clock(store))
        # The monotonic clock of sessions in memory has no defined epoch.
        self._epoch = time.time() - time.monotonic() if store is None and clock is None else 0.0
        self._threads = Threads(_STORE_THREADS, "toolyard-store")
        self.ttl = ttl
        self.max_open = max_open
        self.quota = MemoryQuota(max_session_bytes, max_bytes)
        self.in_memory: dict[Key | str, Session] = {}
        """Sessions in memory, by id, or by `Key` if they have an owner."""
        self._change = threading.RLock()
        self._swept = self.clock()
        self._counted = (float("-inf"), 0)

    def open(
        self,
        session_id: str,
        *,
        owner: str | None = None,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
        at: int | None = None,
        setup: Changes | None = None,
    ) -> Session:
        """Create a session: empty, from `initial_state`, or as a fork of another one, at its end or after its `at`-th
        entry. `setup` is stored in its state.
        """
        check_setup(session_id, initial_state, fork_of, at)
        key = Key(owner or "", session_id)
        if self.store is not None and key.slot in self.in_memory:
            with suppress(UnknownSessionError):  # another process may have ended it
                self.current(session_id, owner)
        parent = None if fork_of is None else self.current(fork_of, owner)
        entries, changes = ((), {}) if initial_state is None else read_initial(initial_state)
        changes |= setup or {}
        with self._change:
            self._sweep()
            if key.slot in self.in_memory:
                raise SessionExistsError(f"session {session_id!r} is already set up; tear it down or pick another id")
            self._check_room()
            if parent is not None and parent.is_over:
                raise UnknownSessionError(f"session {fork_of!r} is over")
            session, base = self._new(key, parent, at, entries, changes)
            self.quota.admit(session)
            # Visible to others from now on, so its gate stays closed until the store has it.
            session.gate.enter_at_once()
            self.in_memory[key.slot] = session
        try:
            if self.store is not None:
                branch = None if parent is None else parent.branch
                self.store.write(
                    Create(key, session.branch, branch, base, entries, write_changes(changes), session.used)
                )
        except BaseException:
            session.is_over = True
            self._discard(session)
            raise
        finally:
            session.gate.leave()
        return session

    def _new(
        self, key: Key, parent: Session | None, at: int | None, entries: tuple[bytes, ...], changes: Changes
    ) -> tuple[Session, int]:
        history, state, base = (History(), State(), 0) if parent is None else parent.branches(at)
        for entry in entries:
            history.append(entry)
        if changes:
            state.apply(changes)
        durable = self.store is not None
        branch = uuid.uuid4().hex if durable else ""
        session = Session(key, history, state, branch=branch, durable=durable, used=self.clock())
        if parent is not None:
            session.parent = parent.key.session_id
            if parent.counts is not None and at is None:
                session.counts = dict(parent.counts)
        return session, base

    def find(self, session_id: str, owner: str | None = None) -> Session:
        """The session; `UnknownSessionError` if there is none, or it has another owner."""
        session = self.in_memory.get(Key(owner, session_id) if owner else session_id)
        if session is None:
            session = self._load(Key(owner or "", session_id))
        if session is None or session.is_over or (self.ttl is not None and self._drop_if_expired(session)):
            near = self._find_similar_ids(session_id, owner)
            hint = f"did you mean {near[0]!r}?" if near else "set it up first"
            raise UnknownSessionError(f"no session is called {session_id!r}; {hint}")
        return session

    def _find_similar_ids(self, session_id: str, owner: str | None) -> list[str]:
        """Ids of the owner's sessions in memory that are similar; empty if there are too many to compare."""
        if len(self.in_memory) > _COMPARED:
            return []
        keys = [session.key for session in tuple(self.in_memory.values()) if not session.is_over]
        return find_similar(session_id, [key.session_id for key in keys if key.owner == (owner or "")])

    def known(self, session_id: str, owner: str | None = None) -> bool:
        """True if `find` needs no store access."""
        return self.store is None or Key(owner or "", session_id).slot in self.in_memory

    def current(self, session_id: str, owner: str | None = None) -> Session:
        """The session, including entries that other processes have added."""
        session = self.find(session_id, owner)
        if session.durable:
            self._refresh(session)
        return session

    def drop(self, session_id: str, owner: str | None = None) -> None:
        """End a session, if it exists."""
        key = Key(owner or "", session_id)
        with self._change:
            session = self.in_memory.pop(key.slot, None)
            if session is not None:
                session.is_over = True
                session.forget()
                self.quota.release(session)
        if self.store is not None:
            self.store.write(Delete(key))

    def close(self) -> None:
        """Drop every session from memory and close the store, which keeps those stored."""
        with self._change:
            self.in_memory.clear()
        if self.store is not None:
            self.store.close()
        self._threads.close()

    def __len__(self) -> int:
        return len(self.in_memory)

    def intent(self, session: Session, call: bytes) -> Intend:
        """The write announcing a call that may change the outside world."""
        return Intend(session.key, session.branch, len(session.history) + 1, call)

    def withdrawal(self, session: Session) -> Withdraw:
        """The write that cancels an intent because its call was never started."""
        return Withdraw(session.key, session.branch, len(session.history) + 1)

    def addition(
        self, session: Session, entry: bytes, changes: Changes, at: float | None = None, took: float | None = None
    ) -> Append:
        """The write that records a completed call."""
        session.stored_use = self.clock() if at is None else at
        now, number = session.stored_use, len(session.history) + 1
        return Append(session.key, session.branch, number, entry, write_changes(changes), now, now, took)

    def write(self, write: Write) -> None:
        """Write to the store and wait until it is durable."""
        self._durable().write(write)

    async def awrite(self, write: Write) -> BaseException | None:
        """`write` for a task. Waits for the outcome even if cancelled meanwhile, and then returns the cancellation."""
        future = submit_write(self._durable(), write)
        cancelled = await wait_uncancelled(future)
        failure = future.result()
        if failure is not None:
            raise failure
        return cancelled

    def _refresh(self, session: Session) -> None:
        """Read entries added by other processes, unless a caller here has the turn and thus has read them already."""
        if not session.gate.enter_at_once():
            return
        store, held = self._durable(), False
        try:
            held = store.try_hold(session.key)
            self._read_newer(session, held=held)
        except UnknownSessionError:
            raise
        except SessionError as error:
            # A full disk must not prevent reading; an open intent is settled later.
            _log.warning("session %s: %s", session.key.session_id, error)
        finally:
            try:
                if held:
                    store.release(session.key)
            finally:
                session.gate.leave()

    def _read_newer(self, session: Session, *, held: bool) -> None:
        store = self._durable()
        newer = store.newer(session.key, session.branch, len(session.history))
        if newer is None:
            session.is_over = True
            self._discard(session)
            raise UnknownSessionError(f"session {session.key.session_id!r} is over")
        session.stored_use, session.used = newer.used, max(session.used, newer.used)
        for item in newer.entries:
            session.commit(item.entry, read_changes(item.changes), item.at, item.took)
            session.counts = None
        if held and newer.intent is not None:
            # The process that announced this call no longer holds the session, so its outcome stays unknown.
            entry = interrupted(newer.intent[1], _CRASHED)
            write = self.addition(session, entry, {})
            store.write(write)
            session.commit(entry, at=write.at)

    def _load(self, key: Key) -> Session | None:
        if self.store is None:
            return None
        with self._change:
            session = self.in_memory.get(key.slot)
            if session is not None:
                return session
            stored = self.store.load(key)
            if stored is None:
                return None
            session = Session.stored(key, stored)
            self._make_room()
            self.in_memory[key.slot] = session
        if stored.intent is not None:
            self._refresh(session)
        return session

    def _drop_if_expired(self, session: Session) -> bool:
        if not self._is_unused(session) or not session.gate.enter_at_once():
            return False
        try:
            if session.durable and not self._is_unused_elsewhere(session):
                return False
            self.drop(session.key.session_id, session.key.owner or None)
        finally:
            session.gate.leave()
        return True

    def _is_unused(self, session: Session) -> bool:
        return self.ttl is not None and self.clock() - session.used > self.ttl

    def _is_unused_elsewhere(self, session: Session) -> bool:
        """Whether other processes have not used the session within the `ttl` either."""
        store = self._durable()
        if not store.try_hold(session.key):
            return False
        try:
            newer = store.newer(session.key, session.branch, len(session.history))
            session.used = max(session.used, 0.0 if newer is None else newer.used)
            return self._is_unused(session)
        finally:
            store.release(session.key)

    def count(self, owner: str) -> int:
        """Number of an owner's sessions, without expired ones."""
        with self._change:
            self._sweep()
            if self.store is None:
                return sum(one.key.owner == owner and not one.is_over for one in list(self.in_memory.values()))
        return self.store.count(owner)

    def _sweep(self) -> None:
        """End expired sessions. Rate-limited, since it looks at all of them."""
        now = self.clock()
        if self.ttl is None or (now - self._swept < min(self.ttl, 1.0) and len(self.in_memory) < self.max_open):
            return
        self._swept = now
        for session in [s for s in self.in_memory.values() if self._is_unused(s)]:
            self._drop_if_expired(session)
        if self.store is not None:
            self.store.expire(now - self.ttl)

    def _discard(self, session: Session) -> None:
        self.in_memory.pop(session.key.slot, None)

    def _check_room(self) -> None:
        count = len(self.in_memory) if self.store is None else self._stored_count(self.store)
        if count >= self.max_open:
            raise SessionError(f"{count:,} sessions are open, the most allowed; tear some down, or set a ttl")
        if self.quota.used > self.quota.max_bytes:
            most = f"{self.quota.max_bytes:,}"
            raise SessionError(f"sessions in memory hold {most} bytes, the most allowed; tear some down")
        self._make_room()

    def _stored_count(self, store: SessionStore) -> int:
        """Number of stored sessions, cached for a second, since counting takes longer the more there are."""
        now = self.clock()
        when, number = self._counted
        fresh = when <= now < when + _COUNT_SECONDS and number + 1 < self.max_open
        self._counted = (when, number + 1) if fresh else (now, store.count())
        return self._counted[1]

    def _make_room(self) -> None:
        if self.store is None or len(self.in_memory) < _CACHED:
            return
        idle = sorted((s for s in self.in_memory.values() if not s.gate.busy), key=lambda s: s.used)
        for session in idle[: _CACHED // 10]:
            self.in_memory.pop(session.key.slot, None)
