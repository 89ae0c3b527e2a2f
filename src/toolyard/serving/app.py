"""`App`: the ASGI application. One way for every request, in the order in which it is written here.

    guard -> route -> who asks -> how much -> handler -> answer

The only place where a refusal or a fault becomes an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus

from toolyard.model.errors import (
    DefinitionError,
    SessionBusyError,
    SessionError,
    SessionExistsError,
    ToolyardError,
    UnknownSessionError,
)
from toolyard.serving.bodies import check_type
from toolyard.serving.faults import Headers, HttpFault
from toolyard.serving.guard import Guard
from toolyard.serving.large import counted
from toolyard.serving.logs import RequestLog
from toolyard.serving.openapi import document
from toolyard.serving.pace import LEAST, Pace
from toolyard.serving.page import cookie_of, fault_page
from toolyard.serving.principal import NOBODY, Principal
from toolyard.serving.request import LARGE, Disconnected, Receive, Request, Scope, Send
from toolyard.serving.response import PLAIN_LINES, Response, json_response, with_care
from toolyard.serving.routes import Route, Router
from toolyard.serving.service import Service
from toolyard.serving.shapes import SCHEMA_VERSION
from toolyard.serving.table import PAGES, routes_of
from toolyard.sessions.group_commit import StoreFailing

_SLOW_DOWN = "toolyard.slow_down"
_ANSWER = "toolyard.answer"
_BELONG = "toolyard.belong"
_BEARER = b"bearer "
_WITH_BODY = frozenset({"POST", "PUT"})
_EXPOSED = (
    b"access-control-expose-headers",
    b"x-request-id, etag, retry-after, idempotent-replayed, mcp-session-id, mcp-protocol-version",
)
_ALLOWED = (
    b"authorization, content-type, idempotency-key, x-api-key, x-request-id, "
    b"mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id"
)


class App:
    """Serves one yard. Give it to an ASGI server, which must run its lifespan."""

    def __init__(self, service: Service) -> None:
        block = service.block
        self.service = service
        self.router = Router(routes_of(block))
        self.log = RequestLog(block.log)
        self._pace = Pace()
        self._guard = Guard(block.host, block.allowed_hosts, block.allowed_origins)
        routes = self.router.routes
        service.documents = {keys: json_response(document(routes, keys=keys)) for keys in (False, True)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI: one request, or the life of the server."""
        if scope["type"] == "http":
            await self._serve(Request(scope, receive, send), send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003, "reason": "no websockets are served here"})

    async def _serve(self, request: Request, send: Send) -> None:
        began = time.perf_counter()
        fault: HttpFault | None = None
        try:
            response = await self._answer(request)
        except Disconnected:
            self.service.room.give_back(request)
            return
        except HttpFault as error:
            # Its traceback knows this frame, which knows it: garbage of every refusal, for all to wait until collected.
            fault = error.with_traceback(None)
        except (ToolyardError, OSError, asyncio.CancelledError) as error:
            fault = self._fault_of(error, request)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, it must not take others along
            fault = self._unexpected(error, request)
        if request.held:
            self.service.room.give_back(request)
        if fault is not None:
            response = self._refusal(fault, request)
            await self._hold_back(fault, request)
        if not request.answered and (request.sharing or not _send_whole(response, request)):
            await _send(response, request, send)
        seconds = time.perf_counter() - began
        if self.service.metrics is not None:
            self.service.metrics.request(request.route, response.status, seconds)
        if self.log.enabled:
            self.log.request(
                *(request.method, request.route, response.status, seconds),
                request_id=request.request_id,
                key=request.principal.name,
                tool=request.tool or None,
                code=None if fault is None else fault.code,
            )

    async def _answer(self, request: Request) -> Response:
        self._guard.check(request)
        if self._guard.origins:
            request.sharing = self._shared_with(request)
        if request.method == "OPTIONS" and b"origin" in request.headers:
            return _preflight()
        found = self.router.find(request)
        route, request.values = found.route, found.values
        request.route = route.path
        if request.scope["query_string"]:
            _check_query(route, request)
        request.principal = self._who(route, request)
        if route.access == "open":
            return await route.handler(self.service, request)
        admission, principal = self.service.admission, request.principal
        # Whole before it gets a place: one whose body dawdles must not keep others from running.
        if principal is not NOBODY:
            _belongs_to(principal, request)
            admission.check_rate(principal)
            if request.declared <= LARGE:
                # Only these can be kept waiting by what is larger than they are.
                self.service.larges.see(principal.key_id)
        if route.method in _WITH_BODY and len(await self._read(route, request)) > LARGE:
            return await self._handle_large(route, request)
        return await self._handle(route, request)

    async def _read(self, route: Route, request: Request) -> bytes:
        block, max_values = self.service.block, None
        if route.body is not None:
            check_type(request)
            max_values = block.max_values
        max_bytes = route.max_body or block.max_body_bytes
        if LARGE < request.declared <= max_bytes:
            await self.service.larges.turn(request, request.declared)
        return await request.read(max_bytes, self.service.room, max_values)

    async def _handle_large(self, route: Route, request: Request) -> Response:
        size = len(request.body or b"")
        self.service.admission.charge(request.principal, size)
        await self.service.larges.turn(request, size)
        try:
            response = await counted(self._handle(route, request), request)
        finally:
            self.service.larges.settle(request)
        # Whoever waits gets in before it is sent.
        await asyncio.sleep(0)
        return response

    async def _handle(self, route: Route, request: Request) -> Response:
        if not route.runs and not route.heavy:
            return await route.handler(self.service, request)
        places, principal = self.service.admission if route.runs else self.service.reads, request.principal
        if not places.try_place(principal):
            await places.wait(principal)
        try:
            return await route.handler(self.service, request)
        finally:
            if request.abandoned:
                places.leave_later(principal, request.abandoned)
            else:
                places.leave(principal)

    def _who(self, route: Route, request: Request) -> Principal:
        """The principal whose key came along; what they may do here at all is checked, where is the handler's."""
        keys = self.service.keys
        if route.access == "page" or route.access == "page-open":
            if request.method == "POST" and b"origin" not in request.headers:
                raise HttpFault(403, "request.origin_not_allowed", "a form is taken only from a page of this server")
            if route.access == "page" and keys is not None and keys.required:
                return keys.find_signed(cookie_of(self.service, request))
            return NOBODY
        if keys is None or not keys.required or route.access == "open":
            return NOBODY
        principal = keys.find(_token(request))
        if route.verb is not None and not principal.scopes.allows_somewhere(route.verb):
            raise HttpFault(403, "auth.forbidden", f"this key has no scope with the verb {route.verb}")
        return principal

    def _refusal(self, fault: HttpFault, request: Request) -> Response:
        if request.route in PAGES:
            return fault_page(self.service, request, fault)
        envelope = fault.envelope()
        if not request.path.startswith("/arp"):
            envelope["error"] = {"schema_version": SCHEMA_VERSION, **envelope["error"]}
        return json_response(envelope, fault.status, fault.headers)

    async def _hold_back(self, fault: HttpFault, request: Request) -> None:
        """Whoever was refused is told at once, but not listened to for a moment: a flood must not cost what work costs.

        Whoever comes back with a new connection each time is told later.
        """
        if fault.status == 413:
            self.service.admission.charge(request.principal, self.service.block.max_body_bytes)
        keys = self.service.keys
        stranger = keys is not None and keys.required and request.principal is NOBODY and fault.status < 500
        slow_down = request.scope.get("extensions", {}).get(_SLOW_DOWN)
        if slow_down is not None and (stranger or fault.status == 429):
            pause = self._pace.pause(request.principal.key_id)
            if slow_down(pause) and pause > LEAST:
                await asyncio.sleep(pause)

    def _fault_of(self, error: BaseException, request: Request) -> HttpFault:
        if isinstance(error, StoreFailing):
            # Its words name files and servers, which are the operator's matter.
            self.log.event("store", request_id=request.request_id, error=str(error))
            text = f"the store does not answer; the server's log has it as request {request.request_id}"
            return HttpFault(503, "session.unavailable", text, retryable=request.method in ("GET", "HEAD"))
        for kind, (status, code, retryable) in STATUS.items():
            if isinstance(error, kind):
                return HttpFault(status, code, str(error), retryable=retryable)
        if isinstance(error, asyncio.CancelledError):
            return HttpFault(
                503,
                "server.stopping",
                "the server stops and did not wait for this any longer; whether it took effect is not known",
                headers=((b"connection", b"close"),),
            )
        return self._unexpected(error, request)

    def _unexpected(self, error: BaseException, request: Request) -> HttpFault:
        self.log.failure(request.request_id, error)
        return HttpFault(500, "server.error", f"the server failed; its log has it as request {request.request_id}")

    def _shared_with(self, request: Request) -> Headers:
        """The headers that let a foreign page read the answer, if it is of an origin that is allowed to."""
        origin = request.headers.get(b"origin")
        if origin is None or origin.lower() not in self._guard.origins:
            return ()
        return ((b"access-control-allow-origin", origin), (b"vary", b"origin"), _EXPOSED)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.service.start()
        except ToolyardError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.stop()
        self.log.close()
        await send({"type": "lifespan.shutdown.complete"})


STATUS: Mapping[type[BaseException], tuple[int, str, bool]] = {
    UnknownSessionError: (404, "session.not_found", False),
    SessionExistsError: (409, "session.exists", False),
    SessionBusyError: (409, "session.busy", True),
    # Whether anything had run by then, nobody knows.
    SessionError: (503, "session.unavailable", False),
    DefinitionError: (400, "request.invalid_shape", False),
}


def _belongs_to(principal: Principal, request: Request) -> None:
    """Have the connection stand in line with those of the same key."""
    extensions = request.scope.get("extensions")
    belong = None if extensions is None else extensions.get(_BELONG)
    if belong is not None:
        belong(principal.key_id)


def _send_whole(response: Response, request: Request) -> bool:
    """The common answer in one go, where the server knows how: nothing in its head comes from outside."""
    extensions = request.scope.get("extensions")
    answer = None if extensions is None else extensions.get(_ANSWER)
    if answer is None or not response.body or (response.headers and not _says_when(response.headers)):
        return False
    head = b"%b%bcontent-length: %d\r\nx-request-id: %b\r\n" % (
        _head(response.status, response.content_type),
        b"%b: %b\r\n" % response.headers[0] if response.headers else b"",
        len(response.body),
        request.request_id.encode(),
    )
    written: bool = answer(request.scope, head, response.body)
    return written


def _says_when(headers: Headers) -> bool:
    """Whether they are those of the refusal that a flood gets, and that has to cost least."""
    return len(headers) == 1 and headers[0][0] == b"retry-after"


@lru_cache(maxsize=256)
def _head(status: int, content_type: bytes) -> bytes:
    phrase = HTTPStatus(status).phrase.encode()
    return b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%b" % (status, phrase, content_type, PLAIN_LINES)


async def _send(response: Response, request: Request, send: Send) -> None:
    headers = [
        (b"content-length", b"%d" % len(response.body)),
        (b"x-request-id", request.request_id.encode()),
        *with_care(response.headers),
    ]
    if response.body or request.method == "HEAD":
        headers.append((b"content-type", response.content_type))
    if response.status in (204, 304):
        del headers[0]
    headers += request.sharing
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _preflight() -> Response:
    """A browser asks on behalf of a page; the guard has let its origin pass."""
    return Response(
        204,
        headers=(
            (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE"),
            (b"access-control-allow-headers", _ALLOWED),
            (b"access-control-max-age", b"600"),
        ),
    )


def _token(request: Request) -> str | None:
    given = request.headers.get(b"authorization")
    if given is not None:
        return given[len(_BEARER) :].strip().decode("latin-1") if given[: len(_BEARER)].lower() == _BEARER else ""
    key = request.headers.get(b"x-api-key")
    return None if key is None else key.decode("latin-1")


def _check_query(route: Route, request: Request) -> None:
    if route.access.startswith("page"):
        return
    known = {parameter.name: parameter for parameter in route.query}
    for name, values in request.query.items():
        if name not in known:
            listed = f"known here: {', '.join(sorted(known))}" if known else "there are none here"
            raise HttpFault(400, "request.invalid_query", f"no query parameter is called {name[:100]!r}; {listed}")
        known[name].check(values)
