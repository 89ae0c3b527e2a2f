"""The network backend of the HTTP library, which connects only to checked addresses.

The connection goes to the address that was checked, while TLS verifies the host name. Each connection has its own
backend, which tracks the one exchange in flight on it. Everything runs on event loops; deadlines are enforced by the
calling task.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import aclosing
from ipaddress import ip_address
from typing import Any, cast

import httpcore2

from toolyard.links.http.addresses import AddressRule, make_blocked_error, read_address
from toolyard.loop.threads import Threads, await_future

# ruff: noqa: ASYNC109 - parameter names are the library's


Resolve = Callable[[str, int], Sequence[str]]
"""Resolves host and port to addresses, best first; `OSError` if there are none."""

MAX_THREADS = 32
_SHORT_PLACE = 2
"""Length of an IPv4 socket address; IPv6 adds flow and zone."""


def system_addresses(host: str, port: int) -> list[str]:
    """Resolve a name with the system's resolver; IPv6 zones are kept so that they can be refused."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(_write_address(entry[4]) for entry in found))


def _write_address(place: tuple[object, ...]) -> str:
    text = str(place[0])
    zone = place[3] if len(place) > _SHORT_PLACE else 0
    return f"{text}%{zone}" if zone and "%" not in text else text


class UnknownHostError(httpcore2.ConnectError):
    """The name does not resolve to an address."""


class AddressGuard:
    """Resolves a host once and checks every address it resolves to.

    A lookup by the system's resolver cannot be interrupted. So lookups run in a few threads, in order of arrival, which
    never delay the end of the process. Callers wait as long as they have time, and leave the queue if they give up.
    """

    def __init__(self, rule: AddressRule, resolve: Resolve, *, threads: int = MAX_THREADS) -> None:
        self.rule = rule
        self._resolve = resolve
        self._threads = Threads(threads, "toolyard-lookup")
        self.closed = False

    async def find_addresses(self, host: str, port: int, trusted: bool) -> list[str]:
        """Return the host's addresses, all of them allowed; the caller enforces the time limit."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._check_all(host, port, trusted, [host])
        try:
            found = await await_future(self._threads.submit(lambda: self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            raise UnknownHostError from error
        return self._check_all(host, port, trusted, found)

    def _check_all(self, host: str, port: int, trusted: bool, found: Sequence[str]) -> list[str]:
        if not found:
            raise UnknownHostError
        # All or nothing: resolving to public and private addresses at once is typical of DNS rebinding.
        for text in found:
            if "%" in text:
                raise make_blocked_error(host, port)
            if not trusted:
                self.rule.check(host, port, ip_address(text))
        return list(found)


MAX_BEFORE_HEAD = 256 * 1024
"""Maximum number of bytes read before a response's head is complete; any allowed head is smaller."""
TOO_LONG = "receive buffer too long"
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

SOCKET_OPTIONS: tuple[SocketOption, ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _PROBES if hasattr(socket, name)),
)
"""Keep-alive probes, by which the system detects a peer that vanished from a silent stream."""


class Exchange:
    """The network state of one request."""

    __slots__ = ("answered", "fresh", "placed", "received", "sent")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Reset the state for the next request, after a redirect."""
        self.placed = False
        """True once a connection is assigned, open or not."""
        self.sent = False
        """True once the first byte may have been sent."""
        self.fresh = False
        """True if the connection was opened for this exchange."""
        self.answered = False
        """True once the response's head has arrived."""
        self.received = 0

    def count(self, data: bytes) -> None:
        """Count received bytes; raise if too many arrive before the head, in however many small messages."""
        if not self.answered:
            self.received += len(data)
            if self.received > MAX_BEFORE_HEAD:
                raise httpcore2.RemoteProtocolError(TOO_LONG)


class GuardedStream(httpcore2.AsyncNetworkStream):
    """A connection that records the progress of its exchange."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream, backend: GuardedBackend) -> None:
        self._inner = inner
        self._backend = backend

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read the next bytes."""
        data = await self._inner.read(max_bytes, timeout)
        self._backend.exchange.count(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of the bytes."""
        self._backend.exchange.sent = True
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Return the connection wrapped in TLS."""
        try:
            inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # The library closes it on exceptions, but not on cancellation.
            await self._inner.aclose()
            raise
        return GuardedStream(inner, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """Socket details, passed through."""
        return self._inner.get_extra_info(info)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens one connection, if its addresses are allowed."""

    def __init__(self, guard: AddressGuard, trusted: bool) -> None:
        self._guard = guard
        self._trusted = trusted
        self._inner = httpcore2.AnyIOBackend()
        self.exchange = Exchange()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to one of the host's addresses, trying each in turn."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._guard.find_addresses(host, port, self._trusted)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        failure: Exception = httpcore2.ConnectTimeout()
        for position, address in enumerate(addresses):
            # Split the time left equally, so that one silent address does not use up all of it.
            share = None if end is None else (end - time.monotonic()) / (len(addresses) - position)
            if share is not None and share <= 0:
                break
            try:
                inner = await self._inner.connect_tcp(address, port, share, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
                continue
            self.exchange.fresh = True
            if self._guard.closed:  # a connection must not outlive its pool
                await inner.aclose()
                raise httpcore2.ConnectError("closed")
            return GuardedStream(inner, self)
        raise failure


IDLE_SECONDS = 4.0
"""Shorter than the 5 s after which many servers close idle connections, so that requests rarely meet a closed one."""
EXCHANGE = "toolyard_exchange"
"""The request extension that holds its `Exchange`."""


class TrustedOrigin(httpcore2.Origin):
    """An origin, and whether the operator listed it."""

    def __init__(self, scheme: bytes, host: bytes, port: int, trusted: bool) -> None:
        super().__init__(scheme, host, port)
        self.trusted = trusted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrustedOrigin) and self.trusted == other.trusted and super().__eq__(other)


class TrustedURL(httpcore2.URL):
    """A URL whose origin is a `TrustedOrigin`."""

    def __init__(self, scheme: str, host: str, port: int, target: str, trusted: bool) -> None:
        super().__init__(scheme=scheme, host=host, port=port, target=target)
        self._trusted_origin = TrustedOrigin(self.scheme, self.host, port, trusted)

    @property
    def origin(self) -> TrustedOrigin:
        """The key by which connections are pooled."""
        return self._trusted_origin


class GuardedConnection(httpcore2.AsyncHTTPConnection):
    """Serves one exchange at a time, and is closed after one that did not complete."""

    def __init__(self, origin: TrustedOrigin, guard: AddressGuard, context: ssl.SSLContext | None, http2: bool) -> None:
        self._backend = GuardedBackend(guard, origin.trusted)
        super().__init__(
            origin,
            context,
            IDLE_SECONDS,
            http2=http2,
            network_backend=self._backend,
            socket_options=SOCKET_OPTIONS,
        )

    def is_available(self) -> bool:
        """Whether a request can be sent: never while another is in flight."""
        return self.is_idle() and super().is_available()

    def can_multiplex(self) -> bool:
        """False, even for HTTP/2."""
        return False

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send the request; return the response once its head has arrived."""
        self._backend.exchange = exchange = request.extensions[EXCHANGE]
        exchange.placed = True
        try:
            response = await super().handle_async_request(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again, as a protocol error if the server caused it
            await self.aclose()
            raise _as_protocol_error(error) from None
        assert isinstance(response.stream, AsyncIterable)
        return httpcore2.Response(
            response.status,
            headers=response.headers,
            content=_Body(self, response.stream),
            extensions=response.extensions,
        )


class _Body:
    """A response body; its connection is reused only if the body was read to the end."""

    def __init__(self, connection: GuardedConnection, stream: AsyncIterable[bytes]) -> None:
        self._connection = connection
        self._stream = stream
        self._whole = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        try:
            # Close the stream on exit; otherwise it stays open until it is garbage collected.
            async with aclosing(cast(AsyncGenerator[bytes, None], aiter(self._stream))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Exception as error:  # noqa: BLE001 - raised again
            raise _as_protocol_error(error) from None
        self._whole = True

    async def aclose(self) -> None:
        try:
            if hasattr(self._stream, "aclose"):
                await self._stream.aclose()
        finally:
            if not self._whole or _has_trailing_data(self._connection):
                await self._connection.aclose()


class GuardedPool(httpcore2.AsyncConnectionPool):
    """The connections of one event loop."""

    def __init__(self, guard: AddressGuard, tls: Callable[[], ssl.SSLContext], size: int, http2: bool) -> None:
        super().__init__(max_connections=size, keepalive_expiry=IDLE_SECONDS)
        self.guard, self._tls, self._h2 = guard, tls, http2

    def create_connection(self, origin: httpcore2.Origin) -> GuardedConnection:
        """Create a connection, which is not yet open."""
        assert isinstance(origin, TrustedOrigin)
        context = self._tls() if origin.scheme == b"https" else None
        return GuardedConnection(origin, self.guard, context, self._h2 and context is not None)


def _has_trailing_data(connection: object) -> bool:
    """Whether the server sent extra bytes after its response, which would be read as the next response.

    The library checks the socket for such bytes but not its own buffer, so this reads a private attribute of it. HTTP/2
    frames its responses and does not need the check.
    """
    parser = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    return parser is not None and parser.trailing_data[0] != b""


def _as_protocol_error(error: BaseException) -> BaseException:
    """Turn exceptions of the HTTP/2 libraries and malformed statuses into `RemoteProtocolError`."""
    if isinstance(error, ValueError) or type(error).__module__.partition(".")[0] in ("h2", "hpack", "hyperframe"):
        return httpcore2.RemoteProtocolError("not HTTP/2")
    return error
