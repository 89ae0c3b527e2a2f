"""The pages: they list the tools, show one as a form, and run it; and signing in with a key to see them."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.tool import Tool
from toolyard.serving.catalog_view import CatalogView
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import KeyRing, KeyScope
from toolyard.serving.invoke import Invoker
from toolyard.serving.pages.form import FilledForm, FormField, form_fields, pretty, read_form, read_json_form, skeleton
from toolyard.serving.pages.views import PageRenderer, browse, near, overloads, redirect, static_file, tool_path
from toolyard.serving.routes.catalog import MAX_QUERY, MOST_HITS, search_tools
from toolyard.serving.routing import BODY, Operation, caller_of, path_value, query_str
from toolyard.serving.visibility import Shows

_KEY = re.compile(r"ty_[A-Za-z0-9_-]{20,200}")
_NEXT = re.compile(r"/(?:tool/[A-Za-z0-9%:._~!$&'()*+,;=@-]+)?(?:\?[A-Za-z0-9%:._~!$&'()*+,;=@/-]*)?")
_MAX_FIELDS = 2000
MAX_SIGN_IN = 4 * 1024
"""Bytes of a form that anybody may send."""


class SignInCookie:
    """What stays with whoever is signed in; an API takes no cookies. Whether it is still good, the key ring says."""

    def __init__(self, port: int) -> None:
        self._port = port

    def read(self, scope: Scope) -> str | None:
        """The value; None if nobody is signed in."""
        wanted = self._name(scope)
        header = next((value for name, value in scope["headers"] if name == b"cookie"), b"")
        for part in header.decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name == wanted:
                return str(value)
        return None

    def write(self, scope: Scope, value: str, more: str = "") -> tuple[bytes, bytes]:
        """The header that leaves it in a browser."""
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{self._name(scope)}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"
        return b"set-cookie", cookie.encode("ascii")

    def _name(self, scope: Scope) -> str:
        # Cookies know hosts, not ports: two servers on one host would overwrite each other's. And with the prefix no
        # other host and no page without TLS can set it.
        return f"{'__Host-' if scope.get('scheme') == 'https' else ''}toolyard_{self._port}"


class SignInPages:
    """Asks for a key, and forgets who signed in."""

    def __init__(self, renderer: PageRenderer, keys: KeyRing | None, cookie: SignInCookie) -> None:
        self._renderer = renderer
        self._keys = keys
        self._cookie = cookie

    async def show_form(self, request: Request) -> Response:
        """`GET /sign-in`: asks for a key; where there are no keys, there is nothing to ask."""
        if not self._renderer.asks_for_keys:
            return redirect("/")
        after = _check_next(query_str(request, "next") or "")
        return self._renderer.render(request, "sign_in.html", next=after, problem="")

    async def sign_in(self, request: Request) -> Response:
        """`POST /sign-in`: leaves a cookie that no script and no other site can use, and that opens the pages alone."""
        form = read_fields(request)
        after = _check_next(form.get("next", ""))
        if self._keys is None or not self._keys.required:
            return redirect("/")
        token = form.get("key", "").strip()
        try:
            if not _KEY.fullmatch(token):
                raise HttpFault(401, "auth.invalid", "a key begins with ty_ and is one long word")
            value = self._keys.sign(self._keys.find(token))
        except HttpFault as fault:
            if fault.status != 401:
                raise
            return self._renderer.render(request, "sign_in.html", status=401, next=after, problem=fault.message)
        return redirect(after or "/", (self._cookie.write(request.scope, value),))

    async def sign_out(self, request: Request) -> Response:
        """`POST /sign-out`: takes the cookie back, whether or not it is still good."""
        return redirect("/sign-in", (self._cookie.write(request.scope, "", "; Max-Age=0"),))


def read_fields(request: Request) -> dict[str, str]:
    """The fields of a submitted form; each may be there once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HttpFault(
            415, "request.unsupported_media_type", "a form must be sent as application/x-www-form-urlencoded"
        )
    body: bytes = request.scope[BODY]
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, encoding="utf-8", errors="strict"
        )
    except ValueError:
        raise HttpFault(
            400, "request.invalid_form", f"a form must be percent-encoded UTF-8 with at most {_MAX_FIELDS} fields"
        ) from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise HttpFault(400, "request.invalid_form", "a field of the form was sent twice")
    return fields


def _check_next(given: str) -> str:
    # Only pages of ours: anything else could lead somebody who has just signed in astray.
    return given if _NEXT.fullmatch(given) else ""


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

    def __init__(self, catalog: CatalogView, invoker: Invoker, renderer: PageRenderer, signing: SignInPages) -> None:
        self._catalog = catalog
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
        query = (query_str(request, "q") or "")[:MAX_QUERY]
        namespace = query_str(request, "namespace") or ""
        page = query_str(request, "page") or ""
        number = int(page[:9]) if page.isascii() and page.isdigit() else 1
        registry, snapshot = self._catalog.registry, self._catalog.registry.snapshot

        def search(shows: Shows | None) -> Sequence[Tool] | None:
            return search_tools(registry, snapshot, query, MOST_HITS, shows).tools if query.strip() else None

        shows = self._catalog.visibility.filter_for(caller_of(request).principal)
        # Off the loop: the first search of a catalog makes its index.
        listing = await asyncio.to_thread(browse, snapshot, shows, namespace, number, search)
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
        filled = read_json_form(_JSON, data[_JSON]) if as_json else read_form(fields, data)
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
        name, shows = path_value(request), self._catalog.visibility.filter_for(caller_of(request).principal)
        snapshot = self._catalog.registry.snapshot
        found = overloads(snapshot, shows, name)
        if not found:
            # The same words for a tool that may not be seen: that it exists is not everybody's to know.
            details = {"candidates": near(snapshot, shows, name)}
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
