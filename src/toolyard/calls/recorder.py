"""`Recorder`: the store first, then the history, then whoever waits. Nothing is acknowledged that could be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.calls.invocation import Invocation
from toolyard.model.errors import SessionError, UnknownToolError
from toolyard.registry.bind import find
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.entry import read_entry
from toolyard.sessions.session import Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import Changes
from toolyard.sessions.store import SessionStore, Write

if TYPE_CHECKING:
    import asyncio

_NEVER_RAN = frozenset({"tool.denied", "tool.not_found", "tool.invalid_args", "tool.no_engine"})


class Recorder:
    """Writes what happened. `counting` keeps the numbers of calls that budgets need."""

    def __init__(self, sessions: Sessions, *, counting: bool = False) -> None:
        self._sessions = sessions
        self._counting = counting

    def record(self, session: Session, entry: bytes, changes: Changes, invocation: Invocation | None) -> None:
        """Make an entry durable, then part of the history."""
        if session.durable and not session.over:
            self._store.write(self._sessions.addition(session, entry, changes))
        session.commit(entry, changes)
        if self._counting and invocation is not None and invocation.begun:
            self._count(session, invocation)

    async def arecord(
        self, session: Session, entry: bytes, changes: Changes, invocation: Invocation | None
    ) -> BaseException | None:
        """`record` for a task. Cancelled meanwhile, it still finishes, and returns the cancellation."""
        cancelled: BaseException | None = None
        if session.durable and not session.over:
            cancelled = await self._write(self._sessions.addition(session, entry, changes))
        session.commit(entry, changes)
        if self._counting and invocation is not None and invocation.begun:
            self._count(session, invocation)
        return cancelled

    def announce(self, session: Session, call: bytes) -> None:
        """Say that a call is about to change the world."""
        if not session.over:
            self._store.write(self._sessions.intent(session, call))

    async def aannounce(self, session: Session, call: bytes) -> None:
        """`announce` for a task. Cancelled meanwhile, the call will not be made, and nothing is left announced."""
        if session.over:
            return
        cancelled = await self._write(self._sessions.intent(session, call))
        if cancelled is not None:
            await self._write(self._sessions.withdrawal(session))
            raise cancelled

    def withdraw(self, session: Session) -> None:
        """Take an announcement back: the call was never begun."""
        if not session.over:
            self._store.write(self._sessions.withdrawal(session))

    async def awithdraw(self, session: Session) -> None:
        """`withdraw` for a task."""
        if not session.over:
            await self._write(self._sessions.withdrawal(session))

    def counts(self, session: Session, snapshot: Snapshot) -> dict[str, int]:
        """How often each tool ran in the session; read off the history once, kept up from then on."""
        if not self._counting:
            return {}
        if session.counts is None:
            session.counts = {}
            for text in session.history:
                entry = read_entry(text)
                info = entry.tool_output.error_info
                if info is None or info.code not in _NEVER_RAN:
                    name = _qualified(snapshot, entry.tool_call.name)
                    session.counts[name] = session.counts.get(name, 0) + 1
        return session.counts

    def _count(self, session: Session, invocation: Invocation) -> None:
        if session.counts is not None:
            name = invocation.tool.qualified_name
            session.counts[name] = session.counts.get(name, 0) + 1

    async def _write(self, write: Write) -> BaseException | None:
        """Wait until the store has it, whatever happens to this task meanwhile."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[BaseException | None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            if not future.done():
                future.set_result(error)

        def done(error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, error)
            except RuntimeError:
                return  # the loop is closed, and nobody waits any more

        self._store.submit(write, done)
        cancelled: BaseException | None = None
        while not future.done():
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError as error:
                cancelled = error
        failure = future.result()
        if failure is not None:
            raise failure
        return cancelled

    @property
    def _store(self) -> SessionStore:
        if self._sessions.store is None:
            raise SessionError("a durable session without a store")
        return self._sessions.store


def _qualified(snapshot: Snapshot, name: str) -> str:
    """The name budgets know a tool by, whichever of its names was used; of a tool that is gone, what was written."""
    try:
        return find(snapshot, name)[0].tool.qualified_name
    except UnknownToolError:
        return name
