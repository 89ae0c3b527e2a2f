"""Middleware: request ids, error responses, Host and Origin checks, authentication, rate limits and request bodies.

    RequestBoundary (with HostGuard) -> Starlette's router -> OperationGate -> handler

`RequestBoundary` wraps the whole application, and is the only place where exceptions become responses.
`OperationGate` wraps each handler.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import cast
from urllib.parse import quote, unquote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolyard.app.blocks import ServerBlock
from toolyard.dialects.telemetry import TRACE_KEYS, follow_trace
from toolyard.links.http.addresses import read_base_url
from toolyard.model.errors import ToolyardError
from toolyard.serving.admission import Admission, Place
from toolyard.serving.http_fault import HttpFault, find_session_fault
from toolyard.serving.identity import CALLER, NOBODY, Caller, Principal
from toolyard.serving.keys import KeyRing
from toolyard.serving.monitoring import Metrics, RequestLog
from toolyard.serving.query import check_query
from toolyard.serving.routing import (
    BODY_HELD,
    LARGE_BODY,
    MAX_DEPTH,
    BodyBudget,
    Handler,
    JsonResponse,
    Operation,
    StreamHandler,
    check_json_type,
    read_body,
)
from toolyard.serving.wire_types import SCHEMA_VERSION
from toolyard.sessions.store.group_commit import StoreFailing

FaultPage = Callable[[Request, HttpFault], Response]

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_PROCESS = secrets.token_hex(4)
_numbers = count(1)
_BEARER = b"bearer "
_WITH_BODY = frozenset({"POST", "PUT"})
_EXPOSED_HEADERS = (
    b"access-control-expose-headers",
    b"x-request-id, etag, location, retry-after, preference-applied, idempotent-replayed, mcp-session-id, "
    b"mcp-protocol-version",
)
_ALLOWED_HEADERS = (
    "authorization, content-type, idempotency-key, prefer, x-api-key, x-request-id, "
    "mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id, traceparent, tracestate"
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_SINGLE = (b"host", b"content-length", b"content-type", b"authorization", b"origin", b"idempotency-key", b"x-api-key")
"""Headers that a request must not repeat."""
_REMEMBERED = 1024
_HOST = re.compile(r"(\[[^]]*\]|[^][:]*)(:[0-9]*)?")


class RequestBoundary:
    """The outermost middleware: sets request ids and security headers, turns errors into responses, counts and logs."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        guard: HostGuard,
        log: RequestLog,
        metrics: Metrics | None,
        pages: Mapping[str, FaultPage],
    ) -> None:
        self._app = app
        self._guard = guard
        self._log = log
        self._metrics = metrics
        self._pages = pages
        """For the path templates of HTML pages: the function that renders a fault as a page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(reversed(scope["headers"]))  # the first of repeated headers wins
        caller = scope[CALLER] = Caller(headers=headers, request_id=find_request_id(headers))
        status = 0
        fault: HttpFault | None = None

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                mine = (b"x-request-id", caller.request_id.encode())
                message = {**message, "headers": [*headers, mine, *safe_headers(headers), *caller.shared_headers]}
            await send(message)

        try:
            await (self._guard.admit(scope, caller) or self._app)(scope, receive, send_safely)
        except ClientDisconnect:
            return
        except HTTPException as error:  # raised by a route that the application's user added
            if not status:
                body = None if error.status_code in (204, 304) else error.detail
                answer = Response(body, error.status_code, error.headers, "text/plain")
                await answer(scope, receive, send_safely)
        except HttpFault as error:
            # Break the reference cycle of traceback and frame, or every refusal leaves garbage for the collector.
            fault = error.with_traceback(None)
        except (ToolyardError, OSError, asyncio.CancelledError) as error:
            fault = self._convert_error(error, scope, caller)
        except Exception as error:  # noqa: BLE001 - the boundary: no error of a request may reach the server
            fault = self._make_server_error(error, caller)
        if fault is not None and not status:
            await self._refuse(fault, scope, receive, send_safely)
        self._record(scope, caller, status, time.perf_counter() - began, fault)

    def _record(self, scope: Scope, caller: Caller, status: int, seconds: float, fault: HttpFault | None) -> None:
        if self._metrics is not None:
            self._metrics.count_request(caller.route, status, seconds)
        if self._log.enabled:
            self._log.log_event(
                "request",
                method=scope["method"],
                route=caller.route or None,
                status=status,
                ms=round(seconds * 1000, 3),
                request_id=caller.request_id,
                key=caller.principal.name,
                tool=caller.tool or None,
                code=(caller.code or None) if fault is None else fault.code,
            )

    async def _refuse(self, fault: HttpFault, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller = scope[CALLER]
        page = self._pages.get(caller.route)
        if page is not None:
            response = page(Request(scope), fault)
        else:
            envelope = fault.to_envelope()
            if not scope["path"].removeprefix(scope.get("root_path", "")).startswith("/arp"):
                envelope["error"] = {"schema_version": SCHEMA_VERSION, **envelope["error"]}
            response = JsonResponse(envelope, fault.status)
            response.raw_headers += fault.headers
        # The protocol reads what is left of the request body.
        await response(scope, receive, send)

    def _convert_error(self, error: BaseException, scope: Scope, caller: Caller) -> HttpFault:
        if isinstance(error, StoreFailing):
            # The message names files and servers: log it, but do not send it to the client.
            self._log.log_event("store", request_id=caller.request_id, error=str(error))
            text = f"the store does not answer; the server's log has it as request {caller.request_id}"
            return HttpFault(503, "session.unavailable", text, retryable=scope["method"] in ("GET", "HEAD"))
        if isinstance(error, asyncio.CancelledError):
            return HttpFault(
                503,
                "server.stopping",
                "the server is stopping and cancelled this request; whether it took effect is not known",
                headers=((b"connection", b"close"),),
            )
        return find_session_fault(error) or self._make_server_error(error, caller)

    def _make_server_error(self, error: BaseException, caller: Caller) -> HttpFault:
        self._log.log_failure(caller.request_id, error)
        return HttpFault(500, "server.error", f"the server failed; its log has it as request {caller.request_id}")


def find_request_id(headers: Mapping[bytes, bytes]) -> str:
    """Return the request's `X-Request-ID` if it is safe to echo; else a new id."""
    given = headers.get(b"x-request-id")
    # It is echoed in a response header and a log line.
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{_PROCESS}-{next(_numbers):x}"


def is_loopback(host: str) -> bool:
    """True for `localhost` and loopback addresses."""
    address = _read_address(host)
    return host.strip("[]").lower() == "localhost" if address is None else address.is_loopback


class HostGuard:
    """Checks `Host` and `Origin`, so that a web page of another origin cannot use this server through a browser.

    `Host` reveals DNS rebinding, where an attacker points a name at this machine; `Origin` reveals foreign pages. A
    request to the host of `public_url` came by that URL, whatever a proxy has made of it.
    """

    def __init__(
        self,
        host: str,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        public_url: str | None = None,
    ) -> None:
        # Without the default port of the scheme, as browsers spell it in Host and Origin.
        public = urlsplit(read_base_url(public_url, "server.public_url") if public_url else "")
        self._public_scheme, self._public_host = public.scheme, public.netloc.encode()
        self.root = public.path
        own = {host.lower(), f"[{host.lower()}]"} if ":" in host else {host.lower()}
        self._any_address = host in ("0.0.0.0", "::", "")  # noqa: S104 - a comparison
        names = {socket.gethostname().lower()} if self._any_address else set()
        if public.netloc and (found := _HOST.fullmatch(public.netloc)) is not None:
            names |= {found[1]}
        self._names = _LOOPBACK | own | names | {name.lower() for name in allowed_hosts}
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in allowed_origins)
        self._accepted_hosts: set[bytes] = set()

    def admit(self, scope: Scope, caller: Caller) -> Response | None:
        """Raise `HttpFault` if the Host or Origin is not allowed; return the response if this is a CORS preflight.

        Sets the CORS headers of the response to an allowed origin.
        """
        headers = caller.headers
        if len(headers) != len(scope["headers"]):
            names = [name for name, _ in scope["headers"]]
            for name in _SINGLE:
                if names.count(name) > 1:
                    raise HttpFault(400, "request.invalid_http", f"the header {name.decode()} occurs more than once")
        host = headers.get(b"host")
        if host is None:
            raise HttpFault(400, "request.invalid_http", "a request needs a Host header")
        if host not in self._accepted_hosts:
            self._check_host(host)
        if host.lower() == self._public_host:
            self._place(scope)
        origin = headers.get(b"origin")
        if origin is None:
            is_foreign = headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site")
            if is_foreign and scope["method"] not in ("GET", "HEAD"):
                raise _make_foreign_origin("another site")
            return None
        if origin.lower() in self._origins:
            caller.shared_headers = ((b"access-control-allow-origin", origin), (b"vary", b"origin"), _EXPOSED_HEADERS)
        elif origin.lower() != str(scope["scheme"]).encode() + b"://" + host.lower():
            raise _make_foreign_origin(origin[:200].decode("latin-1"))
        if scope["method"] != "OPTIONS":
            return None
        return Response(
            status_code=204,
            headers={
                "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
                "access-control-allow-headers": _ALLOWED_HEADERS,
                "access-control-max-age": "600",
            },
        )

    def _place(self, scope: Scope) -> None:
        """Set what a proxy in front has changed of `public_url`: the scheme, and the path if it was cut off."""
        scope["scheme"] = self._public_scheme
        if not self.root or scope.get("root_path"):
            return
        root = scope["root_path"] = unquote(self.root)
        if not scope["path"].startswith(f"{root}/"):
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope["path"], scope["raw_path"] = root + scope["path"], self.root.encode() + raw

    def _check_host(self, host: bytes) -> None:
        text = host.decode("latin-1").lower()
        found = _HOST.fullmatch(text)
        # A malformed value matches no allowed name.
        name = text if found is None else found[1]
        # DNS rebinding needs a name, so any IP address is fine.
        if name not in self._names and not (self._any_address and _read_address(name)):
            raise HttpFault(
                421,
                "request.host_not_allowed",
                f"the host name {name[:200]!r} is not allowed",
                hint="list the name in server.allowed_hosts",
            )
        if len(self._accepted_hosts) < _REMEMBERED:
            self._accepted_hosts.add(host)


def _make_foreign_origin(who: str) -> HttpFault:
    return HttpFault(
        403,
        "request.origin_not_allowed",
        f"requests from pages of {who!r} are not allowed",
        hint="list the origin in server.allowed_origins; "
        "if it is this server behind a proxy, set server.public_url and let the proxy pass Host on",
    )


def _read_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


class OperationGate:
    """Wraps the handler of one operation: authenticates, applies rate limits, reads the body, and waits for a place."""

    def __init__(
        self,
        operation: Operation,
        *,
        block: ServerBlock,
        keys: KeyRing,
        admission: Admission,
        reads: Admission,
        budget: BodyBudget,
        cookie_of: Callable[[Scope], str | None],
    ) -> None:
        self._operation = operation
        self._block = block
        self._keys = keys
        self._admission = admission
        places = admission if operation.runs else reads if operation.heavy else None
        self._run = self._handle if places is None else partial(self._run_in_place, places)
        self._budget = budget
        max_values = None if operation.body is None else block.max_values
        self._body_limits = (operation.max_body or block.max_body_bytes, max_values)
        """The maximum number of bytes and of JSON values in a body."""
        self._cookie_of = cookie_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        operation, caller = self._operation, scope[CALLER]
        request = Request(scope, receive)
        caller.route = operation.path
        if scope["query_string"] and not operation.is_page:
            check_query(operation.query, request)
        principal = caller.principal = self._identify(scope, caller.headers)
        try:
            if operation.access != "open":
                if principal is not NOBODY:
                    self._admission.check_rate(principal)
                # Read the body before taking a place, so that slow uploads do not keep other requests from running.
                if operation.method in _WITH_BODY:
                    await self._read_body(request, caller)
            response = await self._run(request, caller, send)
        finally:
            if held := scope.get(BODY_HELD):
                self._budget.give_back(held)
        if response is not None:
            await response(scope, receive, send)

    async def _read_body(self, request: Request, caller: Caller) -> None:
        operation, headers = self._operation, caller.headers
        if operation.body is not None and (operation.body_needed or b"content-type" in headers):
            check_json_type(headers)
        request.scope[MAX_DEPTH] = self._block.max_depth
        try:
            body = await read_body(request, headers.get(b"content-length"), *self._body_limits, self._budget)
        except HttpFault as fault:
            if fault.status == 413:
                self._admission.charge(caller.principal, self._block.max_body_bytes)
            raise
        if len(body) > LARGE_BODY:
            self._admission.charge(caller.principal, len(body))

    async def _run_in_place(self, places: Admission, request: Request, caller: Caller, send: Send) -> Response | None:
        place = Place(places, caller.principal, caller.abandoned)
        await place.take()

        async def retake() -> None:
            self._keys.check_usable(caller.principal)
            await place.take()

        caller.leave_place, caller.take_place, caller.is_gone = place.leave, retake, request.is_disconnected
        try:
            return await self._handle(request, caller, send)
        finally:
            place.leave()
            caller.is_gone = None  # breaks a reference cycle: it refers to the request, which refers to the caller

    def _handle(self, request: Request, caller: Caller, send: Send) -> Awaitable[Response | None]:
        if self._operation.streams:
            return cast(StreamHandler, self._operation.handler)(request, send)
        handler = cast(Handler, self._operation.handler)
        return _handle_traced(handler, request, caller) if b"traceparent" in caller.headers else handler(request)

    def _identify(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Principal:
        """Return the principal of the request's key or sign-in.

        Checks that a key has the operation's verb in some namespace; the handler checks the namespace.
        """
        operation, keys = self._operation, self._keys
        if operation.is_page:
            if scope["method"] == "POST" and b"origin" not in headers:
                raise HttpFault(403, "request.origin_not_allowed", "a form is taken only from a page of this server")
            if operation.access == "page" and keys.required:
                token = _find_token(headers)
                return keys.find_by_sign_in(self._cookie_of(scope)) if token is None else keys.find(token)
            return NOBODY
        if not keys.required or operation.access == "open":
            return NOBODY
        principal = keys.find(_find_token(headers))
        if operation.verb is not None and not principal.scopes.allows_somewhere(operation.verb):
            raise HttpFault(403, "auth.forbidden", f"this key has no scope with the verb {operation.verb}")
        return principal


async def _handle_traced(handler: Handler, request: Request, caller: Caller) -> Response:
    with follow_trace({key: caller.headers.get(key.encode(), b"").decode("latin-1") for key in TRACE_KEYS}):
        return await handler(request)


def _find_token(headers: Mapping[bytes, bytes]) -> str | None:
    given = headers.get(b"authorization")
    if given is not None:
        return given[len(_BEARER) :].strip().decode("latin-1") if given[: len(_BEARER)].lower() == _BEARER else ""
    key = headers.get(b"x-api-key")
    return None if key is None else key.decode("latin-1")


_NO_SNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
# Private and revalidated each time, because the response depends on the key.
_REVALIDATED = ((b"cache-control", b"private, no-cache"), (b"vary", b"authorization, x-api-key"))


def safe_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers to add to a response against MIME sniffing and unwanted caching."""
    names = dict(headers)
    found = [] if b"x-content-type-options" in names else [_NO_SNIFF]
    if b"cache-control" not in names:
        found += _REVALIDATED if b"etag" in names else (_NO_STORE,)
    return found
