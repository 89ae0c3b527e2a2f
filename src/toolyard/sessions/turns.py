"""`SessionTurns`: how a thread or a task takes the turn of a session, against others here and in other processes."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from toolyard.loop.threads import Threads, outlast
from toolyard.model.errors import SessionError, UnknownSessionError
from toolyard.sessions.session import INSIDE, Session, busy_error, inside_itself_error
from toolyard.sessions.store.base import Touch
from toolyard.sessions.store.sql import SessionStore

T = TypeVar("T")

_POLL = 0.02
"""Seconds between two looks at a session that another process has."""


class SessionTurns(ABC):
    """One at a time is inside a session; a stored one is held against other processes, and read anew."""

    store: SessionStore | None
    ttl: float | None
    clock: Callable[[], float]
    _threads: Threads

    @abstractmethod
    def _read_newer(self, session: Session, *, held: bool) -> None:
        """Take in what other processes added."""

    def enter(self, session: Session, until: float | None = None, *, twin: str) -> None:
        """Take the session's turn, waiting for it until a monotonic time."""
        gate = session.gate
        if not gate.enter_at_once():
            if session.holder == threading.get_ident():
                raise inside_itself_error(session)
            self.check_outside(session)
            if not gate.enter(until, twin=twin):
                raise busy_error(session)
        held = False
        try:
            if session.over:
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
            if session.over:
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
        """Inline where sessions live in memory; as `in_thread` where a store may block."""
        return work() if self.store is None else await self.in_thread(work, undo)

    async def in_thread(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Do something blocking with the store, to its end even if this task is cancelled meanwhile: then `undo` it."""
        import asyncio

        future = asyncio.wrap_future(self._threads.submit(work))
        cancelled = await outlast(future)
        value = future.result()
        if cancelled is None:
            return value
        if undo is not None:
            await self.in_thread(lambda: undo(value))
        raise cancelled

    def leave(self, session: Session) -> None:
        """Give the turn back. Interrupted, it may be called again, as long as `session.taken`."""
        session.holder = None
        session.used = self.clock()
        try:
            if session.durable and self.store is not None:
                try:
                    self._tell_of_use(session)
                    self.store.release(session.key)
                except BaseException:
                    # An interrupt may have come before it was released; twice does no harm.
                    self.store.release(session.key)
                    raise
        finally:
            # The first call in here gives the place back; only behind a call can an interrupt come.
            session.taken = False
            session.gate.free.append(None)
            if session.gate.line:
                session.gate.hand_over()

    def leave_off_loop(self, session: Session) -> None:
        """`leave`, from wherever the last of the work ended, be it an event loop that must not wait for a store."""
        if session.durable and not self._durable().quick:
            with suppress(SessionError):  # closed meanwhile, and everything let go of
                self._threads.submit(lambda: self.leave(session))
        else:
            self.leave(session)

    def check_outside(self, session: Session) -> None:
        """Raise if the code running here is part of the session's own turn."""
        if any(stay.gate is session.gate and not stay.over for stay in INSIDE.get()):
            raise inside_itself_error(session)

    def take(self, session: Session, until: float | None) -> None:
        """Hold a stored session against other processes, and read what they added. Blocks."""
        store = self._durable()
        while not store.try_hold(session.key):
            if until is not None and time.monotonic() >= until:
                raise busy_error(session)
            time.sleep(_POLL)
        # Not through `catch_up`: an interrupt at the beginning of a call would find nobody to let go of the session.
        try:
            self._read_newer(session, held=True)
        except BaseException:
            store.release(session.key)
            raise

    def catch_up(self, session: Session) -> None:
        """Read what others added to a session held just now; lets go of it again if that fails."""
        store = self._durable()
        try:
            self._read_newer(session, held=True)
        except BaseException:
            store.release(session.key)
            raise

    def _tell_of_use(self, session: Session) -> None:
        if self.ttl is not None and session.used - session.told > self.ttl / 4 and not session.over:
            session.told = session.used
            # If the store does not hear of it, it may expire too early; nothing is lost that was acknowledged.
            self._durable().submit(Touch(session.key, session.branch, session.used), lambda _error: None)

    def _durable(self) -> SessionStore:
        if self.store is None:
            raise SessionError("these sessions have no store")
        return self.store
