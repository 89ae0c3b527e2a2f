"""`SessionReading`: the methods by which an engine reads its sessions, each with its async twin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from toolyard.engines.execute_override import drop_unset
from toolyard.sessions.session import RecordedCall
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.world_diff import WorldDiff

T = TypeVar("T")
P = ParamSpec("P")


def run_off_loop(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The async twin of a method, looked up by name so that overrides in subclasses are used."""

    @functools.wraps(method)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        read: Callable[..., T] = getattr(self, method.__name__)
        found: T = await self.sessions.off_loop(lambda: read(*args, **drop_unset(**kwargs)))
        return found

    return run


class SessionReading:
    """Read access to `sessions`. These methods change nothing and do not wait for the session's turn."""

    sessions: Sessions

    def get_session_state(self, session_id: str, *, owner: str | None = None) -> dict[str, Any] | None:
        """`tool_executions`, a list of `{"tool_call", "tool_output"}`, and the state of each engine.

        None if there is no such session. The data is a copy, and can be passed as `initial_state`.
        """
        return self.sessions.state(session_id, owner)

    def get_session_history(
        self, session_id: str, *, after: int = 0, limit: int | None = None, owner: str | None = None
    ) -> list[RecordedCall]:
        """Every call with its result, when it was recorded, and how long it took; starting after entry `after`.

        Raises `UnknownSessionError` (a KeyError) if there is no such session.
        """
        return self.sessions.calls(session_id, owner, after=after, limit=limit)

    def state_hash(self, session_id: str, *, owner: str | None = None) -> str:
        """A hash that is equal for sessions with equal histories, whatever their ids and forks."""
        return self.sessions.state_hash(session_id, owner)

    def world_hash(self, session_id: str, *, at: int | None = None, owner: str | None = None) -> str:
        """A hash that is equal for equal worlds: the engines' state in the session, or its state after entry `at`,
        however it was reached. The arguments of `setup` are not included.
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
        """What was added, removed and changed between the worlds of two sessions, or two entries of one.

        `at_a` is a number of entries of the first session, `at_b` of the second; None means the end.
        """
        return self.sessions.world_diff(session_id, other_id, owner, at_a=at_a, at_b=at_b)

    aget_session_state = run_off_loop(get_session_state)
    aget_session_history = run_off_loop(get_session_history)
    astate_hash = run_off_loop(state_hash)
    aworld_hash = run_off_loop(world_hash)
    aworld_diff = run_off_loop(world_diff)
