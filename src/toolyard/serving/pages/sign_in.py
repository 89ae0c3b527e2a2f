"""Signing in: a key is shown once, and a cookie that is not the key tells the pages who looks at them."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.keys import KeyRing
from toolyard.serving.pages.views import PageRenderer, redirect
from toolyard.serving.query import query_str
from toolyard.serving.request_body import BODY

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
