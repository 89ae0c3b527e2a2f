"""HTML from templates: everything escaped, no script, and the headers that hold a browser to it."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from toolyard.constants import VERSION
from toolyard.model.tool import Effects, Tool
from toolyard.serving.faults import HttpFault
from toolyard.serving.form_fields import pretty
from toolyard.serving.request import Request
from toolyard.serving.response import Response
from toolyard.serving.service import Service

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HTML = b"text/html; charset=utf-8"
CSP = (
    b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CSP),
    (b"x-content-type-options", b"nosniff"),
    # Not "no-referrer": with that, browsers say "Origin: null" for the page's own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_STORE = (b"cache-control", b"no-store")
_KEPT = (b"cache-control", b"private, max-age=86400")

_FILES = {"toolyard.css": b"text/css; charset=utf-8", "icon.svg": b"image/svg+xml"}

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


def render(
    service: Service,
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    **values: Any,
) -> Response:
    """A whole page."""
    text = (
        _environment()
        .get_template(template)
        .render(
            principal=request.principal,
            keys_on=asks_for_keys(service),
            metrics_on=service.metrics is not None,
            **values,
        )
    )
    # Escaped surrogates can reach a page from a tool's answer; no encoding has a place for them.
    body = text.encode("utf-8", errors="replace")
    return Response(status, body, HTML, (*PAGE_HEADERS, _NO_STORE, *headers))


def fault_page(service: Service, request: Request, fault: HttpFault) -> Response:
    """A refused request as a page; for somebody who is not signed in, the way to do so."""
    if fault.status == 401 and asks_for_keys(service) and request.method in ("GET", "HEAD"):
        return redirect("/sign-in" + (f"?{urlencode({'next': here(request)})}" if here(request) != "/" else ""))
    return render(service, request, "fault.html", status=fault.status, headers=fault.headers, fault=fault)


def asks_for_keys(service: Service) -> bool:
    """False where everybody may do everything: no key was ever made."""
    return service.keys is not None and service.keys.required


def redirect(to: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """See there instead, by GET."""
    location = (b"location", quote(to, safe="/:?&=%#+-._~").encode("ascii"))
    return Response(303, b"", HTML, (*PAGE_HEADERS, _NO_STORE, location, *headers))


def here(request: Request) -> str:
    """Path and query of the request, encoded."""
    path = quote(request.path, safe="/:")
    query = request.scope["query_string"].decode("ascii", errors="replace")
    return f"{path}?{query}" if query else path


def static_file(name: str) -> Response:
    """One of the files that pages refer to."""
    return Response(200, _static(name), _FILES[name], (*PAGE_HEADERS, _KEPT))


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
    return files("toolyard.serving").joinpath("static", name).read_bytes()


@cache
def _static_url(name: str) -> str:
    # The hash lets a browser keep the file and still see a new one at once.
    return f"/static/{name}?v={hashlib.sha256(_static(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str:
        return files("toolyard.serving").joinpath("templates", name).read_text("utf-8")

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
