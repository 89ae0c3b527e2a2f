"""The Tool screen: what a tool is, the form that runs it, what came of that, and the same call elsewhere."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request

from toolyard.engines.base import ToolEngine
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.context import Notify
from toolyard.model.errors import UnknownToolError
from toolyard.model.json_words import closest
from toolyard.model.tool import Tool
from toolyard.registry.bind import find
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.catalog_view import CatalogView, show_native
from toolyard.serving.console.form import FormField, fill_form, form_fields, pretty, read_form, read_json_form, skeleton
from toolyard.serving.console.rendering import CONSOLE, base_url
from toolyard.serving.console.screens import Form, Screen, ScreenSet, Shown
from toolyard.serving.console.snippets import Snippet, write_call_snippets
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import KeyScope
from toolyard.serving.invoke import Invoker
from toolyard.serving.routing import caller_of, path_value, query_int, query_str
from toolyard.serving.session_view import run_off_loop
from toolyard.serving.visibility import Shows
from toolyard.sessions.history import read_entry

_JSON = "json"
"""The control that holds all arguments, where they are written as JSON."""
_TEMPLATE = "tool.html"
_MOST_NEIGHBORS = 8
_MOST_ENTRIES = 2**53
_CHANGED = "This tool has changed since its form was shown, so nothing was run. Please fill it in again."


class OverloadLink(msgspec.Struct, frozen=True):
    """One of the definitions that share a name."""

    fingerprint: str
    parameters: list[str]
    chosen: bool


class ConsoleAnswer(msgspec.Struct, frozen=True):
    """What came of running a tool from its page."""

    mode: Mode
    result: ToolResult
    milliseconds: float


class FeedingTool(msgspec.Struct, frozen=True):
    """A tool at the other end of an edge of the dataflow, and what goes over it."""

    name: str
    score: float
    carries: list[str]
    """As `output → parameter`."""


class ToolPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a tool's page shows."""

    tool: dict[str, Any]
    overloads: list[OverloadLink]
    fields: list[FormField]
    as_json: bool
    may_run: bool
    may_simulate: bool
    snippets: list[Snippet]
    fed_by: list[FeedingTool] | None
    """None if nobody has studied the dataflow here."""
    feeds: list[FeedingTool] | None
    held: bool = False
    stale: bool = False
    filled: dict[str, str] = {}
    """By control, as they stand in the form."""
    mistakes: dict[str, str] = {}
    answer: ConsoleAnswer | None = None
    notice: str = ""
    session: str = ""
    """The session that it runs in; empty for none."""
    at: int | None = None
    """The entry of the session behind which it is simulated; None for its end."""


class _Draft(msgspec.Struct, frozen=True):
    """A form as it is to be shown: of which tool, and with what in it."""

    tool: Tool
    overloads: list[Tool]
    fields: list[FormField]
    as_json: bool = False
    filled: dict[str, str] = {}
    mistakes: dict[str, str] = {}
    arguments: dict[str, Any] | None = None
    answer: ConsoleAnswer | None = None
    notice: str = ""
    session: str = ""
    at: int | None = None


class ToolScreens(ScreenSet):
    """Shows tools one at a time, and runs them."""

    def __init__(self, catalog: CatalogView, invoker: Invoker, engine: ToolEngine) -> None:
        self._catalog = catalog
        self._invoker = invoker
        self._engine = engine

    def screens(self) -> tuple[Screen, ...]:
        """One page for each tool."""
        return (Screen(f"{CONSOLE}/tools/{{name}}", _TEMPLATE, self.show_tool),)

    def forms(self) -> tuple[Form, ...]:
        """The form of each tool."""
        return (Form(f"{CONSOLE}/tools/{{name}}", self.run_tool, runs=True),)

    async def show_tool(self, request: Request) -> ToolPage:
        """`GET /console/tools/{name}`; `?session=` runs it there, and `&entry=` begins with what was sent then."""
        found = self._find_overloads(request)
        chosen = query_str(request, "fingerprint") or ""
        tool = next((one for one in found if chosen and one.fingerprint.startswith(chosen)), None)
        notice = "" if tool is not None or not chosen else "There is no such overload any more; this is the first one."
        tool = tool or found[0]
        fields = form_fields(tool.parameters)
        session, at = query_str(request, "session") or "", query_int(request, "at", 0, _MOST_ENTRIES, -1)
        draft = _Draft(tool, found, fields, notice=notice, session=session, at=at if session and at >= 0 else None)
        arguments = await self._find_sent(request, draft.session)
        as_json = query_str(request, "as") == _JSON
        filled = None
        if not as_json:
            filled = {one.control: one.shown for one in fields} if arguments is None else fill_form(fields, arguments)
        if filled is None:
            as_json, filled = True, {_JSON: pretty(skeleton(fields) if arguments is None else arguments)}
        draft = msgspec.structs.replace(draft, as_json=as_json, filled=filled, arguments=arguments)
        return self._make_page(request, draft)

    async def run_tool(self, request: Request, data: Mapping[str, str], notify: Notify) -> Shown:
        """`POST /console/tools/{name}`: runs the overload whose form was sent, and shows what came of it beside it."""
        found = self._find_overloads(request)
        mode: Mode = "simulate" if data.get("mode") == "simulate" else "execute"
        session, at = data.get("session", ""), _read_entry_number(data.get("at", ""))
        tool = next((one for one in found if one.definition_hash == data.get("definition")), None)
        if tool is None:
            # Another tool than the one that was looked at: its form must be seen before it runs.
            fields = form_fields(found[0].parameters)
            filled = {field.control: field.shown for field in fields}
            draft = _Draft(found[0], found, fields, filled=filled, notice=_CHANGED, session=session, at=at)
            return Shown(_TEMPLATE, self._make_page(request, draft), 409)
        if not KeyScope(caller_of(request).principal).may(mode, tool):
            verb = "simulate" if mode == "simulate" else "run"
            raise HttpFault(403, "auth.forbidden", f"this key may not {verb} tools of {tool.namespace}")
        fields = form_fields(tool.parameters)
        as_json = _JSON in data
        form = read_json_form(_JSON, data[_JSON]) if as_json else read_form(fields, data)
        shown = {name: value for name, value in data.items() if not _is_secret(fields, name)}
        draft = _Draft(tool, found, fields, as_json, shown, form.mistakes, form.arguments, session=session, at=at)
        if form.mistakes:
            return Shown(_TEMPLATE, self._make_page(request, draft), 400)
        answer = await self._run_call(request, draft, mode, notify)
        mistakes = {} if as_json else _group_by_control(fields, answer.result)
        return Shown(
            _TEMPLATE, self._make_page(request, msgspec.structs.replace(draft, answer=answer, mistakes=mistakes))
        )

    def _find_overloads(self, request: Request) -> list[Tool]:
        name, shows = path_value(request), self._catalog.visibility.filter_for(caller_of(request).principal)
        snapshot = self._catalog.registry.snapshot
        found = _list_overloads(snapshot, shows, name)
        if not found:
            # The same words for a tool that may not be seen: that it exists is not everybody's to know.
            details = {"candidates": _find_near(snapshot, shows, name)}
            raise HttpFault(404, "tool.not_found", f"There is no tool called {name[:200]}.", details=details)
        return found

    async def _find_sent(self, request: Request, session: str) -> dict[str, Any] | None:
        """The arguments of an entry of a session, to be sent again with changes; None if no entry is named."""
        entry = query_int(request, "entry", 1, _MOST_ENTRIES, 0)
        if not session or not entry:
            return None
        sessions, owner = self._engine.sessions, caller_of(request).principal.owner

        def read() -> dict[str, Any] | None:
            log, _, _ = sessions.current(session, owner).branches()
            text = next(log.since(entry - 1), None)
            arguments = None if text is None else read_entry(text).tool_call.arguments
            return arguments if isinstance(arguments, dict) else None

        return await run_off_loop(sessions, read)

    async def _run_call(self, request: Request, draft: _Draft, mode: Mode, notify: Notify) -> ConsoleAnswer:
        call = ToolCall(draft.tool.qualified_name, draft.arguments or {}, None, draft.tool.fingerprint)
        mode = mode if draft.at is None else "simulate"
        began = time.perf_counter()
        async with self._open_session(request, draft) as session_id:
            [result] = await self._invoker.run_calls(
                *(caller_of(request), [call]),
                session_id=session_id,
                mode=mode,
                notify=lambda _, notice: notify(notice),
            )
        return ConsoleAnswer(mode, result, (time.perf_counter() - began) * 1000)

    @asynccontextmanager
    async def _open_session(self, request: Request, draft: _Draft) -> AsyncIterator[str | None]:
        """The session to run in: behind an earlier entry a fork of it, which is gone afterwards."""
        if not draft.session or draft.at is None:
            yield draft.session or None
            return
        fork, owner = f"console-{secrets.token_urlsafe(12)}", caller_of(request).principal.owner
        await self._engine.asetup(fork, fork_of=draft.session, at=draft.at, owner=owner)
        try:
            yield fork
        finally:
            await self._engine.ateardown(fork, owner=owner)

    def _make_page(self, request: Request, draft: _Draft) -> ToolPage:
        tool, scope = draft.tool, KeyScope(caller_of(request).principal)
        fed_by, feeds = self._find_neighbors(request, tool)
        stale = {source.source for source in self._catalog.registry.report.sources if source.state == "stale"}
        return ToolPage(
            tool=show_native(tool),
            overloads=[
                OverloadLink(one.fingerprint, list(one.parameters.get("properties", {})), one is tool)
                for one in draft.overloads
            ],
            fields=draft.fields,
            as_json=draft.as_json,
            may_run=draft.at is None and scope.may("execute", tool),
            may_simulate=scope.may("simulate", tool),
            snippets=self._write_snippets(request, draft),
            fed_by=fed_by,
            feeds=feeds,
            held=self._catalog.visibility.is_held(caller_of(request).principal, tool),
            stale=tool.source in stale,
            filled=draft.filled,
            mistakes=draft.mistakes,
            answer=draft.answer,
            notice=draft.notice,
            session=draft.session,
            at=draft.at,
        )

    def _write_snippets(self, request: Request, draft: _Draft) -> list[Snippet]:
        """The same call for whoever goes on from here; secrets are theirs to fill in."""
        arguments = skeleton(draft.fields) if draft.arguments is None else dict(draft.arguments)
        for field in draft.fields:
            if field.kind == "secret" and field.name in arguments:
                arguments[field.name] = "..."
        return write_call_snippets(
            *(base_url(request), quote(draft.tool.qualified_name, safe=":"), self._catalog.registry.snapshot),
            *(draft.tool, arguments),
            with_key=caller_of(request).principal.key_id is not None,
        )

    def _find_neighbors(
        self, request: Request, tool: Tool
    ) -> tuple[list[FeedingTool] | None, list[FeedingTool] | None]:
        """Who feeds the tool, and whom it feeds, among those that may be seen."""
        from toolyard.insight.dataflow.artifact import Dataflow

        dataflow = self._catalog.registry.artifacts.get("dataflow")
        place = dataflow.place(tool) if isinstance(dataflow, Dataflow) else None
        if not isinstance(dataflow, Dataflow) or place is None:
            return None, None
        shows = self._catalog.visibility.filter_for(caller_of(request).principal)

        def describe(source: int, target: int, other: int, score: float) -> FeedingTool:
            edge = dataflow.edge(source, target)
            carries = [f"{feed.output} → {feed.parameter}" for feed in (edge.feeds if edge else ())[:3]]
            return FeedingTool(dataflow.tools[other].qualified_name, round(score, 4), carries)

        def is_shown(other: int) -> bool:
            return other != place and (shows is None or shows(dataflow.tools[other]))

        before = [(other, score) for other, score in dataflow.in_edges(place) if is_shown(other)][:_MOST_NEIGHBORS]
        after = [(other, score) for other, score in dataflow.out_edges(place) if is_shown(other)][:_MOST_NEIGHBORS]
        return (
            [describe(other, place, other, score) for other, score in before],
            [describe(place, other, other, score) for other, score in after],
        )


def _list_overloads(snapshot: Snapshot, shows: Shows | None, name: str) -> list[Tool]:
    """Every overload of a name, alias or unmistakable bare name that may be seen."""
    try:
        found = find(snapshot, name, sees=shows, hints=False)
    except UnknownToolError:
        return []
    return [candidate.tool for candidate in found if shows is None or shows(candidate.tool)]


def _find_near(snapshot: Snapshot, shows: Shows | None, name: str) -> list[str]:
    """Names that may have been meant, among those that may be seen."""
    seen = [
        qualified
        for qualified, candidates in snapshot.names.items()
        if shows is None or any(shows(one.tool) for one in candidates)
    ]
    return closest(name, seen)


def _read_entry_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _is_secret(fields: list[FormField], control: str) -> bool:
    return any(field.control == control and field.kind == "secret" for field in fields)


def _group_by_control(fields: list[FormField], result: ToolResult) -> dict[str, str]:
    """What the schema says about each field, to stand beside it."""
    controls = {field.name: field.control for field in fields}
    said: dict[str, list[str]] = {}
    for violation in result.error_info.details.get("violations", []) if result.error_info else []:
        head, _, rest = violation["pointer"].removeprefix("/").partition("/")
        control = controls.get(head.replace("~1", "/").replace("~0", "~"))
        if control is not None and violation["pointer"]:
            said.setdefault(control, []).append(f"/{rest}: {violation['message']}" if rest else violation["message"])
    return {control: "; ".join(words) for control, words in said.items()}
