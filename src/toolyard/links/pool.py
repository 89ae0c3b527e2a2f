"""`Pool`: the HTTP library's connections, to allowed addresses only.

TLS goes by the name, the connection by the address that was checked. Two requests share a connection only if the
operator trusts both equally, and never at the same time: one that hangs, is cut off or is cancelled takes its
connection with it and nothing else. That holds for HTTP/2 too, where the library has no deadline for a request that
waits for another's, and does not tell the server of one that was given up.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import httpcore2

from toolyard.links.guard import EXCHANGE, IDLE_SECONDS, Gate, Place, has_more, remote, share_of
from toolyard.links.transport import SocketOption, TimedStream, time_left


class Stream(TimedStream):
    """A connection that notes when a request begins to leave, and that another thread can end."""

    def __init__(self, inner: httpcore2.NetworkStream, line: Dialler) -> None:
        super().__init__(inner)
        self._line = line

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes."""
        data = super().read(max_bytes, timeout)
        EXCHANGE.get().count(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of the bytes."""
        EXCHANGE.get().sent = True
        super().write(buffer, timeout)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """The same, encrypted."""
        limit = time_left(timeout, httpcore2.ConnectTimeout)
        return self._line.took(Stream(self._inner.start_tls(ssl_context, server_hostname, limit), self._line))

    def hang_up(self) -> None:
        """End it for the thread that uses it; the socket itself stays that thread's to close.

        Closed from here, its number could be another connection's before that thread is done with it.
        """
        with suppress(OSError):  # ended already
            socket.socket.shutdown(self._inner.get_extra_info("socket"), socket.SHUT_RDWR)


class Dialler(httpcore2.NetworkBackend):
    """Opens one connection, if it is allowed."""

    def __init__(self, gate: Gate, trusted: bool) -> None:
        self._gate = gate
        self._trusted = trusted
        self._inner = httpcore2.SyncBackend()
        self.stream: Stream | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        """A connection to one of the host's addresses."""
        limit = time_left(timeout, httpcore2.ConnectTimeout)
        end = None if limit is None else time.monotonic() + limit
        addresses = self._gate.addresses(host, port, self._trusted, limit)
        failure: Exception = httpcore2.ConnectTimeout()
        for position, address in enumerate(addresses):
            share = share_of(end, len(addresses) - position)
            if share is not None and share <= 0:
                break
            try:
                stream = Stream(self._inner.connect_tcp(address, port, share, None, socket_options), self)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
                continue
            return self.took(stream)
        raise failure

    def took(self, stream: Stream) -> Stream:
        """The stream, if it is still wanted: it must not outlive its pool."""
        EXCHANGE.get().fresh = True
        self.stream = stream
        if self._gate.closed:
            stream.close()
            raise httpcore2.ConnectError("closed")
        return stream


class Connection(httpcore2.HTTPConnection):
    """Serves one exchange at a time and, after one that did not come to its end, no other."""

    def __init__(self, place: Place, gate: Gate, context: ssl.SSLContext | None, http2: bool) -> None:
        self._line = Dialler(gate, place.trusted)
        self._hung_up = False
        super().__init__(place, context, IDLE_SECONDS, http2=http2, network_backend=self._line)

    def is_available(self) -> bool:
        """Never for a second request while there is one."""
        return self.is_idle() and super().is_available()

    def can_multiplex(self) -> bool:
        """Not even HTTP/2."""
        return False

    def handle_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """The answer's head, and the body to come."""
        try:
            response = super().handle_request(request)
        except httpcore2.ConnectionNotAvailable:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again, as a fault of the server's where it is one
            self.drop()
            raise remote(error) from None
        assert isinstance(response.stream, Iterable)
        return httpcore2.Response(
            response.status,
            headers=response.headers,
            content=_Rest(self, response.stream),
            extensions=response.extensions,
        )

    def close(self) -> None:
        """Called by the pool, in any thread."""
        if self._line.stream is None or self.is_idle() or self.is_closed():
            self.drop()
        else:
            self._hung_up = True
            self._line.stream.hang_up()

    def drop(self) -> None:
        """Close it for good, in the thread that uses it."""
        super().close()

    def finished(self, whole: bool) -> None:
        """Its exchange is over; `whole` if nothing of it is left on the wire."""
        if not whole or self._hung_up or has_more(self):
            self.drop()


class _Rest:
    """A body that tells its connection whether it was read to the end."""

    def __init__(self, connection: Connection, stream: Iterable[bytes]) -> None:
        self._connection = connection
        self._stream = stream
        self._whole = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except Exception as error:  # noqa: BLE001 - raised again
            raise remote(error) from None
        self._whole = True

    def close(self) -> None:
        if hasattr(self._stream, "close"):
            self._stream.close()
        self._connection.finished(self._whole)


class Pool(httpcore2.ConnectionPool):
    """Connections that many threads share."""

    def __init__(self, gate: Gate, tls: Callable[[], ssl.SSLContext], size: int, http2: bool) -> None:
        super().__init__(max_connections=size, keepalive_expiry=IDLE_SECONDS)
        self._gate, self._tls, self._h2 = gate, tls, http2

    def create_connection(self, origin: httpcore2.Origin) -> Connection:
        """A connection that is not yet open."""
        assert isinstance(origin, Place)
        context = self._tls() if origin.scheme == b"https" else None
        return Connection(origin, self._gate, context, self._h2 and context is not None)
