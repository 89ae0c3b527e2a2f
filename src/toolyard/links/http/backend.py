"""The network under the HTTP library: it connects to checked addresses and to nothing else.

TLS goes by the name, the connection by the address that was checked. Each connection has a backend of its own, which
knows the one exchange that is under way on it. All of it runs on event loops, the deadline of the task is its own.
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

from toolyard.links.http.addresses import AddressRule, blocked, read_address
from toolyard.loop.threads import Threads, wrapped

# ruff: noqa: ASYNC109 - the library names its parameters


Resolve = Callable[[str, int], Sequence[str]]
"""A host and port into addresses, best first; an `OSError` if there are none."""

MAX_THREADS = 32
_SHORT_PLACE = 2
"""IPv4's address and port; IPv6 has a flow and a zone behind them."""


def system_addresses(host: str, port: int) -> list[str]:
    """What the system says the name stands for; a zone, where there is one, is kept so that it can be refused."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(_write_address(entry[4]) for entry in found))


def _write_address(place: tuple[object, ...]) -> str:
    text = str(place[0])
    zone = place[3] if len(place) > _SHORT_PLACE else 0
    return f"{text}%{zone}" if zone and "%" not in text else text


class UnknownHostError(httpcore2.ConnectError):
    """The name stands for no address."""


class AddressGuard:
    """Says which addresses a host may be reached by: a name is resolved once, and all that it stands for is checked.

    Names become addresses by the system's resolver, which nothing can interrupt once it has begun. So it runs in
    threads of its own: few, first come, first served, and none that a process waits for at its end. Whoever asked waits
    as long as it has time, and leaves the queue if it gives up.
    """

    def __init__(self, rule: AddressRule, resolve: Resolve, *, threads: int = MAX_THREADS) -> None:
        self.rule = rule
        self._resolve = resolve
        self._threads = Threads(threads, "toolyard-lookup")
        self.closed = False

    async def find_addresses(self, host: str, port: int, trusted: bool) -> list[str]:
        """The host's addresses, all of them allowed; the time limit is the caller's."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._check_all(host, port, trusted, [host])
        try:
            found = await wrapped(self._threads.submit(lambda: self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            raise UnknownHostError from error
        return self._check_all(host, port, trusted, found)

    def _check_all(self, host: str, port: int, trusted: bool, found: Sequence[str]) -> list[str]:
        if not found:
            raise UnknownHostError
        # All or nothing: a name that stands for a public and a private address at once is what rebinding looks like.
        for text in found:
            if "%" in text:
                raise blocked(host, port)
            if not trusted:
                self.rule.check(host, port, ip_address(text))
        return list(found)


MAX_BEFORE_HEAD = 256 * 1024
"""Bytes read before an answer's head is known; a head that is allowed, and what came with it, is less."""
TOO_LONG = "receive buffer too long"
_PROBES = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

SOCKET_OPTIONS: tuple[SocketOption, ...] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _PROBES if hasattr(socket, name)),
)
"""Have the system find out when whoever is at the other end of a silent stream is gone without a word."""


class Exchange:
    """One request on its way, as the network sees it."""

    __slots__ = ("answered", "fresh", "placed", "received", "sent")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Once more from the start, for the next request of a redirect."""
        self.placed = False
        """True once it has a connection, open or not."""
        self.sent = False
        """True once the first byte may have left."""
        self.fresh = False
        """True if the connection was made for it."""
        self.answered = False
        """True once the answer's head is there."""
        self.received = 0

    def count(self, data: bytes) -> None:
        """Note what came in; before the head is there, that has a limit, however many small messages it is."""
        if not self.answered:
            self.received += len(data)
            if self.received > MAX_BEFORE_HEAD:
                raise httpcore2.RemoteProtocolError(TOO_LONG)


class GuardedStream(httpcore2.AsyncNetworkStream):
    """A connection that notes how far its exchange has come."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream, backend: GuardedBackend) -> None:
        self._inner = inner
        self._backend = backend

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes."""
        data = await self._inner.read(max_bytes, timeout)
        self._backend.exchange.count(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of the bytes."""
        self._backend.exchange.sent = True
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Hang up."""
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """The same, encrypted."""
        try:
            inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # The library does so for exceptions, but not when it is cancelled.
            await self._inner.aclose()
            raise
        return GuardedStream(inner, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """What the library asks about its sockets."""
        return self._inner.get_extra_info(info)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens one connection, if it is allowed."""

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
        """A connection to one of the host's addresses."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._guard.find_addresses(host, port, self._trusted)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        failure: Exception = httpcore2.ConnectTimeout()
        for position, address in enumerate(addresses):
            # An equal part of the time left, so that one silent address does not take the others' chance.
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
"""Less than the 5 s after which many servers hang up, so that a request seldom meets that."""
EXCHANGE = "toolyard_exchange"
"""The extension of a request under which its `Exchange` travels."""


class TrustedOrigin(httpcore2.Origin):
    """An origin, and whether the operator named it."""

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
        """What connections are kept by."""
        return self._trusted_origin


class GuardedConnection(httpcore2.AsyncHTTPConnection):
    """Serves one exchange at a time and, after one that did not come to its end, no other."""

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
        """Never for a second request while there is one."""
        return self.is_idle() and super().is_available()

    def can_multiplex(self) -> bool:
        """Not even HTTP/2."""
        return False

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """The answer's head, and the body to come."""
        self._backend.exchange = exchange = request.extensions[EXCHANGE]
        exchange.placed = True
        try:
            response = await super().handle_async_request(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again, as a fault of the server's where it is one
            await self.aclose()
            raise _blame_server(error) from None
        assert isinstance(response.stream, AsyncIterable)
        return httpcore2.Response(
            response.status,
            headers=response.headers,
            content=_Body(self, response.stream),
            extensions=response.extensions,
        )


class _Body:
    """A body that knows whether it was read to the end; its connection serves on only then."""

    def __init__(self, connection: GuardedConnection, stream: AsyncIterable[bytes]) -> None:
        self._connection = connection
        self._stream = stream
        self._whole = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        try:
            # Closed at once when it is left: what is left open ends whenever the collector finds it.
            async with aclosing(cast(AsyncGenerator[bytes, None], aiter(self._stream))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Exception as error:  # noqa: BLE001 - raised again
            raise _blame_server(error) from None
        self._whole = True

    async def aclose(self) -> None:
        try:
            if hasattr(self._stream, "aclose"):
                await self._stream.aclose()
        finally:
            if not self._whole or _has_more(self._connection):
                await self._connection.aclose()


class GuardedPool(httpcore2.AsyncConnectionPool):
    """Connections of one event loop."""

    def __init__(self, guard: AddressGuard, tls: Callable[[], ssl.SSLContext], size: int, http2: bool) -> None:
        super().__init__(max_connections=size, keepalive_expiry=IDLE_SECONDS)
        self.guard, self._tls, self._h2 = guard, tls, http2

    def create_connection(self, origin: httpcore2.Origin) -> GuardedConnection:
        """A connection that is not yet open."""
        assert isinstance(origin, TrustedOrigin)
        context = self._tls() if origin.scheme == b"https" else None
        return GuardedConnection(origin, self.guard, context, self._h2 and context is not None)


def _has_more(connection: object) -> bool:
    """Whether a server sent more than its answer, which would be taken for the answer to the next request.

    The library looks at the socket for that, but not at what it has read off it already: the one thing that is read
    here of its privates. HTTP/2 frames its answers and needs no such look.
    """
    parser = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    return parser is not None and parser.trailing_data[0] != b""


def _blame_server(error: BaseException) -> BaseException:
    """HTTP/2's own exceptions, and a status that is no number, are the server's fault."""
    if isinstance(error, ValueError) or type(error).__module__.partition(".")[0] in ("h2", "hpack", "hyperframe"):
        return httpcore2.RemoteProtocolError("not HTTP/2")
    return error
