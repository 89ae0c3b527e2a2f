"""Sessions as every wire shows them, and `SessionQuota`, which limits the sessions of a key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from toolyard.engines.base import ToolEngine
from toolyard.model.errors import SessionError
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import read_initial


def check_initial_state(state: dict[str, Any]) -> None:
    """Raise `HttpFault` 400 if the initial state is invalid."""
    try:
        read_initial(state)
    except SessionError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}") from None


async def describe_session(sessions: Sessions, owner: str | None, session_id: str) -> dict[str, Any]:
    """Return the number of entries, state hash and last use of a session."""

    def read() -> dict[str, Any]:
        digest = sessions.state_hash(session_id, owner)
        session = sessions.find(session_id, owner)
        return {
            "session_id": session_id,
            "entries": len(session.history),
            "state_hash": digest,
            # The time in the store, as in listings, so that all processes agree.
            "used": format_time(sessions, session.stored_use if session.durable else session.used),
        }

    return await sessions.off_loop(read)


def format_time(sessions: Sessions, seconds: float) -> str:
    """Return a session's time as ISO 8601 text."""
    return sessions.date_of(seconds).isoformat(timespec="milliseconds")


def list_sessions(sessions: Sessions, owner: str) -> list[tuple[str, int, float]]:
    """Return id, number of entries and last use of the owner's sessions, sorted by id. Blocks on the store."""
    if sessions.store is not None:
        return sorted((info.session_id, info.entries, info.used) for info in sessions.store.sessions(owner))
    own = [
        session for session in list(sessions.in_memory.values()) if session.key.owner == owner and not session.is_over
    ]
    return sorted((session.key.session_id, len(session.history), session.used) for session in own)


def find_parents(sessions: Sessions, owner: str) -> dict[str, str]:
    """Return the parent of each of the owner's sessions that is a fork of an existing session. Blocks on the store."""
    if sessions.store is None:
        own = [session for session in list(sessions.in_memory.values()) if session.key.owner == owner]
        return {session.key.session_id: session.parent for session in own if session.parent is not None}
    return sessions.store.parents(owner)


async def read_state(engine: ToolEngine, owner: str | None, session_id: str) -> dict[str, Any]:
    """Return the state of a session and its hash."""

    def read() -> dict[str, Any]:
        digest = engine.state_hash(session_id, owner=owner)
        return {"state": engine.get_session_state(session_id, owner=owner), "state_hash": digest}

    return await engine.sessions.off_loop(read)


class SessionQuota:
    """Limits the sessions of each owner, by counting them in the store before one is created.

    A process creates an owner's sessions one at a time; each further process may exceed the limit by one.
    """

    def __init__(self, sessions: Sessions, most: int) -> None:
        self._sessions = sessions
        self._limit = most
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def reserve(self, owner: str | None) -> AsyncIterator[None]:
        """Enter before creating a session; raises `HttpFault` 429 at the owner's limit. Without an owner, no limit."""
        if owner is None:
            yield
            return
        async with self._locks.setdefault(owner, asyncio.Lock()):
            if await self._sessions.off_loop(lambda: self._sessions.count(owner)) >= self._limit:
                raise HttpFault(
                    429,
                    "session.quota",
                    f"this key has reached its limit of {self._limit:,} sessions",
                    details={"sessions_per_key": self._limit},
                    hint="delete unused ones by DELETE /v1/sessions/{session_id}",
                )
            yield


def can_open_session(principal: Principal) -> bool:
    """True for a key that may execute or simulate calls somewhere, and so can use a session."""
    return any(principal.scopes.allows_somewhere(verb) for verb in ("execute", "simulate"))


def check_may_open_session(principal: Principal) -> None:
    """Raise 403 for a key that may neither execute nor simulate calls anywhere."""
    if not can_open_session(principal):
        raise HttpFault(403, "auth.forbidden", "this key has no scope with the verb execute or simulate")
