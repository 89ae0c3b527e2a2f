"""`SessionReading`: what an engine tells of its sessions, each method with its a-twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from toolyard.engines.execute_override import given_options
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.views import RecordedCall
from toolyard.sessions.world_diff import WorldDiff

T = TypeVar("T")


class SessionReading:
    """Reads from `sessions`: none of this changes anything, or needs a session's turn."""

    sessions: Sessions

    def get_session_state(self, session_id: str, *, owner: str | None = None) -> dict[str, Any] | None:
        """`tool_executions`, a list of `{"tool_call", "tool_output"}`, beside each engine's own state.

        None if there is no such session. The data is the caller's own, and good as `initial_state`.
        """
        return self.sessions.state(session_id, owner)

    def get_session_history(
        self, session_id: str, *, after: int = 0, limit: int | None = None, owner: str | None = None
    ) -> list[RecordedCall]:
        """Every call with its result, when it was recorded, and how long it took; from behind entry `after` on.

        Raises `UnknownSessionError` (a KeyError) if there is no such session.
        """
        return self.sessions.calls(session_id, owner, after=after, limit=limit)

    def state_hash(self, session_id: str, *, owner: str | None = None) -> str:
        """Equal for sessions with equal histories, whatever their ids and however they were forked."""
        return self.sessions.state_hash(session_id, owner)

    def world_hash(self, session_id: str, *, at: int | None = None, owner: str | None = None) -> str:
        """Equal for equal worlds: what engines keep in the session, or kept behind its `at`-th entry, whatever path
        led there. What the session was set up with is no part of it.
        """
        return self.sessions.world_hash(session_id, owner, at=at)

    def world_diff(
        self,
        session_id: str,
        other_id: str | None = None,
        *,
        at_a: int | None = None,
        at_b: int | None = None,
        owner: str | None = None,
    ) -> WorldDiff:
        """What was added, removed and changed between the worlds of two sessions, or of two points of one.

        `at_a` is a number of entries of the first, `at_b` of the second; None is the end.
        """
        return self.sessions.world_diff(session_id, other_id, owner, at_a=at_a, at_b=at_b)

    async def aget_session_state(self, session_id: str, *, owner: str | None = None) -> dict[str, Any] | None:
        """`get_session_state` for async code."""
        return await self._off_loop(lambda: self.get_session_state(session_id, **given_options(owner=owner)))

    async def aget_session_history(
        self, session_id: str, *, after: int = 0, limit: int | None = None, owner: str | None = None
    ) -> list[RecordedCall]:
        """`get_session_history` for async code."""
        return await self._off_loop(lambda: self.get_session_history(session_id, after=after, limit=limit, owner=owner))

    async def astate_hash(self, session_id: str, *, owner: str | None = None) -> str:
        """`state_hash` for async code."""
        return await self._off_loop(lambda: self.state_hash(session_id, owner=owner))

    async def aworld_hash(self, session_id: str, *, at: int | None = None, owner: str | None = None) -> str:
        """`world_hash` for async code."""
        return await self._off_loop(lambda: self.world_hash(session_id, at=at, owner=owner))

    async def aworld_diff(
        self,
        session_id: str,
        other_id: str | None = None,
        *,
        at_a: int | None = None,
        at_b: int | None = None,
        owner: str | None = None,
    ) -> WorldDiff:
        """`world_diff` for async code."""
        return await self._off_loop(lambda: self.world_diff(session_id, other_id, at_a=at_a, at_b=at_b, owner=owner))

    async def _off_loop(self, work: Callable[[], T], undo: Callable[[], None] | None = None) -> T:
        """Inline where sessions live in memory; in a thread where a store may block."""
        if self.sessions.store is None:
            return work()
        value, cancelled = await self.sessions.in_thread(work)
        if cancelled is not None:
            if undo is not None:
                await self.sessions.in_thread(undo)
            raise cancelled
        return value
