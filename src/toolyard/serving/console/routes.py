"""`Console`: every screen and form as operations, beside signing in and the files that pages refer to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from toolyard.serving.console.approvals import ApprovalScreens
from toolyard.serving.console.calls import CallScreens
from toolyard.serving.console.catalog import CatalogScreens
from toolyard.serving.console.connect import ConnectScreens
from toolyard.serving.console.graph import GraphScreens
from toolyard.serving.console.rendering import CONSOLE, STATIC_FILES, PageRenderer, redirect, static_file
from toolyard.serving.console.screens import Form, ScreenTable
from toolyard.serving.console.sessions import SessionScreens
from toolyard.serving.console.sign_in import MAX_SIGN_IN, FormTokens, SignInCookie, SignInPages
from toolyard.serving.console.sources import SourceScreens
from toolyard.serving.console.tool import ToolScreens
from toolyard.serving.middleware import FaultPage
from toolyard.serving.routes.calls import CallRoutes
from toolyard.serving.routes.events import EventRoutes
from toolyard.serving.routing import Operation
from toolyard.serving.service import Service

_HOME = f"{CONSOLE}/tools"
_SUMMARY = "A page for people"
_EVENTS = "What pages follow: the same as /v1/events, by the sign-in of the console"


class Console:
    """What people look at: the operations, and how a refusal looks at each of them."""

    def __init__(self, service: Service, cookie: SignInCookie) -> None:
        tokens = FormTokens(service.keys, cookie)
        renderer = PageRenderer(service.keys, tokens.make, metrics_on=service.metrics is not None)
        engine, catalog = service.yard.tool_engine, service.catalog
        parts = (
            CatalogScreens(catalog),
            ToolScreens(catalog, service.invoker, engine),
            CallScreens(engine, CallRoutes(engine)),
            SessionScreens(engine, service.quota),
            ApprovalScreens(service.approvals, is_asked=engine.policy is not None and engine.policy.asks),
            SourceScreens(service.loaded, service.failing),
            GraphScreens(catalog),
            ConnectScreens(service.keys, with_mcp=service.block.mcp.enabled),
        )
        self._events = EventRoutes(service.events, service.mcp.subscribers)
        self._signing = SignInPages(renderer, service.keys, cookie)
        self._renderer = renderer
        screens = [screen for part in parts for screen in part.screens()]
        forms = [form for part in parts for form in part.forms()]
        self._table = ScreenTable(screens, [*forms, *self._sign_in_forms()], renderer, tokens)

    def operations(self) -> list[Operation]:
        """Those without a sign-in are open to anybody, and take little."""
        found = self._table.operations()
        found.append(
            Operation("GET", f"{CONSOLE}/events", self._events.open_stream, _EVENTS, access="page", streams=True)
        )
        for path in ("/", CONSOLE):
            found.append(Operation("GET", path, _lead_home, _SUMMARY, access="page"))
        sign_in = f"{CONSOLE}/sign-in"
        found.append(
            Operation("GET", sign_in, self._signing.show_form, _SUMMARY, access="page-open", max_body=MAX_SIGN_IN)
        )
        for name in STATIC_FILES:
            path = f"{CONSOLE}/static/{name}"
            found.append(Operation("GET", path, _show_file(name), _SUMMARY, access="page-open"))
        return found

    def fault_pages(self) -> dict[str, FaultPage]:
        """By path: how a refusal looks where people look."""
        others = ("/", CONSOLE, f"{CONSOLE}/sign-in")
        return {**self._table.fault_pages(), **dict.fromkeys(others, self._renderer.render_fault)}

    def _sign_in_forms(self) -> tuple[Form, ...]:
        open_form = partial(Form, access="page-open", max_body=MAX_SIGN_IN)
        return (
            open_form(f"{CONSOLE}/sign-in", self._signing.sign_in),
            open_form(f"{CONSOLE}/sign-out", self._signing.sign_out),
        )


async def _lead_home(request: Request) -> Response:
    """`GET /` and `GET /console`: the catalog."""
    return redirect(_HOME)


def _show_file(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def show(request: Request) -> Response:
        return static_file(name)

    return show
