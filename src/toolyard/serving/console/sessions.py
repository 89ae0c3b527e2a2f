"""The Sessions screens: all of one's own, and one of them: what happened in it, what it holds, and forks of it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.engines.base import ToolEngine
from toolyard.model.context import Notify
from toolyard.serving.console.rendering import CONSOLE, item_path, redirect
from toolyard.serving.console.screens import Form, Screen, ScreenSet
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.serving.routing import caller_of, path_value, query_int, query_str
from toolyard.serving.session_view import (
    SessionQuota,
    check_may_begin,
    find_parents,
    list_sessions,
    run_in_thread,
    run_off_loop,
    show_time,
)
from toolyard.sessions.views import RecordedCall
from toolyard.sessions.world_diff import hash_world, plain_world

_PATH = f"{CONSOLE}/sessions"
_PAGE = 100
_ENTRIES = 50
_MOST = 2**53


class SessionRow(msgspec.Struct, frozen=True):
    """One session in the list."""

    session_id: str
    entries: int
    used: str
    fork_of: str | None = None
    depth: int = 0
    """How many forks lie between it and a session that is none."""


class SessionsPage(msgspec.Struct, frozen=True):
    """Some of the caller's sessions: by id, and forks behind what they were forked from."""

    sessions: list[SessionRow]
    total: int
    page: int
    pages: int
    may_begin: bool


class SessionPage(msgspec.Struct, frozen=True):
    """One session: a part of its history, eldest first, and what engines keep in it."""

    session_id: str
    length: int
    state_hash: str
    entries: list[dict[str, Any]]
    after: int
    """How many entries there are before the first that is shown."""
    page_size: int
    at: int
    """The entry behind which the world is shown; the last one if nobody chose another."""
    world: dict[str, Any]
    world_hash: str
    may_begin: bool


class DiffPage(msgspec.Struct, frozen=True):
    """Where two worlds differ: of two sessions, or of two points of one."""

    session_id: str
    at_a: int
    other: str
    at_b: int
    equal: bool
    changes: list[dict[str, Any]]
    left_out: int


class SessionScreens(ScreenSet):
    """Sessions of the caller; those of others are not there."""

    def __init__(self, engine: ToolEngine, quota: SessionQuota) -> None:
        self._engine = engine
        self._quota = quota

    def screens(self) -> tuple[Screen, ...]:
        """The list, and one page for each."""
        return (
            Screen(_PATH, "sessions.html", self.show_sessions, "Sessions", heavy=True),
            Screen(f"{_PATH}/{{session_id}}", "session.html", self.show_session, heavy=True),
            Screen(f"{_PATH}/{{session_id}}/diff", "diff.html", self.show_diff, heavy=True),
        )

    def forms(self) -> tuple[Form, ...]:
        """Beginning one, and forking one."""
        return (Form(_PATH, self.begin_session), Form(f"{_PATH}/{{session_id}}", self.fork_session))

    async def show_sessions(self, request: Request) -> SessionsPage:
        """`GET /console/sessions`."""
        principal, sessions = caller_of(request).principal, self._engine.sessions
        owner = principal.owner or ""
        found, parents = await run_off_loop(
            sessions, lambda: (list_sessions(sessions, owner), find_parents(sessions, owner))
        )
        rows = [SessionRow(name, count, show_time(sessions, used), parents.get(name)) for name, count, used in found]
        pages = max(1, -(-len(rows) // _PAGE))
        page = min(query_int(request, "page", 1, _MOST, 1), pages)
        shown = _arrange_tree(rows)[(page - 1) * _PAGE : page * _PAGE]
        return SessionsPage(shown, len(rows), page, pages, _may_begin(principal))

    async def show_session(self, request: Request) -> SessionPage:
        """`GET /console/sessions/{session_id}`; without `?after=` the last entries."""
        session_id, principal, sessions = path_value(request), caller_of(request).principal, self._engine.sessions
        wanted = query_int(request, "after", 0, _MOST, _MOST)

        def read() -> SessionPage:
            length = len(sessions.current(session_id, principal.owner).history)
            at = min(query_int(request, "at", 0, _MOST, length), length)
            world = sessions.world(session_id, principal.owner, at=at)
            after = min(wanted, max(0, length - _ENTRIES))
            calls = sessions.calls(session_id, principal.owner, after=after, limit=_ENTRIES)
            digest = sessions.state_hash(session_id, principal.owner)
            shown = [_describe_entry(call) for call in calls]
            return SessionPage(
                *(session_id, length, digest, shown, after, _ENTRIES, at),
                *(plain_world(world), hash_world(world), _may_begin(principal)),
            )

        return await run_in_thread(sessions, read)

    async def show_diff(self, request: Request) -> DiffPage:
        """`GET /console/sessions/{session_id}/diff`, with the parameters of `GET /v1/sessions/{session_id}/diff`."""
        session_id, owner, sessions = path_value(request), caller_of(request).principal.owner, self._engine.sessions
        other = query_str(request, "other") or session_id

        def read() -> DiffPage:
            first, second = (len(sessions.current(name, owner).history) for name in (session_id, other))
            at_a = min(query_int(request, "at_a", 0, _MOST, first), first)
            at_b = min(query_int(request, "at_b", 0, _MOST, second), second)
            found = sessions.world_diff(session_id, other, owner, at_a=at_a, at_b=at_b)
            changes = [change.to_dict() for change in found.changes]
            return DiffPage(session_id, at_a, other, at_b, found.equal, changes, found.left_out)

        return await run_in_thread(sessions, read)

    async def begin_session(self, request: Request, form: Mapping[str, str], notify: Notify) -> Response:
        """`POST /console/sessions`: an empty session, under a name of one's own or a new one."""
        return await self._begin(request, form)

    async def fork_session(self, request: Request, form: Mapping[str, str], notify: Notify) -> Response:
        """`POST /console/sessions/{session_id}`: one that begins where this one now is, or once was."""
        text = form.get("at", "").strip()
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise HttpFault(400, "request.invalid_form", "the entry to fork behind must be a whole number, 0 or more")
        return await self._begin(request, form, fork_of=path_value(request), at=int(text) if text else None)

    async def _begin(self, request: Request, form: Mapping[str, str], **options: Any) -> Response:
        principal = caller_of(request).principal
        check_may_begin(principal)
        session_id = form.get("session_id", "").strip() or secrets.token_urlsafe(9)
        async with self._quota.place(principal.owner):
            await self._engine.asetup(session_id, owner=principal.owner, **options)
        return redirect(item_path("sessions", session_id))


def _arrange_tree(rows: list[SessionRow]) -> list[SessionRow]:
    """Each row behind that of the session it was forked from, and as deep as that."""
    names = {row.session_id for row in rows}
    forks: dict[str | None, list[SessionRow]] = {}
    for row in rows:
        forks.setdefault(row.fork_of if row.fork_of in names else None, []).append(row)
    arranged: list[SessionRow] = []
    line = [(row, 0) for row in reversed(forks.get(None, []))]
    while line:
        row, depth = line.pop()
        arranged.append(msgspec.structs.replace(row, depth=depth))
        line += [(fork, depth + 1) for fork in reversed(forks.get(row.session_id, []))]
    return arranged


def _describe_entry(call: RecordedCall) -> dict[str, Any]:
    info = call.tool_output.error_info
    return {**call.to_dict(), "code": "ok" if info is None else info.code}


def _may_begin(principal: Principal) -> bool:
    scopes = principal.scopes
    return scopes.allows_somewhere("execute") or scopes.allows_somewhere("simulate")
