"""HTML from templates, everything escaped and without script; and the catalog as the pages show it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.constants import VERSION
from toolyard.model.errors import UnknownToolError
from toolyard.model.json_words import closest
from toolyard.model.tool import Effects, Tool
from toolyard.registry.bind import find
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.http_fault import Headers, HttpFault
from toolyard.serving.identity import KeyRing
from toolyard.serving.pages.form import pretty
from toolyard.serving.routing import caller_of
from toolyard.serving.visibility import Shows

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


HTML = "text/html; charset=utf-8"
CSP = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    # Not "no-referrer": with that, browsers say "Origin: null" for the page's own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NO_STORE = {"cache-control": "no-store"}
_KEPT = {"cache-control": "private, max-age=86400"}

_FILES = {"toolyard.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}

MAX_SHOWN = 200_000
"""Characters of an answer that a page shows; more would only freeze the browser."""
_MAX_COLOURED = 50_000
_TOKEN = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*")(?P<key>\s*:)?|(?P<word>\b(?:true|false|null)\b)|(?P<number>-?\d[\d.eE+-]*)'
)
_EFFECTS = {
    Effects.READ: ("read", "Reads only: running it changes nothing."),
    Effects.WRITE: ("write", "Writes: running it changes something outside of here."),
    Effects.UNKNOWN: ("effects unknown", "Nobody has said whether running it changes anything."),
}


class PageRenderer:
    """Makes whole pages."""

    def __init__(self, keys: KeyRing | None, *, metrics_on: bool) -> None:
        self._keys = keys
        self._metrics_on = metrics_on

    @property
    def asks_for_keys(self) -> bool:
        """False where everybody may do everything: no key was ever made."""
        return self._keys is not None and self._keys.required

    def render(
        self, request: Request, template: str, *, status: int = 200, headers: Headers = (), **values: Any
    ) -> Response:
        """A whole page."""
        text = (
            _environment()
            .get_template(template)
            .render(
                principal=caller_of(request).principal,
                keys_on=self.asks_for_keys,
                metrics_on=self._metrics_on,
                **values,
            )
        )
        # Escaped surrogates can reach a page from a tool's answer; no encoding has a place for them.
        body = text.encode("utf-8", errors="replace")
        response = Response(body, status, {**PAGE_HEADERS, **_NO_STORE}, HTML)
        response.raw_headers += headers
        return response

    def render_fault(self, request: Request, fault: HttpFault) -> Response:
        """A refused request as a page; for somebody who is not signed in, the way to do so."""
        if fault.status == 401 and self.asks_for_keys and request.method in ("GET", "HEAD"):
            return redirect("/sign-in" + (f"?{urlencode({'next': here(request)})}" if here(request) != "/" else ""))
        return self.render(request, "fault.html", status=fault.status, headers=fault.headers, fault=fault)


def redirect(to: str, headers: Headers = ()) -> Response:
    """See there instead, by GET."""
    location = quote(to, safe="/:?&=%#+-._~")
    response = Response(b"", 303, {**PAGE_HEADERS, **_NO_STORE, "location": location})
    response.raw_headers += headers
    return response


def here(request: Request) -> str:
    """Path and query of the request, encoded."""
    path = quote(request.scope["path"], safe="/:")
    query = request.scope["query_string"].decode("ascii", errors="replace")
    return f"{path}?{query}" if query else path


def static_file(name: str) -> Response:
    """One of the files that pages refer to."""
    return Response(_static(name), headers={**PAGE_HEADERS, **_KEPT}, media_type=_FILES[name])


def tool_path(name: str) -> str:
    """Where a tool's page is; slashes are encoded, so that no name becomes a path of its own."""
    return f"/tool/{quote(name, safe=':')}"


def coloured(text: str) -> Markup:
    """JSON text with its parts marked for the stylesheet."""
    from markupsafe import Markup, escape

    if len(text) > _MAX_COLOURED:
        return escape(text)
    parts: list[str] = []
    end = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup if found.lastgroup != "text" else "string"
        token = found["text"] or found[0]
        parts += [escape(text[end : found.start()]), Markup('<span class="j-{}">{}</span>').format(kind, token)]
        end = found.start() + len(token)
    return Markup("").join([*parts, escape(text[end:])])


def shown_json(value: Any) -> Markup:
    """A JSON value to be read, cut where it becomes too long for a page."""
    from markupsafe import escape

    text = pretty(value)
    if len(text) > MAX_SHOWN:
        cut = f"{text[:MAX_SHOWN]}\n... {len(text) - MAX_SHOWN:,} more characters; ask the API for the whole of it"
        return escape(cut)
    return coloured(text)


def first_line(text: str) -> str:
    """What a description begins with: its first paragraph, on one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())[:300]


def effects_badge(tool: Tool) -> tuple[str, str, str]:
    """Class, word and explanation."""
    return (tool.effects.value, *_EFFECTS[tool.effects])


def took(milliseconds: float) -> str:
    """A duration in the unit people would say it in."""
    if milliseconds < 1000:
        return f"{milliseconds:.1f} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.2f} s"


def rest_of(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    """The mapping without what is said elsewhere."""
    return {name: value for name, value in mapping.items() if name != key}


def with_query(path: str, **parameters: str | int) -> str:
    """A path with those parameters that say something."""
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


@cache
def _static(name: str) -> bytes:
    return files("toolyard.serving.pages").joinpath("static", name).read_bytes()


@cache
def _static_url(name: str) -> str:
    # The hash lets a browser keep the file and still see a new one at once.
    return f"/static/{name}?v={hashlib.sha256(_static(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str:
        return files("toolyard.serving.pages").joinpath("templates", name).read_text("utf-8")

    environment = Environment(
        loader=FunctionLoader(load),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(first_line=first_line, shown_json=shown_json, coloured=coloured)
    environment.globals.update(
        version=VERSION,
        static_url=_static_url,
        tool_path=tool_path,
        with_query=with_query,
        effects_badge=effects_badge,
        took=took,
        rest_of=rest_of,
    )
    return environment


PAGE_SIZE = 100


class PageEntry(msgspec.Struct, frozen=True):
    """One name with its overloads."""

    name: str
    tools: tuple[Tool, ...]

    @property
    def tool(self) -> Tool:
        """The first overload, which speaks for all of them in a list."""
        return self.tools[0]


class NamespaceGroup(msgspec.Struct, frozen=True):
    """Entries of one namespace that stand together in a list."""

    namespace: str
    entries: list[PageEntry]


class CatalogPage(msgspec.Struct, frozen=True):
    """One page of what was asked for."""

    groups: list[NamespaceGroup]
    namespaces: list[tuple[str, int]]
    """Every namespace that may be seen, with how many of its names fit the search."""
    found: int
    total: int
    page: int
    pages: int


_Index = dict[str, list[PageEntry]]
_indexes: WeakKeyDictionary[Snapshot, _Index] = WeakKeyDictionary()


def browse(
    snapshot: Snapshot,
    shows: Shows | None,
    namespace: str,
    page: int,
    search: Callable[[Shows | None], Sequence[Tool] | None],
) -> CatalogPage:
    """The names that may be seen, by namespace; or those that a search of them found, the best first."""
    visible = _list_visible(snapshot, shows)
    names = {entry.name: entry for entries in visible.values() for entry in entries}
    found = _find_entries(names, search(shows))
    fitting = visible
    if found is not None:
        fitting = {name: [one for one in found if one.tool.namespace == name] for name in visible}
    flat = list(names.values()) if found is None else found
    if namespace:
        # Asked again: what is left out before it is ranked leaves room for others.
        inside = search(lambda tool: tool.namespace == namespace and (shows is None or shows(tool)))
        chosen = _find_entries(names, inside)
        flat = fitting.get(namespace, []) if chosen is None else chosen
    pages = max(1, -(-len(flat) // PAGE_SIZE))
    page = min(max(page, 1), pages)
    return CatalogPage(
        _grouped(flat[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]),
        [(name, len(entries)) for name, entries in fitting.items()],
        len(flat),
        sum(map(len, visible.values())),
        page,
        pages,
    )


def overloads(snapshot: Snapshot, shows: Shows | None, name: str) -> list[Tool]:
    """Every overload of a name, alias or unmistakable bare name that may be seen."""
    try:
        found = find(snapshot, name, sees=shows, hints=False)
    except UnknownToolError:
        return []
    return [candidate.tool for candidate in found if shows is None or shows(candidate.tool)]


def near(snapshot: Snapshot, shows: Shows | None, name: str) -> list[str]:
    """Names that may have been meant, among those that may be seen."""
    return closest(name, [one.name for entries in _list_visible(snapshot, shows).values() for one in entries])


def _list_visible(snapshot: Snapshot, shows: Shows | None) -> _Index:
    index = _index(snapshot)
    if shows is None:
        return index
    visible: _Index = {}
    for namespace, entries in index.items():
        for entry in entries:
            tools = tuple(tool for tool in entry.tools if shows(tool))
            if tools:
                visible.setdefault(namespace, []).append(PageEntry(entry.name, tools))
    return visible


def _find_entries(names: Mapping[str, PageEntry], hits: Sequence[Tool] | None) -> list[PageEntry] | None:
    """The entries of what was found, each once; None if nothing was looked for."""
    return None if hits is None else [names[name] for name in dict.fromkeys(tool.qualified_name for tool in hits)]


def _index(snapshot: Snapshot) -> _Index:
    found = _indexes.get(snapshot)
    if found is None:
        found = {}
        for name, candidates in snapshot.names.items():
            tools = tuple(candidate.tool for candidate in candidates)
            found.setdefault(tools[0].namespace, []).append(PageEntry(name, tools))
        _indexes[snapshot] = found
    return found


def _grouped(entries: list[PageEntry]) -> list[NamespaceGroup]:
    groups: list[NamespaceGroup] = []
    for entry in entries:
        if not groups or groups[-1].namespace != entry.tool.namespace:
            groups.append(NamespaceGroup(entry.tool.namespace, []))
        groups[-1].entries.append(entry)
    return groups
