"""Signing in to the console with an API key, CSRF tokens, and reading submitted forms."""

from __future__ import annotations

import hmac
import re

from starlette.requests import Request
from starlette.types import Scope

from toolyard.serving.console.rendering import CONSOLE, FORM_TOKEN
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.keys import KeyRing
from toolyard.serving.query import parse_pairs
from toolyard.serving.routing import BODY

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
        """The fields of a submitted form; 403 unless its token belongs to this sign-in."""
        fields = _read_fields(request)
        given = fields.pop(FORM_TOKEN, "")
        if not hmac.compare_digest(given.encode(), self.make_token(request.scope).encode()):
            raise HttpFault(
                403,
                "request.form_outdated",
                "This form was not made for your present sign-in, so nothing was done.",
                hint="load its page again, and send it from there",
            )
        return fields


def sign_cookie(keys: KeyRing, token: str) -> str:
    """The cookie value for a key; `HttpFault` 401 if the key is not valid."""
    if not _KEY.fullmatch(token):
        raise HttpFault(401, "auth.invalid", "a key begins with ty_ and is one long word")
    return keys.sign_in(keys.find(token))


def _read_fields(request: Request) -> dict[str, str]:
    """The fields of a submitted form; none may be repeated."""
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
    return fields


def check_next(given: str) -> str:
    """The path to go to after signing in: only pages of the console, to prevent open redirects."""
    return given if _NEXT.fullmatch(given) else ""
