"""The Calls screens: what was called, by whom, and what became of it, as it happens; and one call whole."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from toolyard.engines.base import ToolEngine
from toolyard.model.errors import SessionError
from toolyard.serving.console.rendering import CONSOLE
from toolyard.serving.console.screens import Screen, ScreenSet
from toolyard.serving.routes.calls import CallRoutes
from toolyard.serving.routing import caller_of, query_str
from toolyard.serving.session_view import run_off_loop

_PATH = f"{CONSOLE}/calls"
_FILTERS = ("tool", "session", "code", "mode", "effects", "key", "errors")


class CallsPage(msgspec.Struct, frozen=True):
    """A page of the log, newest first."""

    is_kept: bool
    """False if calls are not logged here."""
    filters: dict[str, str]
    calls: list[dict[str, Any]]
    next_cursor: str | None
    slowest_ms: float
    """Of those on the page; what their bars are measured by."""


class CallPage(msgspec.Struct, frozen=True):
    """One call: its row, and what was sent and came back, if that is the caller's own and still kept."""

    call: dict[str, Any]
    entry: dict[str, Any] | None


class CallScreens(ScreenSet):
    """The call log, as `GET /v1/calls` has it."""

    def __init__(self, engine: ToolEngine, calls: CallRoutes) -> None:
        self._engine = engine
        self._calls = calls

    def screens(self) -> tuple[Screen, ...]:
        """The log, and one page for each call; nobody is led there if there is none."""
        label = "" if self._engine.journal is None else "Calls"
        return (
            Screen(_PATH, "calls.html", self.show_calls, label, heavy=True),
            Screen(f"{_PATH}/{{id}}", "call.html", self.show_call),
        )

    async def show_calls(self, request: Request) -> CallsPage:
        """`GET /console/calls`, with the filters of `GET /v1/calls`."""
        filters = {name: value for name in _FILTERS if (value := query_str(request, name))}
        if self._engine.journal is None:
            return CallsPage(False, filters, [], None, 0.0)
        page = await self._calls.find_page(request)
        slowest = max((call["duration_ms"] for call in page["calls"]), default=0.0)
        return CallsPage(True, filters, page["calls"], page.get("next_cursor"), slowest)

    async def show_call(self, request: Request) -> CallPage:
        """`GET /console/calls/{id}`."""
        call = await self._calls.find_call(request)
        return CallPage(call, await self._find_entry(request, call))

    async def _find_entry(self, request: Request, call: dict[str, Any]) -> dict[str, Any] | None:
        owner, session_id, seq = caller_of(request).principal.owner, call.get("session_id"), call.get("seq")
        if not session_id or not seq or call.get("key") != owner:
            return None
        sessions = self._engine.sessions

        def read() -> dict[str, Any] | None:
            try:
                found = sessions.calls(session_id, owner, after=seq - 1, limit=1)
            except SessionError:
                return None
            return found[0].to_dict() if found else None

        return await run_off_loop(sessions, read)
