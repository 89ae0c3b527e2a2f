"""The pages: they list the tools, show one as a form, and run it."""

from __future__ import annotations

import shlex
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import KeyScope
from toolyard.serving.invoke import Invoker
from toolyard.serving.pages.form import FilledForm, read_form, read_json
from toolyard.serving.pages.form_fields import FormField, form_fields, pretty, skeleton
from toolyard.serving.pages.listing import browse, near, overloads
from toolyard.serving.pages.sign_in import MAX_SIGN_IN, SignInPages, read_fields
from toolyard.serving.pages.views import PageRenderer, static_file, tool_path
from toolyard.serving.query import query_str
from toolyard.serving.routing import Operation, caller_of, path_value

_PREFIX = "/tool/"
_JSON = "json"
"""The control that holds all arguments, where they are written as JSON."""


class PageAnswer(msgspec.Struct, frozen=True):
    """What came of running a tool from its page."""

    mode: Mode
    result: ToolResult
    milliseconds: float


class ToolSheet(msgspec.Struct, frozen=True):
    """Everything a tool's page shows."""

    tool: Tool
    overloads: list[Tool]
    fields: list[FormField]
    as_json: bool
    values: dict[str, str] = {}
    """By control, as they stand in the form."""
    mistakes: dict[str, str] = {}
    answer: PageAnswer | None = None
    notice: str = ""
    arguments: dict[str, Any] | None = None


class PageRoutes:
    """Everything that people look at."""

    def __init__(self, registry: ToolRegistry, invoker: Invoker, renderer: PageRenderer, signing: SignInPages) -> None:
        self._registry = registry
        self._invoker = invoker
        self._renderer = renderer
        self._signing = signing

    def operations(self) -> tuple[Operation, ...]:
        """Those without a sign-in are open to anybody, and take little."""
        summary = "A page for people"
        signing = self._signing
        return (
            Operation("GET", "/", self.show_index, summary, access="page"),
            Operation("GET", "/tool/{name}", self.show_tool, summary, access="page"),
            Operation("POST", "/tool/{name}", self.run_tool, summary, access="page", runs=True),
            Operation("GET", "/sign-in", signing.show_form, summary, access="page-open", max_body=MAX_SIGN_IN),
            Operation("POST", "/sign-in", signing.sign_in, summary, access="page-open", max_body=MAX_SIGN_IN),
            Operation("POST", "/sign-out", signing.sign_out, summary, access="page-open", max_body=MAX_SIGN_IN),
            Operation("GET", "/static/toolyard.css", self.show_stylesheet, summary, access="page-open"),
            Operation("GET", "/static/icon.svg", self.show_icon, summary, access="page-open"),
        )

    async def show_index(self, request: Request) -> Response:
        """`GET /`: the tools, by namespace."""
        query = (query_str(request, "q") or "")[:200]
        namespace = query_str(request, "namespace") or ""
        page = query_str(request, "page") or ""
        number = int(page[:9]) if page.isascii() and page.isdigit() else 1
        listing = browse(self._registry.snapshot, caller_of(request).principal.scopes, query, namespace, number)
        return self._renderer.render(request, "index.html", listing=listing, query=query, namespace=namespace)

    async def show_tool(self, request: Request) -> Response:
        """`GET /tool/{name}`: what a tool is, and the form that runs it."""
        found = self._find_overloads(request)
        chosen = query_str(request, "fingerprint") or ""
        tool = next((one for one in found if chosen and one.fingerprint.startswith(chosen)), None)
        notice = ""
        if tool is None:
            tool = found[0]
            notice = "There is no such overload any more; this is the first one." if chosen else ""
        fields = form_fields(tool.parameters)
        as_json = query_str(request, "as") == _JSON
        values = {_JSON: pretty(skeleton(fields))} if as_json else {field.control: field.shown for field in fields}
        return self._show_sheet(request, ToolSheet(tool, found, fields, as_json, values, notice=notice))

    async def run_tool(self, request: Request) -> Response:
        """`POST /tool/{name}`: runs the overload whose form was sent, and shows what came of it above the form."""
        found = self._find_overloads(request)
        data = read_fields(request)
        mode: Mode = "simulate" if data.get("mode") == "simulate" else "execute"
        tool = next((one for one in found if one.definition_hash == data.get("definition")), None)
        if tool is None:
            # Another tool than the one that was looked at: its form must be seen before it runs.
            fields = form_fields(found[0].parameters)
            values = {field.control: field.shown for field in fields}
            notice = "This tool has changed since its form was shown, so nothing was run. Please fill it in again."
            return self._show_sheet(request, ToolSheet(found[0], found, fields, False, values, notice=notice), 409)
        if not KeyScope(caller_of(request).principal).may(mode, tool):
            verb = "simulate" if mode == "simulate" else "run"
            raise HttpFault(403, "auth.forbidden", f"this key may not {verb} tools of {tool.namespace}")
        fields = form_fields(tool.parameters)
        as_json = _JSON in data
        filled = read_json(_JSON, data[_JSON]) if as_json else read_form(fields, data)
        sheet = ToolSheet(tool, found, fields, as_json, data, filled.mistakes, arguments=filled.arguments)
        if filled.mistakes:
            return self._show_sheet(request, sheet, 400)
        answer = await self._run_call(request, tool, filled, mode)
        mistakes = {} if as_json else _group_by_control(fields, answer.result)
        return self._show_sheet(request, msgspec.structs.replace(sheet, answer=answer, mistakes=mistakes))

    async def show_stylesheet(self, request: Request) -> Response:
        """`GET /static/toolyard.css`."""
        return static_file("toolyard.css")

    async def show_icon(self, request: Request) -> Response:
        """`GET /static/icon.svg`."""
        return static_file("icon.svg")

    def _find_overloads(self, request: Request) -> list[Tool]:
        name, scopes = path_value(request), caller_of(request).principal.scopes
        snapshot = self._registry.snapshot
        found = overloads(snapshot, scopes, name)
        if not found:
            # The same words for a tool that may not be seen: that it exists is not everybody's to know.
            details = {"candidates": near(snapshot, scopes, name)}
            raise HttpFault(404, "tool.not_found", f"There is no tool called {name[:200]}.", details=details)
        return found

    async def _run_call(self, request: Request, tool: Tool, filled: FilledForm, mode: Mode) -> PageAnswer:
        call = ToolCall(tool.qualified_name, filled.arguments, None, tool.fingerprint)
        began = time.perf_counter()
        [result] = await self._invoker.run_calls(caller_of(request), [call], mode=mode)
        return PageAnswer(mode, result, (time.perf_counter() - began) * 1000)

    def _show_sheet(self, request: Request, sheet: ToolSheet, status: int = 200) -> Response:
        scope = KeyScope(caller_of(request).principal)
        return self._renderer.render(
            request,
            "tool.html",
            status=status,
            sheet=sheet,
            may_run=scope.may("execute", sheet.tool),
            may_simulate=scope.may("simulate", sheet.tool),
            curl=self._write_curl(request, sheet),
        )

    def _write_curl(self, request: Request, sheet: ToolSheet) -> str:
        """The same call as a command, for whoever goes on from here."""
        host = request.headers.get("host", "localhost")
        name = tool_path(sheet.tool.qualified_name).removeprefix(_PREFIX)
        arguments = skeleton(sheet.fields) if sheet.arguments is None else dict(sheet.arguments)
        for field in sheet.fields:
            if field.kind == "secret" and field.name in arguments:
                arguments[field.name] = "..."
        url = f"{request.scope.get('scheme', 'http')}://{host}/v1/tools/{name}:invoke"
        lines = [f"curl {shlex.quote(url)}"]
        if self._renderer.asks_for_keys:
            lines.append('-H "Authorization: Bearer $TOOLYARD_KEY"')
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d {shlex.quote(msgspec.json.encode({'args': arguments}).decode())}")
        return " \\\n  ".join(lines)


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
