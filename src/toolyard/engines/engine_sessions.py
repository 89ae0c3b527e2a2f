"""`EngineSessions`: the methods by which an engine's sessions are opened, read and ended, each with its async twin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from toolyard.engines.execute_override import drop_unset
from toolyard.sessions.session import RecordedCall, Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import read_setup
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


class EngineSessions:
    """The sessions of an engine. Reading them changes nothing and does not wait for their turn."""

    sessions: Sessions

    def setup(
        self,
        session_id: str,
        *args: Any,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
        at: int | None = None,
        owner: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Open a session: empty, with the `get_session_state` of another, or as a fork.

        A fork shares the history of `fork_of`, all of it or the first `at` entries, without copying it; engines see
        their state as of the last of these. `owner`, if given, is needed again to find the session. All other arguments
        are stored with the session and inherited by its forks, so they must be JSON; engines read them from
        `invocation.setup`. Raises `SessionExistsError` (a ValueError) if the id is taken, and `UnknownEntryError` (a
        ValueError) if `at` is past the end.
        """
        given = read_setup(args, kwargs)
        if fork_of is None and (first := self.first_states()):
            initial_state = {**first, **(initial_state or {})}
        session = self.sessions.open(
            session_id, owner=owner, initial_state=initial_state, fork_of=fork_of, at=at, setup=given
        )
        self._begin_own_sessions(session, fork_of, at)

    def _begin_own_sessions(self, session: Session, fork_of: str | None, at: int | None) -> None:
        """Hook for engines whose parts keep their own sessions; an override that raises must undo what it began."""

    def first_states(self) -> dict[str, dict[str, Any]]:
        """Initial session state of the engines, by name; `initial_state` overrides it."""
        return {}

    def teardown(self, session_id: str, *, owner: str | None = None) -> None:
        """End a session, if it exists."""
        self.sessions.drop(session_id, owner)
        self.ended(session_id, owner)

    async def asetup(
        self,
        session_id: str,
        *args: Any,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
        at: int | None = None,
        owner: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`setup` for async code. If cancelled, it leaves no session behind."""
        options = drop_unset(initial_state=initial_state, fork_of=fork_of, at=at, owner=owner)
        await self.sessions.off_loop(
            lambda: self.setup(session_id, *args, **options, **kwargs),
            undo=lambda _: self.teardown(session_id, **drop_unset(owner=owner)),
        )

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """Called when a session has ended, even one that this engine never saw."""

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

    ateardown = run_off_loop(teardown)
    aget_session_state = run_off_loop(get_session_state)
    aget_session_history = run_off_loop(get_session_history)
    astate_hash = run_off_loop(state_hash)
    aworld_hash = run_off_loop(world_hash)
    aworld_diff = run_off_loop(world_diff)
