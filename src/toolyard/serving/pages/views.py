"""HTML from templates, everything escaped and without script; and the catalog as the pages show it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.constants import VERSION
from toolyard.model.json_words import closest
from toolyard.model.tool import Effects, Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.http_fault import Headers, HttpFault
from toolyard.serving.identity import KeyRing, Scopes
from toolyard.serving.pages.form import pretty
from toolyard.serving.routing import caller_of

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
_MAX_WORDS = 10


class PageEntry(msgspec.Struct, frozen=True):
    """One name with its overloads."""

    name: str
    tools: tuple[Tool, ...]
    haystack: str

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


def browse(snapshot: Snapshot, scopes: Scopes, query: str, namespace: str, page: int) -> CatalogPage:
    """Names that hold every word of the query in their name, description or tags."""
    index = _index(snapshot)
    words = query.lower().split()[:_MAX_WORDS]
    visible = {name: entries for name, entries in index.items() if scopes.allows("list", name)}
    fitting = {name: [one for one in entries if _fits(one, words)] for name, entries in visible.items()}
    chosen = fitting if not namespace else {namespace: fitting.get(namespace, [])}
    flat = [entry for entries in chosen.values() for entry in entries]
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


def overloads(snapshot: Snapshot, scopes: Scopes, name: str) -> list[Tool]:
    """Every overload of a name, alias or unmistakable bare name; empty for one that may not be seen."""
    found = snapshot.get(name)
    if not found:
        homes = [home for home in snapshot.bare_names.get(name, ()) if _may_see(snapshot, scopes, home)]
        found = snapshot.get(homes[0]) if len(homes) == 1 else []
    return found if found and scopes.allows("list", found[0].namespace) else []


def near(snapshot: Snapshot, scopes: Scopes, name: str) -> list[str]:
    """Names that may have been meant, among those that may be seen."""
    index = _index(snapshot)
    visible = [one.name for key, entries in index.items() if scopes.allows("list", key) for one in entries]
    return closest(name, visible)


def _may_see(snapshot: Snapshot, scopes: Scopes, name: str) -> bool:
    return scopes.allows("list", snapshot.names[name][0].tool.namespace)


def _index(snapshot: Snapshot) -> _Index:
    found = _indexes.get(snapshot)
    if found is None:
        found = {}
        for name, candidates in snapshot.names.items():
            tools = tuple(candidate.tool for candidate in candidates)
            found.setdefault(tools[0].namespace, []).append(PageEntry(name, tools, _haystack(name, tools)))
        _indexes[snapshot] = found
    return found


def _haystack(name: str, tools: Sequence[Tool]) -> str:
    return "\n".join(
        [name, *(part for tool in tools for part in (tool.description, *tool.tags, *tool.aliases))]
    ).lower()


def _fits(entry: PageEntry, words: list[str]) -> bool:
    return all(word in entry.haystack for word in words)


def _grouped(entries: list[PageEntry]) -> list[NamespaceGroup]:
    groups: list[NamespaceGroup] = []
    for entry in entries:
        if not groups or groups[-1].namespace != entry.tool.namespace:
            groups.append(NamespaceGroup(entry.tool.namespace, []))
        groups[-1].entries.append(entry)
    return groups
