"""The shapes of sessions on the wire; see `wire_types` for all others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from toolyard.serving.wire_types import Count, Date, Json, SessionId, Shape
from toolyard.sessions.state import INITIAL_SCHEMA


class SessionBody(Shape):
    """A new session; without an id the server makes one up."""

    session_id: SessionId | UnsetType = UNSET
    initial_state: Annotated[Json, Meta(extra_json_schema=INITIAL_SCHEMA)] | UnsetType = UNSET


class ForkBody(Shape):
    """A branch of a session: all of its entries, or the first `at`."""

    session_id: SessionId | UnsetType = UNSET
    at: Count | UnsetType = UNSET


class SessionView(Shape):
    """A session from outside. Equal histories have equal hashes."""

    session_id: str
    entries: Count
    state_hash: str
    used: Date


class SessionLine(Shape):
    """A line of the list of sessions."""

    session_id: str
    entries: Count
    used: Date


class SessionListing(Shape):
    """A page of the caller's sessions."""

    sessions: list[SessionLine]
    next_cursor: str | UnsetType = UNSET


class StateView(Shape):
    """History and engine state, good as `initial_state` of another session."""

    state: Json
    state_hash: str


class HistoryEntry(Shape):
    """One call and what came of it; when it was recorded and how many seconds it took, where that is known."""

    seq: Annotated[int, Meta(ge=1)]
    tool_call: Json
    tool_output: Json
    at: Date | UnsetType = UNSET
    took: float | UnsetType = UNSET


class WorldView(Shape):
    """What engines keep in a session; equal worlds have equal hashes, whatever path led there."""

    world: Json
    world_hash: str


class ChangeLine(Shape):
    """One place where two worlds differ; of values in `shortened` only the beginning of their JSON text is told."""

    path: str
    kind: Literal["added", "removed", "changed"]
    before: Any | UnsetType = UNSET
    after: Any | UnsetType = UNSET
    shortened: list[Literal["before", "after"]] | UnsetType = UNSET


class DiffView(Shape):
    """Where two worlds differ; `left_out` counts the changes that are not listed."""

    equal: bool
    changes: list[ChangeLine]
    left_out: Count


class HistoryPage(Shape):
    """Part of a history, eldest first; `next` is the `after` of the next page."""

    entries: list[HistoryEntry]
    next: Count | UnsetType = UNSET
