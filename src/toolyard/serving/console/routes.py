"""`Console`: the table of screens and forms, and the operations made from it.

A screen is a view function and a template. `GET /console/x` renders the plain data that the function returns, and
`GET /console/x.json` returns the same data as JSON. A form is answered with a page. A script that submits
one with `Accept: text/event-stream` receives progress events first, then the page.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope, Send

from toolyard.model.call import Notice, Notify, Progress
from toolyard.model.errors import ToolyardError
from toolyard.serving.console.activity import (
    begin_session,
    count_waiting,
    decide_approval,
    fork_session,
    show_approval,
    show_approvals,
    show_call,
    show_calls,
    show_diff,
    show_session,
    show_sessions,
)
from toolyard.serving.console.catalog import reload_sources, show_catalog, show_graph, show_sources
from toolyard.serving.console.connect import show_clients
from toolyard.serving.console.rendering import (
    CONSOLE,
    FORM_TOKEN,
    STATIC_FILES,
    PageView,
    local_path,
    redirect,
    render_page,
    show_static_file,
    with_query,
)
from toolyard.serving.console.tool import run_tool, show_tool
from toolyard.serving.http_fault import HttpFault, find_session_fault
from toolyard.serving.keys import KeyRing
from toolyard.serving.middleware import FaultPage
from toolyard.serving.query import parse_pairs, query_str
from toolyard.serving.routes.events import EventRoutes
from toolyard.serving.routing import BODY, Access, JsonResponse, Operation, caller_of
from toolyard.serving.service import Service
from toolyard.serving.streams import STREAM_HEADERS, watch_disconnect, write_event

_SUMMARY = "A page for people"
_EVENTS = "What pages follow: the same as /v1/events, by the sign-in of the console"
_JSON = ".json"
_STREAM = "text/event-stream"
_PROGRESS_SECONDS = 0.1
"""Interval between progress events of one stream; a newer notice replaces one not yet sent."""

View = Callable[[Service, Request], Awaitable[Any]]
FormHandler = Callable[[Service, Request, Mapping[str, str], Notify], Awaitable[PageView | Response]]


class Screen(msgspec.Struct, frozen=True):
    """One page: its path, template and view."""

    path: str
    template: str
    view: View
    """Returns plain data or structs: the input of the template, and the body of its JSON."""
    label: str = ""
    """Label in the navigation; empty for pages that are not in it."""
    admin: bool = False
    """True if the navigation shows it to keys with `*:admin` only."""
    heavy: bool = False
    post: FormHandler | None = None
    """Handles its form, if it has one."""
    runs: bool = False
    """True if the form runs a tool."""


SCREENS = (
    Screen(f"{CONSOLE}/tools", "catalog.html", show_catalog, "Catalog"),
    # People and proxies do not encode the slashes of a name.
    Screen(f"{CONSOLE}/tools/{{name:path}}", "tool.html", show_tool, post=run_tool, runs=True),
    Screen(f"{CONSOLE}/calls", "calls.html", show_calls, "Calls", heavy=True),
    Screen(f"{CONSOLE}/calls/{{id}}", "call.html", show_call),
    Screen(f"{CONSOLE}/sessions", "sessions.html", show_sessions, "Sessions", heavy=True, post=begin_session),
    Screen(f"{CONSOLE}/sessions/{{session_id}}", "session.html", show_session, heavy=True, post=fork_session),
    Screen(f"{CONSOLE}/sessions/{{session_id}}/diff", "diff.html", show_diff, heavy=True),
    Screen(f"{CONSOLE}/approvals", "approvals.html", show_approvals, "Approvals", heavy=True),
    Screen(f"{CONSOLE}/approvals/{{approval_id}}", "approval.html", show_approval, post=decide_approval),
    Screen(f"{CONSOLE}/sources", "sources.html", show_sources, "Sources", admin=True, heavy=True, post=reload_sources),
    Screen(f"{CONSOLE}/graph", "graph.html", show_graph, "Graph", heavy=True),
    Screen(f"{CONSOLE}/connect", "connect.html", show_clients, "Connect"),
)
_UNKNOWN = f"{CONSOLE}/{{screen:path}}"
_SIGN_IN, _SIGN_OUT = f"{CONSOLE}/sign-in", f"{CONSOLE}/sign-out"


_KEY = re.compile(r"ty_[A-Za-z0-9_-]{20,200}")
_NEXT = re.compile(rf"{CONSOLE}(?:/[A-Za-z0-9%:._~!$&'()*+,;=@-]+)*/?(?:\?[A-Za-z0-9%:._~!$&'()*+,;=@/-]*)?")
_MAX_FIELDS = 2000
MAX_SIGN_IN = 4 * 1024
"""Size limit in bytes of a form that needs no sign-in."""


class BrowserSignIn:
    """The sign-in cookie and the CSRF token.

    Only the console accepts the cookie, never the API. The key ring decides whether it is still valid. A page of
    another site can submit a form but cannot read ours, so it does not know the token.
    """

    def __init__(self, keys: KeyRing, port: int) -> None:
        self._keys = keys
        self._port = port

    def read_cookie(self, scope: Scope) -> str | None:
        """The cookie's value; None without a sign-in."""
        return Request(scope).cookies.get(self._name(scope))

    def write_cookie(self, scope: Scope, value: str, more: str = "") -> tuple[bytes, bytes]:
        """The `Set-Cookie` header."""
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{self._name(scope)}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"
        return b"set-cookie", cookie.encode("ascii")

    def _name(self, scope: Scope) -> str:
        # Cookies are per host, not per port, so the name has the port: two servers on one host do not overwrite each
        # other's. With the prefix, no other host and no page without TLS can set the cookie.
        return f"{'__Host-' if scope.get('scheme') == 'https' else ''}toolyard_{self._port}"

    def make_token(self, scope: Scope) -> str:
        """The CSRF token for forms shown in response to this request."""
        return self._keys.sign_ins().mark_form(self.read_cookie(scope) or "")

    def read_form(self, request: Request) -> dict[str, str]:
        """The fields of a submitted form, none repeated; 403 unless its token belongs to this sign-in."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise HttpFault(
                415, "request.unsupported_media_type", "a form must be sent as application/x-www-form-urlencoded"
            )
        pairs = parse_pairs(request.scope[BODY], _MAX_FIELDS)
        if pairs is None:
            raise HttpFault(
                400, "request.invalid_form", f"a form must be percent-encoded UTF-8 with at most {_MAX_FIELDS} fields"
            )
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise HttpFault(400, "request.invalid_form", "a field of the form was sent twice")
        given = fields.pop(FORM_TOKEN, "")
        if not hmac.compare_digest(given.encode(), self.make_token(request.scope).encode()):
            raise HttpFault(
                403,
                "request.form_outdated",
                "This form was not made for your present sign-in, so nothing was done.",
                hint="load its page again, and send it from there",
            )
        return fields


def check_next(given: str) -> str:
    """The path to go to after signing in: only pages of the console, to prevent open redirects."""
    return given if _NEXT.fullmatch(given) else ""


class Console:
    """The operations of the console, and the error page for each of its paths."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.browser = BrowserSignIn(service.keys, service.block.port)
        engine = service.yard.tool_engine
        self._has_approvals = engine.policy is not None and engine.policy.asks
        hidden = {"", *(() if engine.journal else ("Calls",)), *(() if self._has_approvals else ("Approvals",))}
        self._navigation = [screen for screen in SCREENS if screen.label not in hidden]

    def operations(self) -> list[Operation]:
        """Every page, also as JSON, and the forms. Forms open to unauthenticated clients have a small body limit."""
        found = []
        for screen in SCREENS:
            for end, show in (("", partial(self._show_page, screen)), (_JSON, partial(self._show_json, screen))):
                found.append(Operation("GET", screen.path + end, show, _SUMMARY, access="page", heavy=screen.heavy))
            if screen.post is not None:
                found.append(self._post(screen.path, screen.post, runs=screen.runs))
        open_form: dict[str, Any] = {"access": "page-open", "max_body": MAX_SIGN_IN}
        found += [
            Operation("GET", _SIGN_IN, self._ask_for_key, _SUMMARY, **open_form),
            self._post(_SIGN_IN, self._sign_in, **open_form),
            self._post(_SIGN_OUT, self._sign_out, **open_form),
        ]
        events = EventRoutes(self._service.events, self._service.mcp.subscribers)
        found.append(Operation("GET", f"{CONSOLE}/events", events.open_stream, _EVENTS, access="page", streams=True))
        found += [Operation("GET", path, _redirect_home, _SUMMARY, access="page") for path in ("/", CONSOLE)]
        found += [Operation("GET", _UNKNOWN + end, _refuse_unknown, _SUMMARY, access="page") for end in ("", _JSON)]
        for name in STATIC_FILES:
            show = partial(show_static_file, name)
            found.append(Operation("GET", f"{CONSOLE}/static/{name}", show, _SUMMARY, access="page-open"))
        return found

    def fault_pages(self) -> dict[str, FaultPage]:
        """Error pages by path. Their JSON has errors in JSON, and is not included."""
        paths = [*(screen.path for screen in SCREENS), "/", CONSOLE, _SIGN_IN, _SIGN_OUT, _UNKNOWN]
        return dict.fromkeys(paths, self._render_fault)

    async def _show_page(self, screen: Screen, request: Request) -> Response:
        return await self._render(request, PageView(screen.template, await screen.view(self._service, request)))

    async def _render(self, request: Request, shown: PageView) -> Response:
        waiting = await count_waiting(self._service, caller_of(request).principal) if self._has_approvals else ""
        return self._render_view(request, shown.template, shown.view, status=shown.status, waiting=waiting)

    def _render_view(self, request: Request, template: str, view: Any, *, waiting: str = "", **sent: Any) -> Response:
        """A page of `view`; `waiting` is the number of pending approvals, empty for none."""
        principal, keys_on = caller_of(request).principal, self._service.keys.required
        signed_in = principal.key_id is not None or not keys_on
        is_admin = principal.scopes.allows_everywhere("admin")
        token = self.browser.make_token(request.scope)
        return render_page(
            *(request, template),
            view=view,
            principal=principal,
            signed_in=signed_in,
            navigation=[screen for screen in self._navigation if signed_in and (is_admin or not screen.admin)],
            token=Markup('<input type="hidden" name="{}" value="{}">').format(FORM_TOKEN, token),
            keys_on=keys_on,
            metrics_on=self._service.metrics is not None,
            waiting=waiting,
            **sent,
        )

    def _render_fault(self, request: Request, fault: HttpFault) -> Response:
        """A refused request as a page, or a redirect to the sign-in page if a page needs a key."""
        if fault.status == 401 and self._service.keys.required and request.method in ("GET", "HEAD"):
            path, query = local_path(request), request.scope["query_string"].decode("ascii", errors="replace")
            there = "" if path in ("/", CONSOLE) else quote(path, safe="/:") + (f"?{query}" if query else "")
            return redirect(request, with_query(_SIGN_IN, next=there))
        return self._render_view(request, "fault.html", fault, status=fault.status, headers=fault.headers)

    async def _show_json(self, screen: Screen, request: Request) -> Response:
        raw: bytes = request.scope.get("raw_path") or b""
        if raw.endswith(_JSON.encode()):
            return JsonResponse(await screen.view(self._service, request))
        # `item_path` encodes the dot of a name that ends in `.json`.
        *_, last = request.path_params
        request.scope["path_params"] = {**request.path_params, last: request.path_params[last] + _JSON}
        return await self._show_page(screen, request)

    async def _ask_for_key(self, request: Request, after: str | None = None, problem: str = "") -> Response:
        """`GET /console/sign-in`: ask for a key; redirects to the catalog if the server has no keys."""
        if not self._service.keys.required:
            return redirect(request, CONSOLE)
        view = {"next": check_next(query_str(request, "next") or "") if after is None else after, "problem": problem}
        return self._render_view(request, "sign_in.html", view, status=401 if problem else 200)

    async def _sign_in(self, service: Service, request: Request, form: Mapping[str, str], notify: Notify) -> Response:
        """`POST /console/sign-in`: set a cookie for the console that scripts and other sites cannot use."""
        after, keys = check_next(form.get("next", "")), service.keys
        if not keys.required:
            return redirect(request, CONSOLE)
        try:
            token = form.get("key", "").strip()
            if not _KEY.fullmatch(token):
                raise HttpFault(401, "auth.invalid", "a key begins with ty_ and is one long word")
            cookie = keys.sign_in(keys.find(token))
        except HttpFault as fault:
            if fault.status != 401:
                raise
            return await self._ask_for_key(request, after, fault.message)
        return redirect(request, after or CONSOLE, (self.browser.write_cookie(request.scope, cookie),))

    async def _sign_out(self, service: Service, request: Request, form: Mapping[str, str], notify: Notify) -> Response:
        """`POST /console/sign-out`: delete the cookie, whether or not it is still valid."""
        return redirect(request, _SIGN_IN, (self.browser.write_cookie(request.scope, "", "; Max-Age=0"),))

    def _post(self, path: str, post: FormHandler, access: Access = "page", **options: Any) -> Operation:
        answer = partial(self._answer_form, post)
        return Operation("POST", path, answer, _SUMMARY, access=access, streams=True, **options)

    async def _answer_form(self, post: FormHandler, request: Request, send: Send) -> Response | None:
        fields = self.browser.read_form(request)
        latest = _LatestNotice()
        work = asyncio.create_task(self._handle_form(post, request, fields, latest.put))
        arrived = asyncio.create_task(latest.arrived.wait())
        try:
            async with watch_disconnect(request.receive, work.cancel):
                if _STREAM in request.headers.get("accept", ""):
                    await asyncio.wait({work, arrived}, return_when=asyncio.FIRST_COMPLETED)
                    if not work.done():
                        await _send_events(send, latest, work)
                        return None
                return await work
        finally:
            work.cancel()
            arrived.cancel()

    async def _handle_form(
        self, post: FormHandler, request: Request, fields: Mapping[str, str], notify: Notify
    ) -> Response:
        try:
            shown = await post(self._service, request, fields, notify)
        except (HttpFault, ToolyardError) as error:
            fault = error if isinstance(error, HttpFault) else find_session_fault(error)
            if fault is None:
                raise
            return self._render_fault(request, fault)
        return shown if isinstance(shown, Response) else await self._render(request, shown)


class _LatestNotice:
    """The latest notice of a running tool; `put` may be called from any thread."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._notice: Notice | None = None

    def put(self, notice: Notice) -> None:
        self._notice = notice
        self._loop.call_soon_threadsafe(self.arrived.set)

    def take(self) -> dict[str, Any]:
        self.arrived.clear()
        notice = self._notice
        if isinstance(notice, Progress):
            return {"progress": notice.progress, "total": notice.total, "message": notice.message or ""}
        return {"progress": None, "total": None, "message": "" if notice is None else str(notice.data)[:500]}


async def _send_events(send: Send, latest: _LatestNotice, work: asyncio.Task[Response]) -> None:
    """Send progress events while `work` runs, then the page."""
    await send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
    while not work.done():
        if latest.arrived.is_set():
            await send(_event("progress", latest.take()))
        await asyncio.wait({work}, timeout=_PROGRESS_SECONDS)
    page = await work
    await send(_event("page", {"status": page.status_code, "html": bytes(page.body).decode()}))
    await send({"type": "http.response.body", "body": b""})


def _event(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"type": "http.response.body", "body": write_event(msgspec.json.encode(data), kind=name), "more_body": True}


async def _redirect_home(request: Request) -> Response:
    """`GET /` and `GET /console`: the catalog."""
    return redirect(request, f"{CONSOLE}/tools")


async def _refuse_unknown(request: Request) -> Response:
    """`GET /console/{screen}` for an unknown screen: 404."""
    raise HttpFault(404, "route.not_found", f"the console has no page {local_path(request)}")
