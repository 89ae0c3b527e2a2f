"""What is answered where no app can be asked: to what is not HTTP, not whole, or more than is taken."""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from toolyard.serving.faults import Headers, HttpFault
from toolyard.serving.request import Request, Scope
from toolyard.serving.response import JSON, PLAIN

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
MAX_PIPELINED = 100

_encode = msgspec.json.Encoder().encode


def refusal(fault: HttpFault, scope: Scope | None, default_headers: Headers) -> bytes:
    """The whole answer, after which the connection ends. `scope` is the request's, if there is one."""
    request_id = secrets.token_hex(8) if scope is None else Request(scope, _nothing).request_id
    body = _encode(fault.envelope())
    headers = [
        *default_headers,
        *fault.headers,
        *PLAIN,
        (b"content-type", JSON),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
    ]
    lines = b"".join(b"%s: %s\r\n" % header for header in headers)
    return STATUS_LINE[fault.status] + lines + b"\r\n" + body


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}


def invalid(why: object) -> HttpFault:
    """What came is not HTTP, or not HTTP that can be understood in one way only."""
    if isinstance(why, httptools.HttpParserCallbackError):
        why = "its target is not a path"
    return HttpFault(400, "request.invalid_http", f"this is no HTTP/1.1 request that can be served: {why}")


def large_head() -> HttpFault:
    """Too many headers, or too large ones."""
    return HttpFault(
        431,
        "request.headers_too_large",
        f"the head of a request may have {MAX_HEADERS} headers and {MAX_HEAD_BYTES:,} bytes",
        details={"max_headers": MAX_HEADERS, "max_bytes": MAX_HEAD_BYTES},
    )


def late(what: str, seconds: float) -> HttpFault:
    """The rest of a request did not come in time."""
    return HttpFault(408, "request.timeout", what, retryable=True, details={"timeout": seconds})
