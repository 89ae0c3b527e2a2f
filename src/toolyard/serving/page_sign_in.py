"""Signing in: a key is shown once, and a cookie that is not the key tells the pages who looks at them."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from toolyard.serving.faults import HttpFault
from toolyard.serving.page_views import asks_for_keys, fault_page, redirect, render
from toolyard.serving.request import Request
from toolyard.serving.response import Response
from toolyard.serving.service import Service

_KEY = re.compile(r"ty_[A-Za-z0-9_-]{20,200}")
_NEXT = re.compile(r"/(?:tool/[A-Za-z0-9%:._~!$&'()*+,;=@-]+)?(?:\?[A-Za-z0-9%:._~!$&'()*+,;=@/-]*)?")
_MAX_FIELDS = 2000
MAX_SIGN_IN = 4 * 1024
"""Bytes of a form that anybody may send."""


def cookie_of(service: Service, request: Request) -> str | None:
    """What `sign_in` left with whoever is signed in; None if nobody is. For page routes alone: an API takes no cookies.

    Whether it is still good is the key ring's to say.
    """
    wanted = _cookie_name(service, request)
    for part in request.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return None


async def show_sign_in(service: Service, request: Request) -> Response:
    """`GET /sign-in`: asks for a key; where there are no keys, there is nothing to ask."""
    if not asks_for_keys(service):
        return redirect("/")
    return render(service, request, "sign_in.html", next=_next(request.query.get("next", [""])[0]), problem="")


async def sign_in(service: Service, request: Request) -> Response:
    """`POST /sign-in`: leaves a cookie that no script and no other site can use, and that opens the pages alone."""
    try:
        form = await read_fields(request, MAX_SIGN_IN)
        after = _next(form.get("next", ""))
        if service.keys is None or not asks_for_keys(service):
            return redirect("/")
        token = form.get("key", "").strip()
        try:
            if not _KEY.fullmatch(token):
                raise HttpFault(401, "auth.invalid", "a key begins with ty_ and is one long word")
            value = service.keys.sign(service.keys.find(token))
        except HttpFault as fault:
            if fault.status != 401:
                raise
            return render(service, request, "sign_in.html", status=401, next=after, problem=fault.message)
        return redirect(after or "/", (_cookie(service, request, value),))
    except HttpFault as fault:
        return fault_page(service, request, fault)


async def sign_out(service: Service, request: Request) -> Response:
    """`POST /sign-out`: takes the cookie back, whether or not it is still good."""
    return redirect("/sign-in", (_cookie(service, request, "", "; Max-Age=0"),))


async def read_fields(request: Request, max_bytes: int) -> dict[str, str]:
    """The fields of a submitted form; each may be there once."""
    kind = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        raise HttpFault(
            415, "request.unsupported_media_type", "a form must be sent as application/x-www-form-urlencoded"
        )
    body = await request.read(max_bytes)
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


def _cookie(service: Service, request: Request, value: str, more: str = "") -> tuple[bytes, bytes]:
    name, secure = _cookie_name(service, request), "; Secure" if _is_secure(request) else ""
    return b"set-cookie", f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}".encode("ascii")


def _cookie_name(service: Service, request: Request) -> str:
    # Cookies know hosts, not ports: two servers on one host would overwrite each other's. And with the prefix no
    # other host and no page without TLS can set it.
    return f"{'__Host-' if _is_secure(request) else ''}toolyard_{service.block.port}"


def _is_secure(request: Request) -> bool:
    return request.scope.get("scheme") == "https"


def _next(given: str) -> str:
    # Only pages of ours: anything else could lead somebody who has just signed in astray.
    return given if _NEXT.fullmatch(given) else ""
