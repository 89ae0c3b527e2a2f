"""`SessionViews`: sessions as plain data of the reader's own."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import UnknownSessionError
from toolyard.sessions.history import read_entry
from toolyard.sessions.session import Session, check_number
from toolyard.sessions.state import State
from toolyard.sessions.world_diff import WorldDiff, diff_states, hash_world


class RecordedCall(msgspec.Struct, frozen=True):
    """An entry of a history, and what stands beside it."""

    seq: int
    """Its number; the first is 1."""
    tool_call: ToolCall
    tool_output: ToolResult
    at: datetime | None = None
    """When it was recorded; None if the session began with it."""
    took: float | None = None
    """Seconds from the beginning of the call to its answer, if they are known."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the time as text; what is not known is left out."""
        plain: dict[str, Any] = {
            "seq": self.seq,
            "tool_call": self.tool_call.to_dict(),
            "tool_output": self.tool_output.to_dict(),
        }
        if self.at is not None:
            plain["at"] = self.at.isoformat(timespec="milliseconds")
        if self.took is not None:
            plain["took"] = round(self.took, 6)
        return plain


class SessionViews(ABC):
    """What can be read of a session, with what other processes added to it."""

    clock: Callable[[], float]
    """What the times of sessions and of their entries are told by; see `date_of`."""
    _epoch: float

    @abstractmethod
    def current(self, session_id: str, owner: str | None = None) -> Session:
        """The session; `UnknownSessionError` if there is none."""

    def state(self, session_id: str, owner: str | None = None) -> dict[str, Any] | None:
        """History and engine state, good as `initial_state`; None if there is no such session."""
        try:
            session = self.current(session_id, owner)
        except UnknownSessionError:
            return None
        history, state, _ = session.branches()
        if session.over:
            return None
        entries = [read_entry(entry) for entry in history]
        executions = [{"tool_call": e.tool_call.to_dict(), "tool_output": e.tool_output.to_dict()} for e in entries]
        return {"tool_executions": executions, **state.to_dict()}

    def calls(
        self, session_id: str, owner: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[RecordedCall]:
        """The history from behind that entry on, each call with its time."""
        check_number("after", after)
        if limit is not None:
            check_number("limit", limit)
        history, _, _ = self.current(session_id, owner).branches()
        found: list[RecordedCall] = []
        for number, (text, at, took, _) in enumerate(islice(history.kept_since(after), limit), after + 1):
            entry = read_entry(text)
            when = None if at is None else self.date_of(at)
            found.append(RecordedCall(number, entry.tool_call, entry.tool_output, when, took))
        return found

    def date_of(self, seconds: float) -> datetime:
        """The date of a time that `clock` told."""
        return datetime.fromtimestamp(seconds + self._epoch, UTC)

    def world(self, session_id: str, owner: str | None = None, *, at: int | None = None) -> State:
        """What engines keep in it, now or behind its `at`-th entry."""
        if at is not None:
            check_number("at", at)
        session = self.current(session_id, owner)
        _, state, _ = session.branches(at)
        if session.over:
            raise UnknownSessionError(f"session {session_id!r} is over")
        return state

    def world_hash(self, session_id: str, owner: str | None = None, *, at: int | None = None) -> str:
        """Equal for equal worlds, whatever path led there."""
        return hash_world(self.world(session_id, owner, at=at))

    def world_diff(
        self,
        session_id: str,
        other_id: str | None = None,
        owner: str | None = None,
        *,
        at_a: int | None = None,
        at_b: int | None = None,
    ) -> WorldDiff:
        """What leads from the world of one session, or of one point in it, to that of another, or of another point."""
        before = self.world(session_id, owner, at=at_a)
        return diff_states(before, self.world(session_id if other_id is None else other_id, owner, at=at_b))

    def state_hash(self, session_id: str, owner: str | None = None) -> str:
        """Equal for sessions with equal histories and equal engine state."""
        session = self.current(session_id, owner)
        _, state, length = session.branches()
        whole = session.history.digest(length)
        return hashlib.blake2b(whole + (state.digest() if state.slots() else b""), digest_size=32).hexdigest()
