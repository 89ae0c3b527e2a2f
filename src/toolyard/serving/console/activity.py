"""The Calls, Sessions and Approvals screens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Literal, get_args

from starlette.requests import Request
from starlette.responses import Response

from toolyard.calls.approval import WantedState
from toolyard.model.call import Notify
from toolyard.model.errors import SessionError
from toolyard.serving.console.rendering import PageView, item_path, redirect
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.serving.query import query_int, query_str, read_count
from toolyard.serving.routes.calls import CallRoutes
from toolyard.serving.routing import caller_of, path_value
from toolyard.serving.service import Service
from toolyard.serving.session_view import (
    can_open_session,
    check_may_open_session,
    find_parents,
    format_time,
    list_sessions,
)
from toolyard.sessions.world_diff import hash_world, plain_world

Row = dict[str, Any]

_FILTERS = ("tool", "session", "code", "mode", "effects", "key", "errors")
_CALLS, _SESSIONS, _ENTRIES, _APPROVALS = 50, 100, 50, 50
"""Rows per page."""
_MAX_INT = 2**53
_WAITED = "A request that is waiting continues now; otherwise the caller sends the same call again, and it runs."


async def show_calls(service: Service, request: Request) -> Row:
    """`GET /console/calls`: the call log, newest first, with the filters of `GET /v1/calls`."""
    engine = service.yard.tool_engine
    page: Row = {"calls": []} if engine.journal is None else await CallRoutes(engine).find_page(request, _CALLS)
    return {
        "is_kept": engine.journal is not None,
        "filters": {name: value for name in _FILTERS if (value := query_str(request, name))},
        "calls": page["calls"],
        "next_cursor": page.get("next_cursor"),
        # The full width of the duration bars on this page.
        "slowest_ms": max((call["duration_ms"] for call in page["calls"]), default=0.0),
    }


async def show_call(service: Service, request: Request) -> Row:
    """`GET /console/calls/{id}`: its log row, and its session entry if that is the caller's and still stored."""
    engine, owner = service.yard.tool_engine, caller_of(request).principal.owner
    call = await CallRoutes(engine).find_call(request)
    session_id, seq = call.get("session_id", ""), call.get("seq", 0)

    def read() -> Row | None:
        try:
            found = engine.sessions.calls(session_id, owner, after=seq - 1, limit=1)
        except SessionError:
            return None
        return found[0].to_dict() if found else None

    is_own = session_id and seq and call.get("key") == owner
    return {"call": call, "entry": await engine.sessions.off_loop(read) if is_own else None}


async def show_sessions(service: Service, request: Request) -> Row:
    """`GET /console/sessions`: a page of the caller's sessions, last used first, each followed by its forks."""
    principal, sessions = caller_of(request).principal, service.yard.tool_engine.sessions
    owner = principal.owner or ""
    found, parents = await sessions.off_loop(lambda: (list_sessions(sessions, owner), find_parents(sessions, owner)))
    rows: list[Row] = [
        {"session_id": name, "entries": count, "used": format_time(sessions, used), "fork_of": parents.get(name)}
        for name, count, used in sorted(found, key=itemgetter(2), reverse=True)
    ]
    pages = max(1, -(-len(rows) // _SESSIONS))
    page = min(query_int(request, "page", 1, _MAX_INT, 1), pages)
    shown = _arrange_tree(rows)[(page - 1) * _SESSIONS : page * _SESSIONS]
    may_begin = can_open_session(principal)
    return {"sessions": shown, "total": len(rows), "page": page, "pages": pages, "may_begin": may_begin}


def _arrange_tree(rows: list[Row]) -> list[Row]:
    """Order rows depth-first, each fork after its parent, and add the `depth` of each.

    The tree of the first row comes first, although that row may be deep in it.
    """
    names = {row["session_id"] for row in rows}
    by_name: dict[str | None, Row] = {row["session_id"]: row for row in rows}
    forks: dict[str | None, list[Row]] = {}
    for row in rows:
        climbed, below = by_name.pop(row["session_id"], None), set()
        while climbed is not None:
            below.add(climbed["session_id"])
            parent = climbed["fork_of"]
            # A parent may have been deleted, and even made again as a fork of its own fork.
            has_place = parent in names and parent not in below
            forks.setdefault(parent if has_place else None, []).append(climbed)
            climbed = by_name.pop(parent, None)
    arranged: list[Row] = []
    line = [(row, 0) for row in reversed(forks.get(None, []))]
    while line:
        row, depth = line.pop()
        arranged.append({**row, "depth": depth})
        line += [(fork, depth + 1) for fork in reversed(forks.get(row["session_id"], []))]
    return arranged


async def show_session(service: Service, request: Request) -> Row:
    """`GET /console/sessions/{session_id}`: part of its history, oldest first, and its world.

    Without `?after=`, shows the last entries; without `?at=`, the world after the last entry.
    """
    session_id, principal = path_value(request), caller_of(request).principal
    owner, sessions = principal.owner, service.yard.tool_engine.sessions

    def read() -> Row:
        length = len(sessions.current(session_id, owner).history)
        at = min(query_int(request, "at", 0, _MAX_INT, length), length)
        world = sessions.world(session_id, owner, at=at)
        after = min(query_int(request, "after", 0, _MAX_INT, _MAX_INT), max(0, length - _ENTRIES))
        entries = []
        for call in sessions.calls(session_id, owner, after=after, limit=_ENTRIES):
            info = call.tool_output.error_info
            entries.append({**call.to_dict(), "code": "ok" if info is None else info.code})
        return {
            "session_id": session_id,
            "fork_of": find_parents(sessions, owner or "").get(session_id),
            "length": length,
            "state_hash": sessions.state_hash(session_id, owner),
            "entries": entries,
            "after": after,
            "page_size": _ENTRIES,
            "at": at,
            "world": plain_world(world),
            "world_hash": hash_world(world),
            "may_begin": can_open_session(principal),
        }

    return await sessions.in_thread(read)


async def show_diff(service: Service, request: Request) -> Row:
    """`GET /console/sessions/{session_id}/diff`, with the parameters of `GET /v1/sessions/{session_id}/diff`."""
    session_id, owner = path_value(request), caller_of(request).principal.owner
    other, sessions = query_str(request, "other") or session_id, service.yard.tool_engine.sessions

    def read() -> Row:
        at: dict[str, int] = {}
        for name, session in (("at_a", session_id), ("at_b", other)):
            length = len(sessions.current(session, owner).history)
            at[name] = min(query_int(request, name, 0, _MAX_INT, length), length)
        diff = sessions.world_diff(session_id, other, owner, **at)
        return {"session_id": session_id, "other": other, **at, **diff.to_dict()}

    return await sessions.in_thread(read)


async def begin_session(service: Service, request: Request, form: Mapping[str, str], notify: Notify) -> Response:
    """`POST /console/sessions`: open an empty session; its id is generated if the form gives none."""
    return await _open_session(service, request, form)


async def fork_session(service: Service, request: Request, form: Mapping[str, str], notify: Notify) -> Response:
    """`POST /console/sessions/{session_id}`: fork the session at its end, or after entry `at`."""
    text = form.get("at", "").strip()
    at = read_count(text)
    if text and at is None:
        raise HttpFault(400, "request.invalid_form", "the call to fork after must be a whole number, 0 or more")
    return await _open_session(service, request, form, fork_of=path_value(request), at=at)


async def _open_session(service: Service, request: Request, form: Mapping[str, str], **options: Any) -> Response:
    principal = caller_of(request).principal
    check_may_open_session(principal)
    session_id = form.get("session_id", "").strip() or secrets.token_urlsafe(9)
    async with service.quota.reserve(principal.owner):
        await service.yard.tool_engine.asetup(session_id, owner=principal.owner, **options)
    return redirect(request, item_path("sessions", session_id))


async def show_approvals(service: Service, request: Request) -> Row:
    """`GET /console/approvals`: pending approvals; `?state=` shows another state, or `all`."""
    state = query_str(request, "state")
    return await _list_approvals(service, caller_of(request).principal, state, query_str(request, "cursor"))


async def count_waiting(service: Service, principal: Principal) -> str:
    """The number of pending approvals that the principal sees, such as "3" or "50+"; empty for none."""
    page = await service.approvals.list_page(principal, state="pending", limit=_APPROVALS)
    count = len(page["approvals"])
    return "" if not count else f"{count}+" if "next_cursor" in page else str(count)


async def show_approval(service: Service, request: Request) -> Row:
    """`GET /console/approvals/{id}`."""
    return await service.approvals.show(caller_of(request).principal, path_value(request))


async def decide_approval(
    service: Service, request: Request, form: Mapping[str, str], notify: Notify
) -> PageView | Response:
    """`POST /console/approvals/{id}`: approve or deny; shows the outcome in the inbox or on the approval's page."""
    verdict = form.get("verdict")
    if verdict not in ("approve", "deny"):
        raise HttpFault(400, "request.invalid_form", "choose approve or deny")
    choice: Literal["approve", "deny"] = "approve" if verdict == "approve" else "deny"
    principal, approval_id = caller_of(request).principal, path_value(request)
    decided = await service.approvals.decide(principal, approval_id, choice, form.get("reason") or None)
    if form.get("from") != "inbox":
        return redirect(request, item_path("approvals", approval_id))
    page = await _list_approvals(service, principal, None, None)
    notice = f"{decided['tool']} is {decided['state']}. {_WAITED if choice == 'approve' else 'The caller is told.'}"
    return PageView("approvals.html", {**page, "notice": notice})


async def _list_approvals(service: Service, principal: Principal, state: str | None, cursor: str | None) -> Row:
    states: tuple[str, ...] = get_args(WantedState)
    wanted = state or "pending"
    if wanted not in states:
        raise HttpFault(400, "request.invalid_query", f"state must be one of {', '.join(states)}")
    page = await service.approvals.list_page(principal, state=wanted, limit=_APPROVALS, cursor=cursor)
    return {"state": wanted, "states": states, "notice": "", "next_cursor": None, **page}
