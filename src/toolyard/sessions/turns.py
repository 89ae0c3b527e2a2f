"""Taking turns in sessions: among threads and tasks by a gate, among processes by the store."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from toolyard.loop.threads import Threads
from toolyard.model.errors import SessionError, UnknownSessionError
from toolyard.sessions.entry import interrupted
from toolyard.sessions.session import INSIDE, Session, busy_error, inside_itself_error
from toolyard.sessions.state import Changes, read_changes, write_changes
from toolyard.sessions.store import Append, Intend, SessionStore, Withdraw

T = TypeVar("T")

_log = logging.getLogger(__name__)

_POLL = 0.02
"""Seconds between two looks at a session that another process has."""
_STORE_THREADS = 8
_CRASHED = "nobody answered for the call: its process ended, or its engine was closed, before it was recorded"


class Turns:
    """Whoever has a session's turn is alone in it, and has read what others added before."""

    def __init__(self, store: SessionStore | None, clock: Callable[[], float]) -> None:
        self.store = store
        self._clock = clock
        self._threads = Threads(_STORE_THREADS, "toolyard-store")

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
            self.caught_up(session)
            return
        while True:
            held, cancelled = await self.in_thread(lambda: store.try_hold(session.key))
            if held and cancelled is None:
                _, cancelled = await self.in_thread(lambda: self.caught_up(session))
            if cancelled is not None:
                if held:
                    await self.in_thread(lambda: store.release(session.key))
                raise cancelled
            if held:
                return
            if until is not None and time.monotonic() >= until:
                raise busy_error(session)
            await asyncio.sleep(_POLL)

    async def aleave(self, session: Session) -> None:
        """`leave` for a task."""
        if session.durable and not self._durable().quick:
            _, cancelled = await self.in_thread(lambda: self.leave(session))
            if cancelled is not None:
                raise cancelled
        else:
            self.leave(session)

    async def in_thread(self, work: Callable[[], T]) -> tuple[T, BaseException | None]:
        """Do something blocking with the store, to its end even if this task is cancelled meanwhile."""
        import asyncio

        future = asyncio.wrap_future(self._threads.submit(work))
        cancelled: BaseException | None = None
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError as error:
                cancelled = error
        return future.result(), cancelled

    def leave(self, session: Session) -> None:
        """Give the turn back. Interrupted, it may be called again, as long as `session.taken`."""
        session.holder = None
        session.used = self._clock()
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
        # Not through `caught_up`: an interrupt at the beginning of a call would find nobody to let go of the session.
        try:
            self._read_newer(session, held=True)
        except BaseException:
            store.release(session.key)
            raise

    def caught_up(self, session: Session) -> None:
        """Read what others added to a session held just now; lets go of it again if that fails."""
        store = self._durable()
        try:
            self._read_newer(session, held=True)
        except BaseException:
            store.release(session.key)
            raise

    def intent(self, session: Session, call: bytes) -> Intend:
        """What the store is told before a call that may change the world."""
        return Intend(session.key, session.branch, len(session.history) + 1, call)

    def withdrawal(self, session: Session) -> Withdraw:
        """What it is told if that call was never begun."""
        return Withdraw(session.key, session.branch, len(session.history) + 1)

    def addition(self, session: Session, entry: bytes, changes: Changes) -> Append:
        """What it is told when the call is over."""
        session.told = self._clock()
        number = len(session.history) + 1
        return Append(session.key, session.branch, number, entry, write_changes(changes), session.told)

    def _look_again(self, session: Session) -> None:
        store = self._durable()
        held = store.try_hold(session.key)
        try:
            self._read_newer(session, held=held)
        except UnknownSessionError:
            raise
        except SessionError as error:
            # A full disk must not keep anybody from reading; what could not be settled is settled later.
            _log.warning("session %s: %s", session.key.session_id, error)
        finally:
            if held:
                store.release(session.key)

    def _read_newer(self, session: Session, *, held: bool) -> None:
        store = self._durable()
        newer = store.newer(session.key, session.branch, len(session.history))
        if newer is None:
            session.over = True
            self._gone(session)
            raise UnknownSessionError(f"session {session.key.session_id!r} is over")
        for item in newer.entries:
            session.commit(item.entry, read_changes(item.changes))
            session.counts = None
        if held and newer.intent is not None:
            # Whoever meant to make this call no longer holds the session, so nobody will tell what came of it.
            entry = interrupted(newer.intent[1], _CRASHED)
            store.write(self.addition(session, entry, {}))
            session.commit(entry)

    def _durable(self) -> SessionStore:
        if self.store is None:
            raise SessionError("these sessions have no store")
        return self.store

    def _tell_of_use(self, session: Session) -> None:
        """Say that a session was used without anything being added; only where that keeps it from expiring."""

    def _gone(self, session: Session) -> None:
        """The store no longer has it."""
