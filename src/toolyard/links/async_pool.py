# ruff: noqa: ASYNC109 - the library names its parameters
"""`AsyncPool`: `Pool` for one event loop."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from typing import Any, cast

import httpcore2

from toolyard.links.guard import EXCHANGE, IDLE_SECONDS, Gate, Place, has_more, remote, share_of
from toolyard.links.transport import SocketOption


class AsyncStream(httpcore2.AsyncNetworkStream):
    """`Stream` for an event loop, where the deadline for reading and writing is the task's."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes."""
        data = await self._inner.read(max_bytes, timeout)
        EXCHANGE.get().count(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of the bytes."""
        EXCHANGE.get().sent = True
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        """Hang up."""
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """The same, encrypted."""
        try:
            return AsyncStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            # The library does so for exceptions, but not when it is cancelled.
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        """What the library asks about its sockets."""
        return self._inner.get_extra_info(info)


class AsyncDialler(httpcore2.AsyncNetworkBackend):
    """Opens connections, if they are allowed."""

    def __init__(self, gate: Gate, trusted: bool) -> None:
        self._gate = gate
        self._trusted = trusted
        self._inner = httpcore2.AnyIOBackend()

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
                addresses = await self._gate.aaddresses(host, port, self._trusted)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        failure: Exception = httpcore2.ConnectTimeout()
        for position, address in enumerate(addresses):
            share = share_of(end, len(addresses) - position)
            if share is not None and share <= 0:
                break
            try:
                stream = await self._inner.connect_tcp(address, port, share, None, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
                continue
            return await self._took(AsyncStream(stream))
        raise failure

    async def _took(self, stream: AsyncStream) -> AsyncStream:
        """The stream, if it is still wanted: it must not outlive its pool."""
        EXCHANGE.get().fresh = True
        if self._gate.closed:
            await stream.aclose()
            raise httpcore2.ConnectError("closed")
        return stream


class AsyncConnection(httpcore2.AsyncHTTPConnection):
    """`Connection` for one event loop."""

    def __init__(self, place: Place, gate: Gate, context: ssl.SSLContext | None, http2: bool) -> None:
        backend = AsyncDialler(gate, place.trusted)
        super().__init__(place, context, IDLE_SECONDS, http2=http2, network_backend=backend)

    def is_available(self) -> bool:
        """Never for a second request while there is one."""
        return self.is_idle() and super().is_available()

    def can_multiplex(self) -> bool:
        """Not even HTTP/2."""
        return False

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """The answer's head, and the body to come."""
        try:
            response = await super().handle_async_request(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again, as a fault of the server's where it is one
            await self.aclose()
            raise remote(error) from None
        assert isinstance(response.stream, AsyncIterable)
        return httpcore2.Response(
            response.status,
            headers=response.headers,
            content=_AsyncRest(self, response.stream),
            extensions=response.extensions,
        )


class _AsyncRest:
    """`_Rest` for one event loop."""

    def __init__(self, connection: AsyncConnection, stream: AsyncIterable[bytes]) -> None:
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
            raise remote(error) from None
        self._whole = True

    async def aclose(self) -> None:
        try:
            if hasattr(self._stream, "aclose"):
                await self._stream.aclose()
        finally:
            if not self._whole or has_more(self._connection):
                await self._connection.aclose()


class AsyncPool(httpcore2.AsyncConnectionPool):
    """Connections of one event loop."""

    def __init__(self, gate: Gate, tls: Callable[[], ssl.SSLContext], size: int, http2: bool) -> None:
        super().__init__(max_connections=size, keepalive_expiry=IDLE_SECONDS)
        self._gate, self._tls, self._h2 = gate, tls, http2

    def create_connection(self, origin: httpcore2.Origin) -> AsyncConnection:
        """A connection that is not yet open."""
        assert isinstance(origin, Place)
        context = self._tls() if origin.scheme == b"https" else None
        return AsyncConnection(origin, self._gate, context, self._h2 and context is not None)
