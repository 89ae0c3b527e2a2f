"""The Tool screen: a tool's definition, the form that runs it, the result, and snippets for the same call."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from starlette.requests import Request

from toolyard.model.call import Mode, Notify, ToolCall, ToolResult
from toolyard.model.errors import Denied, UnknownToolError
from toolyard.model.tool import Tool, json_digest
from toolyard.registry.bind import find_overloads
from toolyard.serving.catalog_view import CatalogView, show_native
from toolyard.serving.console.catalog import list_feeds, list_stale
from toolyard.serving.console.connect import Snippet, write_call_snippets
from toolyard.serving.console.form import (
    FilledForm,
    FormField,
    draft_arguments,
    fill_form,
    indent_json,
    make_fields,
    read_form,
    read_json_form,
)
from toolyard.serving.console.rendering import PageView
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.query import query_int, query_str, read_count
from toolyard.serving.routing import base_url, caller_of, path_value
from toolyard.serving.service import Service
from toolyard.words.redactor import REDACTED

Data = dict[str, Any]

_JSON = "json"
"""Name of the control that holds all arguments as JSON."""
_MOST_NEIGHBORS = 8
_MOST_ENTRIES = 2**53
_REDACTED = "Secrets are not shown. Please type them again: only exactly the approved call may run."
_CHANGED = "This tool has changed since its form was shown, so nothing was run. Please fill it in again."


class _Draft(msgspec.Struct, frozen=True):
    """The form to show: its tool and its contents."""

    tool: Tool
    overloads: list[Tool]
    fields: list[FormField]
    as_json: bool = False
    filled: dict[str, str] = {}
    """Text by control."""
    mistakes: dict[str, str] = {}
    arguments: Data | None = None
    answer: Data | None = None
    notice: str = ""
    session: str = ""
    """The session to run in; empty for none."""
    at: int | None = None
    """The entry of the session after which to simulate; None for the end."""


async def show_tool(service: Service, request: Request) -> Data:
    """`GET /console/tools/{name}`; `?session=` selects the session, `&entry=` fills in the arguments of that entry.

    `?approval=` selects overload, session and arguments of an approved call.
    """
    found, approval = _find_overloads(service.catalog, request), query_str(request, "approval")
    held = await service.approvals.show(caller_of(request).principal, approval) if approval else None
    chosen = query_str(request, "fingerprint") or ""
    if held is not None:
        tool = next((one for one in found if one.definition_hash == held["definition_hash"]), None)
    else:
        tool = next((one for one in found if not chosen or one.fingerprint.startswith(chosen)), None)
    notice = "" if tool is not None else "There is no such overload any more; this is the first one."
    tool = tool or found[0]
    fields = make_fields(tool.parameters)
    session, at = query_str(request, "session") or "", query_int(request, "at", 0, _MOST_ENTRIES, -1)
    arguments = await _find_sent_arguments(service, request, session)
    if held is not None:
        session = held["session_id"]
        arguments = {name: value for name, value in held["arguments"].items() if value != REDACTED}
        if json_digest(held["arguments"]) != held["digest"]:
            notice = notice or _REDACTED
    as_json = query_str(request, "as") == _JSON
    filled = None
    if not as_json:
        filled = _fill_defaults(fields) if arguments is None else fill_form(fields, arguments)
    if filled is None:
        as_json, filled = True, {_JSON: indent_json(draft_arguments(fields) if arguments is None else arguments)}
    draft = _Draft(tool, found, fields, as_json, filled, arguments=arguments, notice=notice, session=session)
    return _show_draft(service, request, replace(draft, at=at if session and at >= 0 else None))


async def run_tool(service: Service, request: Request, data: Mapping[str, str], notify: Notify) -> PageView:
    """`POST /console/tools/{name}`: run the overload whose form was sent, and show the result beside the form."""
    found = _find_overloads(service.catalog, request)
    tool = next((one for one in found if one.definition_hash == data.get("definition")), None)
    fields, status = make_fields((tool or found[0]).parameters), 200
    draft = _Draft(tool or found[0], found, fields, session=data.get("session", ""), at=read_count(data.get("at", "")))
    if tool is None:
        # The definition has changed since the form was rendered, so show the new form before running anything.
        status, draft = 409, replace(draft, filled=_fill_defaults(fields), notice=_CHANGED)
    elif data.get("mode") in ("form", _JSON):
        draft = _switch_form(data, draft)
    else:
        mode: Mode = "simulate" if data.get("mode") == "simulate" else "execute"
        if not caller_of(request).principal.can_call(mode, tool):
            raise HttpFault(403, Denied.code, f"this key may not {mode} tools of {tool.namespace}")
        form, secret = _read_sent(data, fields), {field.control for field in fields if field.kind == "secret"}
        shown = {name: value for name, value in data.items() if name not in secret}
        draft = replace(draft, as_json=_JSON in data, filled=shown, mistakes=form.mistakes, arguments=form.arguments)
        if form.mistakes:
            status = 400
        else:
            answer = await _run_call(service, request, draft, mode, notify)
            mistakes = {} if draft.as_json else _group_by_control(fields, answer["result"])
            draft = replace(draft, answer=answer, mistakes=mistakes)
    return PageView("tool.html", _show_draft(service, request, draft), status)


def _read_sent(data: Mapping[str, str], fields: list[FormField]) -> FilledForm:
    return read_json_form(_JSON, data[_JSON]) if _JSON in data else read_form(fields, data)


def _switch_form(data: Mapping[str, str], draft: _Draft) -> _Draft:
    """Switch between form and JSON, keeping what was filled in; secrets must be typed again."""
    fields, was_json, form = draft.fields, _JSON in data, _read_sent(data, draft.fields)
    # An empty field is not a mistake yet.
    mistakes = {control: words for control, words in form.mistakes.items() if data.get(control)}
    secret = {field.control: field.name for field in fields if field.kind == "secret"}
    filled, notice = None, ""
    if not mistakes and was_json:
        defaults = {field.name: field.default for field in fields if field.has_default}
        filled = fill_form(fields, {**defaults, **form.arguments})
        if filled is None:
            notice = "The form cannot show these arguments: some of them do not fit its fields."
    elif not mistakes:
        arguments = {**draft_arguments(fields), **form.arguments}
        filled = {_JSON: indent_json({name: value for name, value in arguments.items() if name not in secret.values()})}
    contents = data if filled is None else filled
    shown = {control: value for control, value in contents.items() if control not in secret}
    return replace(draft, mistakes=mistakes, notice=notice, filled=shown, as_json=was_json is (filled is None))


def _fill_defaults(fields: list[FormField]) -> dict[str, str]:
    return {field.control: field.shown for field in fields}


def _find_overloads(catalog: CatalogView, request: Request) -> list[Tool]:
    """Every visible overload of a qualified name, alias or unambiguous bare name."""
    name, shows = path_value(request), catalog.filter_for(caller_of(request).principal)
    snapshot = catalog.registry.snapshot
    try:
        candidates = find_overloads(snapshot, name, sees=shows, hints=False)
        found = [one.tool for one in candidates if shows is None or shows(one.tool)]
    except UnknownToolError:
        found = []
    if not found:
        # The same message for a tool that the key may not see, so as not to reveal that it exists.
        raise catalog.make_unknown(caller_of(request).principal, name, by_id=False)
    return found


async def _find_sent_arguments(service: Service, request: Request, session: str) -> Data | None:
    """The arguments of the session entry that the query names; None if it names none."""
    entry = query_int(request, "entry", 1, _MOST_ENTRIES, 0)
    if not session or not entry:
        return None
    sessions, owner = service.yard.tool_engine.sessions, caller_of(request).principal.owner

    def read() -> Data | None:
        found = sessions.calls(session, owner, after=entry - 1, limit=1)
        arguments = found[0].tool_call.arguments if found else None
        return arguments if isinstance(arguments, dict) else None

    return await sessions.off_loop(read)


async def _run_call(service: Service, request: Request, draft: _Draft, mode: Mode, notify: Notify) -> Data:
    call = ToolCall(draft.tool.qualified_name, draft.arguments or {}, None, draft.tool.fingerprint)
    mode = mode if draft.at is None else "simulate"
    began = time.perf_counter()
    async with _open_session(service, request, draft) as session_id:
        [result] = await service.invoker.run_calls(
            *(caller_of(request), [call]),
            session_id=session_id,
            mode=mode,
            notify=lambda _, notice: notify(notice),
        )
    return {"mode": mode, "result": result, "milliseconds": (time.perf_counter() - began) * 1000}


@asynccontextmanager
async def _open_session(service: Service, request: Request, draft: _Draft) -> AsyncIterator[str | None]:
    """The session to run in; with `draft.at`, a temporary fork after that entry."""
    if not draft.session or draft.at is None:
        yield draft.session or None
        return
    engine = service.yard.tool_engine
    fork, owner = f"console-{secrets.token_urlsafe(12)}", caller_of(request).principal.owner
    await engine.asetup(fork, fork_of=draft.session, at=draft.at, owner=owner)
    try:
        yield fork
    finally:
        await engine.ateardown(fork, owner=owner)


def _show_draft(service: Service, request: Request, draft: _Draft) -> Data:
    """The data of a tool's page."""
    tool, catalog, principal = draft.tool, service.catalog, caller_of(request).principal
    fed_by, feeds = _find_neighbors(catalog, request, tool)
    shared = ("fields", "as_json", "filled", "mistakes", "answer", "notice", "session", "at")
    return {
        "tool": show_native(tool),
        "overloads": [
            {
                "fingerprint": one.fingerprint,
                "parameters": list(one.parameters.get("properties", {})),
                "chosen": one is tool,
            }
            for one in draft.overloads
        ],
        **{name: getattr(draft, name) for name in shared},
        "may_run": draft.at is None and principal.can_call("execute", tool),
        "may_simulate": principal.can_call("simulate", tool),
        "snippets": _write_snippets(service, request, draft),
        # Both None without a dataflow enrichment.
        "fed_by": fed_by,
        "feeds": feeds,
        "held": catalog.is_held(principal, tool),
        "stale": tool.source in list_stale(catalog),
    }


def _write_snippets(service: Service, request: Request, draft: _Draft) -> list[Snippet]:
    """Snippets for the same call, with placeholders in place of secrets."""
    arguments = draft_arguments(draft.fields) if draft.arguments is None else dict(draft.arguments)
    for field in draft.fields:
        if field.kind == "secret" and field.name in arguments:
            arguments[field.name] = "..."
    place, name = base_url(request, service.block.public_url), quote(draft.tool.qualified_name, safe=":")
    return write_call_snippets(
        *(place, name, service.catalog.registry.snapshot, draft.tool, arguments),
        with_key=caller_of(request).principal.key_id is not None,
    )


def _find_neighbors(catalog: CatalogView, request: Request, tool: Tool) -> tuple[list[Data] | None, list[Data] | None]:
    """The visible tools that feed this one and those it feeds, with the values that each edge passes on."""
    from toolyard.insight.dataflow.artifact import Dataflow

    dataflow = catalog.registry.artifacts.get("dataflow")
    place = dataflow.place(tool) if isinstance(dataflow, Dataflow) else None
    if not isinstance(dataflow, Dataflow) or place is None:
        return None, None
    shows = catalog.filter_for(caller_of(request).principal)

    def describe(edges: list[tuple[int, float]], *, incoming: bool) -> list[Data]:
        tools = dataflow.tools
        shown = [edge for edge in edges if edge[0] != place and (shows is None or shows(tools[edge[0]]))]
        return [
            {
                "name": tools[other].qualified_name,
                "score": round(score, 4),
                "carries": list_feeds(dataflow, *((other, place) if incoming else (place, other))),
            }
            for other, score in shown[:_MOST_NEIGHBORS]
        ]

    return describe(dataflow.in_edges(place), incoming=True), describe(dataflow.out_edges(place), incoming=False)


def _group_by_control(fields: list[FormField], result: ToolResult) -> dict[str, str]:
    """Validation messages by control, to show beside each field."""
    controls = {field.name: field.control for field in fields}
    found: dict[str, list[str]] = {}
    for violation in result.error_info.violations if result.error_info else []:
        head, _, rest = violation["pointer"].removeprefix("/").partition("/")
        control = controls.get(head.replace("~1", "/").replace("~0", "~"))
        if control is not None and violation["pointer"]:
            found.setdefault(control, []).append(f"/{rest}: {violation['message']}" if rest else violation["message"])
    return {control: "; ".join(messages) for control, messages in found.items()}
