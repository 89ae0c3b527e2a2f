"""`Recorder`: the store first, then the history, then whoever waits. Nothing is acknowledged that could be lost."""

from __future__ import annotations

from toolyard.calls.invocation import Invocation
from toolyard.model.errors import SessionError, UnknownToolError
from toolyard.registry.bind import find
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.history import read_entry
from toolyard.sessions.session import Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import Changes
from toolyard.sessions.store import SessionStore, Write
from toolyard.sessions.store.base import submit_write

_NEVER_RAN = frozenset({"tool.denied", "tool.not_found", "tool.invalid_args", "tool.no_engine"})


class Recorder:
    """Writes what happened. `counting` keeps the numbers of calls that budgets need."""

    def __init__(self, sessions: Sessions, *, counting: bool = False) -> None:
        self._sessions = sessions
        self.counting = counting

    def intent(self, session: Session, call: bytes) -> Write:
        """Says to the store that a call is about to change the world."""
        return self._sessions.intent(session, call)

    def withdrawal(self, session: Session) -> Write:
        """Takes that back: the call was never begun."""
        return self._sessions.withdrawal(session)

    def addition(self, session: Session, entry: bytes, changes: Changes) -> Write:
        """Makes an entry durable."""
        return self._sessions.addition(session, entry, changes)

    def commit(self, session: Session, entry: bytes, changes: Changes, invocation: Invocation | None) -> None:
        """Make an entry part of the history; what a durable session gets, its store has already."""
        session.commit(entry, changes)
        if self.counting and invocation is not None and invocation.begun:
            self._count(session, invocation)

    def counts(self, session: Session, snapshot: Snapshot) -> dict[str, int]:
        """How often each tool ran in the session; read off the history once, kept up from then on."""
        if not self.counting:
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

    def write(self, write: Write) -> None:
        """Wait until the store has it."""
        self._store.write(write)

    async def awrite(self, write: Write) -> BaseException | None:
        """`write` for a task, to the end whatever happens to it meanwhile; the cancellation that came, if one did."""
        import asyncio

        future = submit_write(self._store, write)
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
