"""`SessionTurns`: taking and returning a session's turn, exclusive in this process and among others with its store."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from toolyard.loop.threads import Threads, wait_uncancelled
from toolyard.model.errors import SessionError, UnknownSessionError
from toolyard.sessions.session import ENTERED_TURNS, Session, busy_error, inside_itself_error
from toolyard.sessions.store.base import Touch
from toolyard.sessions.store.sql import SessionStore

T = TypeVar("T")

_POLL = 0.02
"""Seconds between attempts to take a session that another process holds."""


class SessionTurns(ABC):
    """Admits one caller at a time to a session. A stored session is also locked in the store and read again."""

    store: SessionStore | None
    ttl: float | None
    clock: Callable[[], float]
    _threads: Threads

    @abstractmethod
    def _read_newer(self, session: Session, *, held: bool) -> None:
        """Append the entries that other processes added. `held` says that this process holds the session."""

    def enter(self, session: Session, until: float | None = None, *, twin: str) -> None:
        """Take the session's turn, waiting until a monotonic time; `SessionBusyError` on timeout."""
        gate = session.gate
        if not gate.enter_at_once():
            if session.holder == threading.get_ident():
                raise inside_itself_error(session)
            self.check_outside(session)
            if not gate.enter(until, twin=twin):
                raise busy_error(session)
        held = False
        try:
            if session.is_over:
                raise UnknownSessionError(f"session {session.key.session_id!r} is over")
            if session.durable:
                self.take(session, until)
                held = True
            session.holder = threading.get_ident()
            session.taken = True
        except BaseException:
            if held:
                self._durable().release(session.key)
            gate.leave()
            raise

    async def aenter(self, session: Session, until: float | None = None) -> None:
        """`enter` for a task."""
        if not session.gate.enter_at_once():
            self.check_outside(session)
            if not await session.gate.aenter(until):
                raise busy_error(session)
        try:
            if session.is_over:
                raise UnknownSessionError(f"session {session.key.session_id!r} is over")
            if session.durable:
                await self._atake(session, until)
            session.taken = True
        except BaseException:
            session.gate.leave()
            raise

    async def _atake(self, session: Session, until: float | None) -> None:
        import asyncio

        store = self._durable()
        if store.quick and store.try_hold(session.key):
            self.catch_up(session)
            return

        def let_go(held: bool) -> None:
            if held:
                store.release(session.key)

        while True:
            if await self.in_thread(lambda: store.try_hold(session.key), undo=let_go):
                await self.in_thread(lambda: self.catch_up(session), undo=lambda _: let_go(True))
                return
            if until is not None and time.monotonic() >= until:
                raise busy_error(session)
            await asyncio.sleep(_POLL)

    async def aleave(self, session: Session) -> None:
        """`leave` for a task."""
        if session.durable and not self._durable().quick:
            await self.in_thread(lambda: self.leave(session))
        else:
            self.leave(session)

    async def off_loop(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Run `work` inline if sessions are in memory, else as `in_thread`, because a store may block."""
        return work() if self.store is None else await self.in_thread(work, undo)

    async def in_thread(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Run blocking work in a thread. If this task is cancelled meanwhile, wait for it, `undo` it and re-raise."""
        import asyncio

        future = asyncio.wrap_future(self._threads.submit(work))
        cancelled = await wait_uncancelled(future)
        if cancelled is None:
            return future.result()
        if future.exception() is None and undo is not None:
            await self.in_thread(lambda: undo(future.result()))
        raise cancelled

    def leave(self, session: Session) -> None:
        """Return the turn. After an interrupt it may be called again while `session.taken` is true."""
        session.holder = None
        session.used = self.clock()
        try:
            if session.durable and self.store is not None:
                try:
                    self._store_last_use(session)
                    self.store.release(session.key)
                except BaseException:
                    # An interrupt may have come before the release; releasing twice is harmless.
                    self.store.release(session.key)
                    raise
        finally:
            # Interrupts are handled after calls only; the first call here is the one that frees the place.
            session.taken = False
            session.gate.free.append(None)
            if session.gate.line:
                session.gate.admit_waiters()

    def leave_off_loop(self, session: Session) -> None:
        """`leave` from any thread, including an event loop's, which must not wait for the store."""
        if session.durable and not self._durable().quick:
            with suppress(SessionError):  # closed meanwhile, which released everything
                self._threads.submit(lambda: self.leave(session))
        else:
            self.leave(session)

    def check_outside(self, session: Session) -> None:
        """Raise `SessionError` if the current code runs inside this session's turn."""
        if any(turn.gate is session.gate and not turn.is_over for turn in ENTERED_TURNS.get()):
            raise inside_itself_error(session)

    def take(self, session: Session, until: float | None) -> None:
        """Lock a stored session against other processes and read what they added. Blocks."""
        store = self._durable()
        while not store.try_hold(session.key):
            if until is not None and time.monotonic() >= until:
                raise busy_error(session)
            time.sleep(_POLL)
        # Not through `catch_up`: an interrupt on entering that call would leave the session held.
        try:
            self._read_newer(session, held=True)
        except BaseException:
            store.release(session.key)
            raise

    def catch_up(self, session: Session) -> None:
        """Read what others added to a session that was just locked; releases it if that fails."""
        store = self._durable()
        try:
            self._read_newer(session, held=True)
        except BaseException:
            store.release(session.key)
            raise

    def _store_last_use(self, session: Session) -> None:
        if self.ttl is not None and session.used - session.stored_use > self.ttl / 4 and not session.is_over:
            session.stored_use = session.used
            # If this write is lost, the session may expire too early; nothing acknowledged is lost.
            self._durable().submit(Touch(session.key, session.branch, session.used), lambda _error: None)

    def _durable(self) -> SessionStore:
        if self.store is None:
            raise SessionError("these sessions have no store")
        return self.store
