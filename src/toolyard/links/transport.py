"""The HTTP client library, put together so that it does what it is told and nothing more.

No redirects, no cookies, nothing from the environment, and one deadline for a whole exchange. Only this file
imports the library; it is imported when the first request is made.
"""

from __future__ import annotations

import socket
import ssl
import time
import typing
from collections.abc import Iterable
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpcore2
import httpx2

DEADLINE: ContextVar[float | None] = ContextVar("toolyard_http_deadline", default=None)
"""When, by the monotonic clock, the exchange that this thread is in must be over."""

MAX_CONNECTIONS = 256
MAX_IDLE = 64
IDLE_SECONDS = 5.0

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class TimedStream(httpcore2.NetworkStream):
    """A connection on which the library's limit for one step never outlasts the limit for the whole.

    A sync exchange happens in the caller's thread from beginning to end, so its deadline can be found there.
    """

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes."""
        return self._inner.read(max_bytes, time_left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of the bytes, the deadline looked at before each step: a peer may take them in drips."""
        sock: socket.socket = self._inner.get_extra_info("socket")
        view = memoryview(buffer)
        try:
            while view:
                sock.settimeout(time_left(timeout, httpcore2.WriteTimeout))
                view = view[sock.send(view) :]
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        """Hang up."""
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        """The same, encrypted."""
        limit = time_left(timeout, httpcore2.ConnectTimeout)
        return TimedStream(self._inner.start_tls(ssl_context, server_hostname, limit))

    def get_extra_info(self, info: str) -> typing.Any:
        """What the library asks about its sockets."""
        return self._inner.get_extra_info(info)


class TimedBackend(httpcore2.NetworkBackend):
    """Opens connections whose steps know the deadline of the whole."""

    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.NetworkStream:
        """A connection to host and port."""
        limit = time_left(timeout, httpcore2.ConnectTimeout)
        return TimedStream(self._inner.connect_tcp(host, port, limit, local_address, socket_options))


class Transport(httpx2.HTTPTransport):
    """The library's transport over a pool of our own making."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=TimedBackend(),
        )


class AsyncTransport(httpx2.AsyncHTTPTransport):
    """`Transport` for one event loop; there the deadline is the task's."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
        )


def make_client(context: ssl.SSLContext | None) -> httpx2.Client:
    """A client that many threads may share."""
    return httpx2.Client(
        transport=Transport(context),
        headers=_HEADERS,
        cookies=_no_cookies(),
        trust_env=False,
        follow_redirects=False,
    )


def make_async_client(context: ssl.SSLContext | None) -> httpx2.AsyncClient:
    """A client for the tasks of one loop."""
    return httpx2.AsyncClient(
        transport=AsyncTransport(context),
        headers=_HEADERS,
        cookies=_no_cookies(),
        trust_env=False,
        follow_redirects=False,
    )


def make_context(verify: bool | str) -> ssl.SSLContext:
    """How certificates are judged: by the system's authorities, by those in a file, or not at all."""
    if isinstance(verify, str):
        return ssl.create_default_context(cafile=verify)
    return httpx2.create_ssl_context(verify=verify, trust_env=False)


_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "toolyard"}
"""A compressed answer could be small on the wire and huge here, so none is asked for."""


def _no_cookies() -> CookieJar:
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


def time_left(timeout: float | None, late: type[Exception]) -> float | None:
    """The limit for one step, which never outlasts the deadline; `late` is raised if that has passed."""
    deadline = DEADLINE.get()
    if deadline is None:
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise late("the deadline of the exchange has passed")
    return left if timeout is None else min(timeout, left)
