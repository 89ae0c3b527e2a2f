"""A session as it is seen from outside, on every wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from toolyard.engines.base import ToolEngine
from toolyard.model.errors import SessionError, UnknownSessionError
from toolyard.serving.http_fault import HttpFault
from toolyard.sessions.initial import read_initial
from toolyard.sessions.sessions import Sessions

T = TypeVar("T")


def check_initial_state(state: dict[str, Any]) -> None:
    """Refuse an initial state that is none."""
    try:
        read_initial(state)
    except SessionError as error:
        raise HttpFault(400, "request.invalid_shape", f"the body does not fit: {error}") from None


async def describe_session(sessions: Sessions, owner: str | None, session_id: str) -> dict[str, Any]:
    """How long a session is, and its hash."""

    def read() -> dict[str, Any]:
        digest = sessions.state_hash(session_id, owner)
        return {
            "session_id": session_id,
            "entries": len(sessions.find(session_id, owner).history),
            "state_hash": digest,
        }

    return await run_off_loop(sessions, read)


async def read_state(engine: ToolEngine, owner: str | None, session_id: str) -> dict[str, Any]:
    """Everything in a session."""

    def read() -> dict[str, Any]:
        found = engine.get_session_state(session_id, owner=owner)
        if found is None:
            raise UnknownSessionError(f"no session is called {session_id!r}")
        return {"state": found, "state_hash": engine.state_hash(session_id, owner=owner)}

    return await run_off_loop(engine.sessions, read)


async def run_off_loop(sessions: Sessions, work: Callable[[], T]) -> T:
    """Where a store may block, on a thread of the sessions'."""
    if sessions.store is None:
        return work()
    value, cancelled = await sessions.in_thread(work)
    if cancelled is not None:
        raise cancelled
    return value
