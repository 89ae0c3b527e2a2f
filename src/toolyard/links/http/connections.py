"""The HTTP library's connections and pools, held to one exchange a connection at a time.

Two requests share a connection only if the operator trusts both equally, and never at the same time: one that hangs,
is cut off or is cancelled takes its connection with it and nothing else. That holds for HTTP/2 too, where the library
has no deadline for a request that waits for another's, and does not tell the server of one that was given up.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import cast

import httpcore2

from toolyard.links.http.backend import SOCKET_OPTIONS, AsyncGuardedBackend, GuardedBackend
from toolyard.links.http.guard import AddressGuard

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


class GuardedConnection(httpcore2.HTTPConnection):
    """Serves one exchange at a time and, after one that did not come to its end, no other."""

    def __init__(self, origin: TrustedOrigin, guard: AddressGuard, context: ssl.SSLContext | None, http2: bool) -> None:
        self._backend = GuardedBackend(guard, origin.trusted)
        self._hung_up = False
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

    def handle_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """The answer's head, and the body to come."""
        if self._backend.stream is None or self.is_idle():
            self._backend.exchange = request.extensions[EXCHANGE]
        try:
            response = super().handle_request(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again, as a fault of the server's where it is one
            self.drop()
            raise _blame_server(error) from None
        assert isinstance(response.stream, Iterable)
        return httpcore2.Response(
            response.status,
            headers=response.headers,
            content=_Body(self, response.stream),
            extensions=response.extensions,
        )

    def close(self) -> None:
        """Called by the pool, in any thread."""
        if self._backend.stream is None or self.is_idle() or self.is_closed():
            self.drop()
        else:
            self._hung_up = True
            self._backend.stream.hang_up()

    def drop(self) -> None:
        """Close it for good, in the thread that uses it."""
        super().close()

    def finish(self, whole: bool) -> None:
        """Its exchange is over; `whole` if nothing of it is left on the wire."""
        if not whole or self._hung_up or _has_more(self):
            self.drop()


class _Body:
    """A body that tells its connection whether it was read to the end."""

    def __init__(self, connection: GuardedConnection, stream: Iterable[bytes]) -> None:
        self._connection = connection
        self._stream = stream
        self._whole = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except Exception as error:  # noqa: BLE001 - raised again
            raise _blame_server(error) from None
        self._whole = True

    def close(self) -> None:
        if hasattr(self._stream, "close"):
            self._stream.close()
        self._connection.finish(self._whole)


class GuardedPool(httpcore2.ConnectionPool):
    """Connections that many threads share."""

    def __init__(self, guard: AddressGuard, tls: Callable[[], ssl.SSLContext], size: int, http2: bool) -> None:
        super().__init__(max_connections=size, keepalive_expiry=IDLE_SECONDS)
        self._guard, self._tls, self._h2 = guard, tls, http2

    def create_connection(self, origin: httpcore2.Origin) -> GuardedConnection:
        """A connection that is not yet open."""
        assert isinstance(origin, TrustedOrigin)
        context = self._tls() if origin.scheme == b"https" else None
        return GuardedConnection(origin, self._guard, context, self._h2 and context is not None)


class AsyncGuardedConnection(httpcore2.AsyncHTTPConnection):
    """`GuardedConnection` for one event loop."""

    def __init__(self, origin: TrustedOrigin, guard: AddressGuard, context: ssl.SSLContext | None, http2: bool) -> None:
        self._backend = AsyncGuardedBackend(guard, origin.trusted)
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
        self._backend.exchange = request.extensions[EXCHANGE]
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
            content=_AsyncBody(self, response.stream),
            extensions=response.extensions,
        )


class _AsyncBody:
    """`_Body` for one event loop."""

    def __init__(self, connection: AsyncGuardedConnection, stream: AsyncIterable[bytes]) -> None:
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


class AsyncGuardedPool(httpcore2.AsyncConnectionPool):
    """Connections of one event loop."""

    def __init__(self, guard: AddressGuard, tls: Callable[[], ssl.SSLContext], size: int, http2: bool) -> None:
        super().__init__(max_connections=size, keepalive_expiry=IDLE_SECONDS)
        self._guard, self._tls, self._h2 = guard, tls, http2

    def create_connection(self, origin: httpcore2.Origin) -> AsyncGuardedConnection:
        """A connection that is not yet open."""
        assert isinstance(origin, TrustedOrigin)
        context = self._tls() if origin.scheme == b"https" else None
        return AsyncGuardedConnection(origin, self._guard, context, self._h2 and context is not None)


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
