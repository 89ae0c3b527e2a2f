"""The Sources screen: how every source is, what it loaded, rewrote and rejected, and loading all of them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request

from toolyard.model.context import Notify
from toolyard.model.report import LoadReport, SourceReport
from toolyard.serving.catalog_view import LoadedCatalog
from toolyard.serving.console.rendering import CONSOLE
from toolyard.serving.console.screens import Form, Screen, ScreenSet, Shown
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.routing import caller_of

_PATH, _TEMPLATE = f"{CONSOLE}/sources", "sources.html"
_MOST = 200
"""Of each kind of one source; `GET /v1/report` has all."""


class SourceRow(msgspec.Struct, frozen=True):
    """One source, with the first of what is to be said about its entries."""

    source: str
    state: str
    error: str | None
    entries: int
    loaded: int
    rewritten: int
    rejections: int
    warned: int
    rewrites: list[Any]
    rejected: list[Any]
    warnings: list[Any]
    left_out: int
    """Lines that are not shown here."""


class SourcesPage(msgspec.Struct, frozen=True):
    """All sources, in load order."""

    ok: bool
    loaded: int
    generation: int
    sandbox: str
    sources: list[SourceRow]
    look_alikes: list[Any]
    """Warnings about names of several sources."""
    failing: dict[str, str]
    """What goes on beside the requests and does not work at the moment."""
    notice: str = ""


class SourceScreens(ScreenSet):
    """For whoever runs the server."""

    def __init__(self, loaded: LoadedCatalog, failing: Mapping[str, str]) -> None:
        self._loaded = loaded
        self._failing = failing

    def screens(self) -> tuple[Screen, ...]:
        """The report."""
        return (Screen(_PATH, _TEMPLATE, self.show_sources, "Sources", admin=True, heavy=True),)

    def forms(self) -> tuple[Form, ...]:
        """The button that loads everything again."""
        return (Form(_PATH, self.reload_sources),)

    async def show_sources(self, request: Request) -> SourcesPage:
        """`GET /console/sources`."""
        _check_admin(request)
        return self._make_page()

    async def reload_sources(self, request: Request, form: Mapping[str, str], notify: Notify) -> Shown:
        """`POST /console/sources`: every source again; one that fails keeps its last good tools."""
        _check_admin(request)
        await self._loaded.reload()
        return Shown(_TEMPLATE, self._make_page("Every source was loaded again."))

    def _make_page(self, notice: str = "") -> SourcesPage:
        report: LoadReport = self._loaded.report
        of_sources = sum(len(source.warnings) for source in report.sources)
        return SourcesPage(
            *(report.ok, report.loaded, self._loaded.registry.generation, self._loaded.sandbox),
            [_describe_source(source) for source in report.sources],
            msgspec.to_builtins(list(report.warnings[of_sources:][:_MOST])),
            dict(self._failing),
            notice,
        )


def _describe_source(source: SourceReport) -> SourceRow:
    kinds = [msgspec.to_builtins(list(kind)) for kind in (source.rewrites, source.rejected, source.warnings)]
    return SourceRow(
        *(source.source, source.state, source.error, source.entries, source.loaded, source.rewritten),
        *(len(source.rejected), len(source.warnings)),
        *(kinds[0][:_MOST], kinds[1][:_MOST], kinds[2][:_MOST]),
        sum(max(0, len(kind) - _MOST) for kind in kinds),
    )


def _check_admin(request: Request) -> None:
    if not caller_of(request).principal.scopes.everywhere("admin"):
        raise HttpFault(403, "auth.forbidden", "this needs a key with the scope *:admin")
