"""`Screen` and `Form`: one view function and one template make a page; the same view as JSON is its twin.

`GET /console/x` shows what the view function of the screen returns, `GET /console/x.json` says the same to programs.
A form's answer is a page, too. A script that sends it may ask for `text/event-stream`, and is told of progress first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from toolyard.model.context import Notice, Notify, Progress
from toolyard.model.errors import ToolyardError
from toolyard.serving.console.rendering import NavigationEntry, PageRenderer
from toolyard.serving.console.sign_in import FORM_TOKEN, FormTokens, read_fields
from toolyard.serving.http_fault import HttpFault, find_session_fault
from toolyard.serving.middleware import FaultPage
from toolyard.serving.routing import Access, JsonResponse, Operation
from toolyard.serving.sse import watch_disconnect

_SUMMARY = "A page for people"
_TWIN = ".json"
_STREAM = "text/event-stream"
_PROGRESS_SECONDS = 0.1
"""Between two events of one stream: what comes sooner replaces what was not sent yet."""


class Screen(msgspec.Struct, frozen=True):
    """One page: where it is, what it is about, and how that looks."""

    path: str
    template: str
    view: Callable[[Request], Awaitable[Any]]
    """Returns plain data or structs of it: all that the template gets, and all that the twin says."""
    label: str = ""
    """What the navigation calls it; empty for a page that others lead to."""
    admin: bool = False
    """True if only keys with `*:admin` are led there."""
    heavy: bool = False


class Shown(msgspec.Struct, frozen=True):
    """What an answered form shows."""

    template: str
    view: Any
    status: int = 200


class Form(msgspec.Struct, frozen=True):
    """What the forms of one path do."""

    path: str
    act: Callable[[Request, Mapping[str, str], Notify], Awaitable[Shown | Response]]
    runs: bool = False
    access: Access = "page"
    max_body: int | None = None


class ScreenSet:
    """Screens and forms that belong together."""

    def screens(self) -> tuple[Screen, ...]:
        """Its pages."""
        return ()

    def forms(self) -> tuple[Form, ...]:
        """What they send."""
        return ()


class ScreenTable:
    """All screens and forms as operations; refusals of pages are pages, those of twins are JSON."""

    def __init__(
        self, screens: Iterable[Screen], forms: Iterable[Form], renderer: PageRenderer, tokens: FormTokens
    ) -> None:
        self._screens, self._forms = tuple(screens), tuple(forms)
        self._renderer = renderer
        self._tokens = tokens
        renderer.navigation = tuple(
            NavigationEntry(screen.label, screen.path, screen.admin) for screen in self._screens if screen.label
        )

    def operations(self) -> list[Operation]:
        """A page and its twin for each screen, and the forms."""
        found = []
        for screen in self._screens:
            shared: dict[str, Any] = {"access": "page", "heavy": screen.heavy}
            found.append(Operation("GET", screen.path, self._show_page(screen), _SUMMARY, **shared))
            found.append(Operation("GET", screen.path + _TWIN, self._show_twin(screen), _SUMMARY, **shared))
        for form in self._forms:
            options: dict[str, Any] = {"access": form.access, "runs": form.runs, "max_body": form.max_body}
            found.append(Operation("POST", form.path, self._answer_form(form), _SUMMARY, streams=True, **options))
        return found

    def fault_pages(self) -> dict[str, FaultPage]:
        """By path: how a refusal looks where people look."""
        paths = [*(screen.path for screen in self._screens), *(form.path for form in self._forms)]
        return dict.fromkeys(paths, self._renderer.render_fault)

    def _show_page(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            return self._renderer.render(request, screen.template, await screen.view(request))

        return show

    def _show_twin(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            raw: bytes = request.scope.get("raw_path") or b""
            if not raw.endswith(_TWIN.encode()):
                # `item_path` spells the dot of a name that ends like this, so that it means no twin.
                request.scope["path_params"] = {
                    name: value + _TWIN for name, value in request.scope["path_params"].items()
                }
                return await self._show_page(screen)(request)
            return JsonResponse(await screen.view(request))

        return show

    def _answer_form(self, form: Form) -> Callable[[Request, Send], Awaitable[Response | None]]:
        async def answer(request: Request, send: Send) -> Response | None:
            fields = read_fields(request)
            self._tokens.check(request.scope, fields.pop(FORM_TOKEN, ""))
            latest = _LatestNotice()
            work = asyncio.create_task(self._act(form, request, fields, latest.put))
            said = asyncio.create_task(latest.there.wait())
            try:
                async with watch_disconnect(request.receive, work.cancel):
                    if _STREAM in request.headers.get("accept", ""):
                        await asyncio.wait({work, said}, return_when=asyncio.FIRST_COMPLETED)
                        if not work.done():
                            await _send_events(send, latest, work)
                            return None
                    return await work
            finally:
                work.cancel()
                said.cancel()

        return answer

    async def _act(self, form: Form, request: Request, fields: Mapping[str, str], notify: Notify) -> Response:
        try:
            shown = await form.act(request, fields, notify)
        except (HttpFault, ToolyardError) as error:
            fault = error if isinstance(error, HttpFault) else find_session_fault(error)
            if fault is None:
                raise
            return self._renderer.render_fault(request, fault)
        if isinstance(shown, Response):
            return shown
        return self._renderer.render(request, shown.template, shown.view, status=shown.status)


class _LatestNotice:
    """What a tool said last, from whichever thread; only that is worth showing."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._notice: Notice | None = None

    def put(self, notice: Notice) -> None:
        self._notice = notice
        self._loop.call_soon_threadsafe(self.there.set)

    def take(self) -> dict[str, Any]:
        self.there.clear()
        notice = self._notice
        if isinstance(notice, Progress):
            return {"progress": notice.progress, "total": notice.total, "message": notice.message or ""}
        return {"progress": None, "total": None, "message": "" if notice is None else str(notice.data)[:500]}


async def _send_events(send: Send, latest: _LatestNotice, work: asyncio.Task[Response]) -> None:
    """Progress as it comes, and at last the page."""
    head = [(b"content-type", _STREAM.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    while not work.done():
        if latest.there.is_set():
            await send(_event("progress", latest.take()))
        await asyncio.wait({work}, timeout=_PROGRESS_SECONDS)
    page = await work
    await send(_event("page", {"status": page.status_code, "html": bytes(page.body).decode()}))
    await send({"type": "http.response.body", "body": b""})


def _event(name: str, data: dict[str, Any]) -> dict[str, Any]:
    body = b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))
    return {"type": "http.response.body", "body": body, "more_body": True}
