"""HTML from templates: the layout of every page, and its static files. Everything is escaped, nothing inline."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache, partial
from html import escape
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
from markupsafe import Markup, escape as escape_markup
from starlette.requests import Request
from starlette.responses import Response

from toolyard.constants import VERSION
from toolyard.model.errors import Held
from toolyard.serving.console.form import indent_json, is_plain_text
from toolyard.serving.http_fault import Headers

if TYPE_CHECKING:
    from jinja2 import Environment

CONSOLE = "/console"
HTML = "text/html; charset=utf-8"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    # Not "no-referrer": browsers would then send "Origin: null" with the page's own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_NO_STORE = {"cache-control": "no-store"}
_CACHED = {"cache-control": "private, max-age=86400"}

STATIC_FILES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "cytoscape.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
"""The CSRF field: it shows that a form comes from a page of this server with the same sign-in."""

MAX_SHOWN = 200_000
"""Characters of a result that a page shows; more would freeze the browser."""
_MAX_COLOURED = 50_000
_TOKEN = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*")(?P<key>\s*:)?|(?P<word>\b(?:true|false|null)\b)|(?P<number>-?\d[\d.eE+-]*)'
)
_BADGES = {
    "read": ("read", "Reads only: running it changes nothing."),
    "write": ("write", "Writes: running it has side effects."),
    "unknown": ("effects unknown", "Not declared: running it may or may not change something."),
    "stale": ("stale", "Its source could not be reloaded; this is the last version that loaded."),
    "held": ("needs approval", "A policy rule holds calls of this tool until they are approved."),
    "simulated": ("simulated", "A simulated call: nothing was changed or recorded."),
}


class PageView(msgspec.Struct, frozen=True):
    """The page that answers a form: a template and its data."""

    template: str
    view: Any
    status: int = 200


def render_page(request: Request, template: str, *, status: int = 200, headers: Headers = (), **shown: Any) -> Response:
    """A complete page; `shown` are the variables of the template."""
    environment = _environment(quote(request.scope.get("root_path", ""), safe="/:@"))
    text = environment.get_template(template).render(here=local_path(request), json_url=_json_url(request), **shown)
    # A tool's result may contain escaped lone surrogates, which UTF-8 cannot encode.
    body = text.encode("utf-8", errors="replace")
    response = Response(body, status, {**PAGE_HEADERS, **_NO_STORE}, HTML)
    response.raw_headers += headers
    return response


def redirect(request: Request, to: str, headers: Headers = ()) -> Response:
    """A 303 redirect; `to` is a path within this application, without its mount point."""
    location = quote(request.scope.get("root_path", "") + to, safe="/:?&=%#+-._~")
    response = Response(b"", 303, {**PAGE_HEADERS, **_NO_STORE, "location": location})
    response.raw_headers += headers
    return response


def local_path(request: Request) -> str:
    """The request path without the application's mount point."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")) or "/"


def _json_url(request: Request) -> str:
    """URL of the page's data as JSON."""
    path: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope["query_string"]
    return (path.rstrip(b"/") + b".json" + (b"?" + query if query else b"")).decode("latin-1")


async def show_static_file(name: str, request: Request) -> Response:
    """`GET /console/static/{name}`: a file of the pages."""
    return Response(_static(name), headers={**PAGE_HEADERS, **_CACHED}, media_type=STATIC_FILES[name])


def item_path(kind: str, name: str) -> str:
    """Path of the page of one tool, session or call. Slashes in the name are encoded, so it stays one path segment.

    So is the dot of a name that ends like the URL of a page's JSON.
    """
    spelt = quote(name, safe=":")
    if spelt.endswith(".json"):
        spelt = spelt.removesuffix(".json") + "%2Ejson"
    return f"{CONSOLE}/{kind}/{spelt}"


def tool_path(name: str) -> str:
    """Path of a tool's page."""
    return item_path("tools", name)


def colour_json(text: str) -> Markup:
    """JSON text with tokens marked up for syntax colours."""
    if len(text) > _MAX_COLOURED:
        return escape_markup(text)
    parts: list[str] = []
    end = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup if found.lastgroup != "text" else "string"
        token = found["text"] or found[0]
        parts += [escape_markup(text[end : found.start()]), Markup('<span class="j-{}">{}</span>').format(kind, token)]
        end = found.start() + len(token)
    return Markup("").join([*parts, escape_markup(text[end:])])


def render_value(value: Any) -> tuple[Markup, bool, int]:
    """A value as formatted JSON or, if the second part is true, as text; and how many characters were cut off."""
    is_text = is_plain_text(value)
    text = value if is_text else indent_json(value)
    cut = max(0, len(text) - MAX_SHOWN)
    return escape_markup(text[:MAX_SHOWN]) if is_text or cut else colour_json(text), is_text, cut


def shorten_json(value: Any, most: int = 160) -> str:
    """A JSON value on one line, cut at `most` characters."""
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= most else text[: most - 1] + "…"


def format_duration(milliseconds: float) -> str:
    """A duration with a readable unit."""
    if milliseconds < 0.1:
        return f"{milliseconds * 1000:.0f} µs"
    if milliseconds < 1000:
        return f"{milliseconds:.1f} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.2f} s"


@cache
def badge(kind: str) -> Markup:
    """A one-word label of a tool or call, with its explanation as tooltip."""
    return Markup('<span class="badge {}" title="{}">{}</span>').format(kind, _BADGES[kind][1], _BADGES[kind][0])


def call_cells(root: str, calls: Iterable[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Escaped cells for rows of calls. Formatting them in the template would take most of the rendering time."""
    day = ""
    for call in calls:
        new_day, day = call["time"][:10] if call["time"][:10] != day else "", call["time"][:10]
        code, effects, began = call.get("code"), call.get("effects", "unknown"), call["time"]
        marks: list[str] = [] if effects == "unknown" else [badge(effects)]
        if call["mode"] == "simulate":
            marks.append(badge("simulated"))
        if code is not None:
            marks.append(f'<span class="badge {"waits" if code == Held.code else "bad"}">{escape(code)}</span>')
        if "session_id" in call:
            marks.append(f'<span class="fine">{escape(call["session_id"])}</span>')
        is_wrong, link = code not in (None, Held.code), escape(f"{root}{CONSOLE}/calls/{call['id']}")
        cells = new_day, is_wrong, link, began, began[11:23], escape(call["tool"]), "".join(marks)
        yield *cells, call["duration_ms"], format_duration(call["duration_ms"])


def tool_cells(root: str, rows: Iterable[Any], **query: str) -> Iterator[tuple[str, ...]]:
    """Escaped cells for rows of the catalog (`CatalogRow`)."""
    # `tool_path` is URL-quoted, so it needs no escaping.
    root, more = escape(root), escape(with_query("", **query))
    for row in rows:
        marks: list[str] = [] if row.effect == "unknown" else [badge(row.effect)]
        if row.overloads > 1:
            marks.append(f'<span class="badge">{row.overloads} overloads</span>')
        if row.held:
            marks.append(badge("held"))
        if row.stale:
            marks.append(badge("stale"))
        if row.score is not None:
            meter = f'<meter min="0" max="1" value="{row.score}">{row.score}</meter> {row.fit} {row.score:.0%}'
            marks.append(f'<span class="score" title="How likely it is what you look for">{meter}</span>')
        link = root + tool_path(row.name) + more
        yield link, escape(row.namespace), escape(row.label), "".join(marks), escape(row.text)


def without_key(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    """The mapping without `key`."""
    return {name: value for name, value in mapping.items() if name != key}


def group_runs(rows: Iterable[Any], attribute: str) -> list[tuple[Any, list[Any]]]:
    """Consecutive rows with the same value of `attribute`, each group with that value."""
    return [(value, list(run)) for value, run in groupby(rows, key=attrgetter(attribute))]


def with_query(path: str, **parameters: str | int | None) -> str:
    """The path with a query string of the parameters that are not empty or None."""
    given = {name: value for name, value in parameters.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


@cache
def _static(name: str) -> bytes:
    if name == "cytoscape.js":
        # The file that `toolyard graph` embeds.
        from toolyard.insight.graph import CYTOSCAPE, read_static

        return read_static(CYTOSCAPE).encode()
    return files("toolyard.serving.console").joinpath("static", name).read_bytes()


@cache
def _static_url(name: str) -> str:
    # With the hash, browsers can cache the file for good and still get a new version at once.
    return f"{CONSOLE}/static/{name}?v={hashlib.sha256(_static(name)).hexdigest()[:12]}"


@lru_cache(maxsize=8)
def _environment(root: str = "") -> Environment:
    """The Jinja environment, with links for an application mounted at `root`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("toolyard.serving.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    moment = Markup('<time datetime="{}" data-moment>{} UTC</time>')
    environment.filters.update(
        render_value=render_value,
        shorten_json=shorten_json,
        colour_json=colour_json,
        group_runs=group_runs,
        thousands="{:,}".format,
        # console.js replaces it with a relative time.
        moment=lambda text: moment.format(text, text[:19].replace("T", " ")),
    )
    environment.globals.update(
        version=VERSION,
        root=root,
        console=root + CONSOLE,
        static_url=lambda name: root + _static_url(name),
        tool_path=lambda name: root + tool_path(name),
        item_path=lambda kind, name: root + item_path(kind, name),
        with_query=with_query,
        badge=badge,
        call_cells=partial(call_cells, root),
        tool_cells=partial(tool_cells, root),
        format_duration=format_duration,
        without_key=without_key,
    )
    return environment
