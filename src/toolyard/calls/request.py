"""`CallRequest`: what somebody on the other side of a wire asks for, in one piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from toolyard.calls.events import Mode
from toolyard.model.call import ToolCall
from toolyard.model.context import Notice
from toolyard.model.tool import Tool


class Scope(Protocol):
    """What of a registry somebody may see and use."""

    @property
    def sees_all(self) -> bool:
        """True if nothing is hidden from them, so that hints may name any tool."""

    def sees(self, tool: Tool) -> bool:
        """False: to them, the tool does not exist."""

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if they may have it called."""


Listener = Callable[[ToolCall, Notice], None]
"""Told what tools say while they run. It returns at once and may be called from any thread."""


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Calls to be answered in order, and under which conditions."""

    calls: Sequence[ToolCall]
    session_id: str | None = None
    """None: in a session of their own, which nobody else sees and which is not kept."""
    mode: Mode = "execute"
    timeout: float | None = None
    """Seconds for each call, in place of what its engine allows."""
    at_most: float | None = None
    """Seconds for each call, whatever else is said."""
    owner: str | None = None
    context: Mapping[str, Any] = {}
    trace: Mapping[str, Any] = {}
    definitions: frozenset[str] | None = None
    """Hashes of the definitions the caller knows: a tool that has none of them is refused as `catalog.stale`."""
    scope: Scope | None = None
    """None: everything may be seen and called."""
    abandoned: list[Future[Any]] | None = None
    """Given a list, work that goes on past its deadline is put in it."""
    replay: bool = False
    """True: a `call_id` that was answered before in the session gets that answer again, and runs nothing."""
    notify: Listener | None = None
    """Told of progress."""
