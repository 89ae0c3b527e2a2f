"""The first page: lists the tools, shows one as a form, runs it. Rendered here, without any script."""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from toolyard.calls.events import Mode
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.tool import Tool
from toolyard.serving.faults import HttpFault
from toolyard.serving.form import Filled, read_form, read_json
from toolyard.serving.form_fields import Field, form_fields, pretty, skeleton
from toolyard.serving.page_catalog import browse, near, overloads
from toolyard.serving.page_sign_in import cookie_of, read_fields, show_sign_in, sign_in, sign_out
from toolyard.serving.page_views import asks_for_keys, fault_page, render, static_file, tool_path
from toolyard.serving.request import Request
from toolyard.serving.response import Response
from toolyard.serving.running import KeyScope, run_calls
from toolyard.serving.service import Service

__all__ = ["OPEN_ROUTES", "PAGE_ROUTES", "cookie_of", "fault_page"]

Handler = Callable[[Service, Request], Awaitable[Response]]

_PREFIX = "/tool/"
_JSON = "json"
"""The control that holds all arguments, where they are written as JSON."""


class Answer(msgspec.Struct, frozen=True):
    """What came of running a tool from its page."""

    mode: Mode
    result: ToolResult
    milliseconds: float


class Sheet(msgspec.Struct, frozen=True):
    """Everything a tool's page shows."""

    tool: Tool
    overloads: list[Tool]
    fields: list[Field]
    as_json: bool
    values: dict[str, str] = {}
    """By control, as they stand in the form."""
    mistakes: dict[str, str] = {}
    answer: Answer | None = None
    notice: str = ""
    arguments: dict[str, Any] | None = None


def _as_page(handler: Handler) -> Handler:
    """People get their refusals as a page."""

    @functools.wraps(handler)
    async def shown(service: Service, request: Request) -> Response:
        try:
            return await handler(service, request)
        except HttpFault as fault:
            return fault_page(service, request, fault)

    return shown


@_as_page
async def index(service: Service, request: Request) -> Response:
    """`GET /`: the tools, by namespace."""
    query = _one(request, "q")[:200]
    namespace = _one(request, "namespace")
    page = _one(request, "page")
    snapshot = service.yard.tool_registry.snapshot
    number = int(page[:9]) if page.isascii() and page.isdigit() else 1
    listing = browse(snapshot, request.principal.scopes, query, namespace, number)
    return render(service, request, "index.html", listing=listing, query=query, namespace=namespace)


@_as_page
async def tool_page(service: Service, request: Request) -> Response:
    """`GET /tool/{name}`: what a tool is, and the form that runs it."""
    found = _find(service, request)
    chosen = _one(request, "fingerprint")
    tool = next((one for one in found if chosen and one.fingerprint.startswith(chosen)), None)
    notice = ""
    if tool is None:
        tool = found[0]
        notice = "There is no such overload any more; this is the first one." if chosen else ""
    fields = form_fields(tool.parameters)
    as_json = _one(request, "as") == _JSON
    values = {_JSON: pretty(skeleton(fields))} if as_json else {field.control: field.shown for field in fields}
    return _show(service, request, Sheet(tool, found, fields, as_json, values, notice=notice))


@_as_page
async def run_tool(service: Service, request: Request) -> Response:
    """`POST /tool/{name}`: runs the overload whose form was sent, and shows what came of it above the same form."""
    found = _find(service, request)
    data = await read_fields(request, service.block.max_body_bytes)
    mode: Mode = "simulate" if data.get("mode") == "simulate" else "execute"
    tool = next((one for one in found if one.definition_hash == data.get("definition")), None)
    if tool is None:
        # Another tool than the one that was looked at: its form must be seen before it runs.
        fields = form_fields(found[0].parameters)
        values = {field.control: field.shown for field in fields}
        notice = "This tool has changed since its form was shown, so nothing was run. Please fill it in again."
        return _show(service, request, Sheet(found[0], found, fields, False, values, notice=notice), status=409)
    if not KeyScope(request.principal).may(mode, tool):
        verb = "simulate" if mode == "simulate" else "run"
        raise HttpFault(403, "auth.forbidden", f"this key may not {verb} tools of {tool.namespace}")
    fields = form_fields(tool.parameters)
    as_json = _JSON in data
    filled = read_json(_JSON, data[_JSON]) if as_json else read_form(fields, data)
    sheet = Sheet(tool, found, fields, as_json, data, filled.mistakes, arguments=filled.arguments)
    if filled.mistakes:
        return _show(service, request, sheet, status=400)
    answer = await _run(service, request, tool, filled, mode)
    mistakes = {} if as_json else _by_control(fields, answer.result)
    return _show(service, request, msgspec.structs.replace(sheet, answer=answer, mistakes=mistakes))


async def stylesheet(service: Service, request: Request) -> Response:
    """`GET /static/toolyard.css`."""
    return static_file("toolyard.css")


async def icon(service: Service, request: Request) -> Response:
    """`GET /static/icon.svg`."""
    return static_file("icon.svg")


PAGE_ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/", index),
    ("GET", "/tool/{name}", tool_page),
    ("POST", "/tool/{name}", run_tool),
    ("GET", "/sign-in", show_sign_in),
    ("POST", "/sign-in", sign_in),
    ("POST", "/sign-out", sign_out),
    ("GET", "/static/toolyard.css", stylesheet),
    ("GET", "/static/icon.svg", icon),
]
"""Method, path and handler. `{name}` is everything behind `/tool/`, slashes included."""

OPEN_ROUTES = frozenset({"/sign-in", "/sign-out", "/static/toolyard.css", "/static/icon.svg"})
"""Paths among them that need no key."""


def _one(request: Request, name: str) -> str:
    return request.query.get(name, [""])[0]


def _find(service: Service, request: Request) -> list[Tool]:
    name = request.path.removeprefix(_PREFIX)
    snapshot = service.yard.tool_registry.snapshot
    scopes = request.principal.scopes
    found = overloads(snapshot, scopes, name)
    if not found:
        # The same words for a tool that may not be seen: that it exists is not everybody's to know.
        details = {"candidates": near(snapshot, scopes, name)}
        raise HttpFault(404, "tool.not_found", f"There is no tool called {name[:200]}.", details=details)
    return found


async def _run(service: Service, request: Request, tool: Tool, filled: Filled, mode: Mode) -> Answer:
    call = ToolCall(tool.qualified_name, filled.arguments, None, tool.fingerprint)
    began = time.perf_counter()
    [result] = await run_calls(service, request, [call], mode=mode)
    return Answer(mode, result, (time.perf_counter() - began) * 1000)


def _by_control(fields: list[Field], result: ToolResult) -> dict[str, str]:
    """What the schema says about each field, to stand beside it."""
    controls = {field.name: field.control for field in fields}
    said: dict[str, list[str]] = {}
    for violation in result.error_info.details.get("violations", []) if result.error_info else []:
        head, _, rest = violation["pointer"].removeprefix("/").partition("/")
        control = controls.get(head.replace("~1", "/").replace("~0", "~"))
        if control is not None and violation["pointer"]:
            said.setdefault(control, []).append(f"/{rest}: {violation['message']}" if rest else violation["message"])
    return {control: "; ".join(words) for control, words in said.items()}


def _show(service: Service, request: Request, sheet: Sheet, *, status: int = 200) -> Response:
    scope = KeyScope(request.principal)
    return render(
        service,
        request,
        "tool.html",
        status=status,
        sheet=sheet,
        may_run=scope.may("execute", sheet.tool),
        may_simulate=scope.may("simulate", sheet.tool),
        curl=_curl(service, request, sheet),
    )


def _curl(service: Service, request: Request, sheet: Sheet) -> str:
    """The same call as a command, for whoever goes on from here."""
    host = request.headers.get(b"host", b"localhost").decode("latin-1")
    name = tool_path(sheet.tool.qualified_name).removeprefix(_PREFIX)
    arguments = skeleton(sheet.fields) if sheet.arguments is None else dict(sheet.arguments)
    for field in sheet.fields:
        if field.kind == "secret" and field.name in arguments:
            arguments[field.name] = "..."
    url = f"{request.scope.get('scheme', 'http')}://{host}/v1/tools/{name}:invoke"
    lines = [f"curl {shlex.quote(url)}"]
    if asks_for_keys(service):
        lines.append('-H "Authorization: Bearer $TOOLYARD_KEY"')
    lines.append("-H 'Content-Type: application/json'")
    lines.append(f"-d {shlex.quote(msgspec.json.encode({'args': arguments}).decode())}")
    return " \\\n  ".join(lines)
