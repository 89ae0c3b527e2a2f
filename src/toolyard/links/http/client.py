"""`GuardedClient`: sends every request to an address that this process did not choose itself.

It connects only to public addresses and to those the operator has allowed, checked at the moment of connecting. Proxy
settings, cookies and `.netrc` are ignored. Credentials are sent to their own origin only. GET and HEAD follow redirects
within one origin and are repeated if a kept connection turns out to be closed. One deadline covers name lookup,
connecting, TLS, sending and reading. Failures are `CallError`s that never chain the library's exceptions, since those
hold the request.

`HttpLink` sends requests to one HTTP server that the operator configured, with common headers. Transport failures are
`Unavailable` or `CallTimeout`; their `effect` tells whether the request may have arrived. Headers, which may hold
secrets, appear in no message and no chained exception.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from toolyard.links.http.addresses import AddressRule, read_base_url, read_url, with_port
from toolyard.links.http.messages import Incoming, Outgoing
from toolyard.loop.home import PerLoop, link_loop
from toolyard.model.bases import Closing
from toolyard.model.errors import CallError, ConfigError, ToolFailed, ToolyardError, Unavailable

if TYPE_CHECKING:
    import ssl

    import httpcore2

    from toolyard.links.http.backend import AddressGuard, GuardedPool
    from toolyard.links.http.exchange import RedirectingRequest, StreamedAnswer


MAX_BYTES = 8 * 1024 * 1024
MAX_CONNECTIONS = 100

Certificate = str | tuple[str, ...]
"""A client certificate: a PEM file, or a tuple of certificate, key and optionally the key's password."""


def _silence_library_logs() -> None:
    """Raise the log level of libraries that log all headers, credentials included, at debug level."""
    for name in ("hpack", "httpcore2"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


class GuardedClient(Closing):
    """Sends requests from threads and event loops; the module docstring lists what it guards against.

    `verify` is True (the system's certificate authorities), the path of a CA file that replaces them, or False. `cert`
    is a client certificate. `pool` limits the connections of all threads together, and of each event loop. `http2`
    enables HTTP/2 over TLS where the server offers it and the extra `http2` is installed. `resolve` maps host and port
    to addresses in place of the system's resolver.
    """

    def __init__(
        self,
        rule: AddressRule = AddressRule(),  # noqa: B008 - frozen
        *,
        verify: bool | str = True,
        cert: Certificate | None = None,
        max_bytes: int = MAX_BYTES,
        pool: int = MAX_CONNECTIONS,
        http2: bool = True,
        resolve: Callable[[str, int], Sequence[str]] | None = None,
    ) -> None:
        _silence_library_logs()
        self.rule = rule
        self.max_bytes = _read_count("max_bytes", max_bytes)
        self.closed = False
        self._verify = verify
        self._cert = cert
        self._size = _read_count("pool", pool)
        self._http2 = http2
        self._resolve = resolve
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._guard: AddressGuard | None = None
        self._pools: PerLoop[GuardedPool] = PerLoop(self._make_pool)
        if isinstance(verify, str) or cert is not None:
            self._tls()  # report an unreadable file now rather than with the first request

    async def asend(self, outgoing: Outgoing) -> Incoming:
        """Send the request and read the whole response.

        From a thread, use `send`: its connections live on the shared event loop of `links`.
        """
        async with self.astream(outgoing) as answer:
            body = await answer.read_all(self.max_bytes)
            return Incoming(status=answer.status, headers=answer.headers, body=body, url=answer.url)

    send = link_loop.sync_twin(asend)

    @asynccontextmanager
    async def astream(self, outgoing: Outgoing) -> AsyncGenerator[StreamedAnswer, None]:
        """Send the request and yield the response once its head has arrived; leaving the block discards the rest.

        The caller limits the size of the body. The request's deadline, if any, also ends the block.
        """
        begun = time.monotonic()  # before the import, which is part of the time that the first request takes
        from toolyard.links.http.exchange import RedirectingRequest, explain_error

        self._check_open()
        pool = await self._pools.get()
        request = RedirectingRequest(pool.guard, outgoing, begun)
        request.seconds_left()
        if (credential := request.credential) is not None:
            await credential.prepare(self.asend, outgoing)
        clock = asyncio.timeout(request.seconds_left())
        try:
            async with clock:
                response, answer = await self._read_head(pool, request)
                try:
                    yield answer
                finally:
                    await response.aclose()
        except TimeoutError as error:
            fault = explain_error(error, request) if clock.expired() else None
            if fault is None:
                raise
        else:
            return
        # Raised outside the handler, so that nothing is chained to it.
        raise fault

    def close(self) -> None:
        """Close all connections; pools of running event loops are closed by those loops shortly afterwards."""
        self._mark_closed()
        self._pools.close()

    async def aclose(self) -> None:
        """`close`, and wait until the pool of the current event loop is closed."""
        self._mark_closed()
        await self._pools.aclose()

    def __repr__(self) -> str:
        return f"<GuardedClient{' (closed)' if self.closed else ''}>"

    async def _read_head(
        self, pool: GuardedPool, request: RedirectingRequest
    ) -> tuple[httpcore2.Response, StreamedAnswer]:
        """Send the request and follow redirects; return the final response with its head read."""
        from toolyard.links.http.exchange import LIBRARY_ERRORS, explain_error

        while True:
            response = answer = fault = None
            try:
                response = await pool.handle_async_request(request.write_request())
                answer = request.open_answer(response)
            except LIBRARY_ERRORS as error:
                if not request.retries_after(error):
                    fault = explain_error(error, request)
                    if fault is None:
                        raise
            finally:
                if answer is None and response is not None:
                    await response.aclose()
            if fault is not None:
                raise fault
            if response is not None and answer is not None:
                return response, answer

    def _make_pool(self) -> GuardedPool:
        from importlib.util import find_spec

        from toolyard.links.http.backend import AddressGuard, GuardedPool, system_addresses

        http2 = self._http2 and find_spec("h2") is not None
        with self._lock:
            self._check_open()
            if self._guard is None:
                self._guard = AddressGuard(self.rule, self._resolve or system_addresses)
        return GuardedPool(self._guard, self._tls, self._size, http2)

    def _tls(self) -> ssl.SSLContext:
        """The SSL context, created on first use: loading the certificate authorities is slow."""
        if self._context is None:
            import ssl

            try:
                if isinstance(self._verify, str):
                    context = ssl.create_default_context(cafile=self._verify)
                else:
                    import httpx2

                    context = httpx2.create_ssl_context(verify=self._verify, trust_env=False)
            except OSError as error:
                raise ConfigError(f"verify={self._verify!r} holds no certificates that can be read: {error}") from None
            if self._cert is not None:
                _load_certificate(context, self._cert)
            self._context = context
        return self._context

    def _mark_closed(self) -> None:
        with self._lock:
            self.closed = True
            if self._guard is not None:
                self._guard.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise ToolyardError("this GuardedClient is closed; make a new one")


def _load_certificate(context: ssl.SSLContext, cert: Certificate) -> None:
    file, key, password, *_ = (cert, None, None) if isinstance(cert, str) else (*cert, None, None)
    try:
        context.load_cert_chain(str(file), key, password or _refuse_password)
    except OSError as error:
        raise ConfigError(f"cert={file!r} is no client certificate that can be read: {error}") from None


def _refuse_password() -> str:
    """Password callback that raises, where OpenSSL would prompt at the terminal."""
    raise ConfigError("the key of the client certificate needs a password; give cert=(certificate, key, password)")


def _read_count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number above 0, not {value!r}")
    return value


MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of one response."""
_LINK_CONNECTIONS = 256
_FOR_EVER = 1e8
_CONNECT_PART = 0.9
"""The fraction of a request's time within which it must be connected."""
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "toolyard"}

_NO_HEADERS: Mapping[str, str] = {}
_log = logging.getLogger("toolyard.links.http.link")  # filters of users may name it


class HttpLink(Closing):
    """A `GuardedClient` for one server; private addresses are allowed since the operator configured it.

    `headers` are sent with every request. `verify` is True (the system's certificate authorities), the path of a CA
    file, or False. If credentials among the headers would travel unencrypted to another machine, a warning is logged
    once. Redirects are returned, not followed.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        max_bytes: int = MAX_ANSWER,
        verify: bool | str = True,
    ) -> None:
        self.url = read_base_url(url, "the server's address")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < _FOR_EVER:
            raise ConfigError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        self.timeout = timeout
        self._headers = {**_HEADERS, **{name.lower(): value for name, value in (headers or {}).items()}}
        target = read_url(self.url)
        if _CREDENTIALS.intersection(self._headers) and target.is_exposed:
            _log.warning("%s is not encrypted: anyone on the network path can read the API key; use https://", self.url)
        self._named = (with_port(target.host, target.port),)
        self._client = GuardedClient(verify=verify, max_bytes=max_bytes, pool=_LINK_CONNECTIONS, http2=False)

    async def asend(
        self,
        method: str,
        path: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        body: bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the request
    ) -> Incoming:
        """Send a request and read the whole response; `timeout` overrides the link's own.

        `path` must be percent-encoded already; it is appended to the link's URL.
        """
        seconds = self.timeout if timeout is None else timeout
        where = f"{path}?{urlencode(query)}" if query else path
        outgoing = self._make_outgoing(method, where, body, headers, seconds, time.monotonic() + seconds)
        try:
            return await self._client.asend(outgoing)
        except CallError as error:
            fault = _as_link_error(error)
        # Raised outside the handler, so that nothing is chained to it.
        raise fault

    send = link_loop.sync_twin(asend)

    def astream(
        self, path: str, *, headers: Mapping[str, str] = _NO_HEADERS
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        """`GET` an endless stream: only the time for connecting is limited."""
        return self._client.astream(self._make_outgoing("GET", path, None, headers, self.timeout, None))

    def _make_outgoing(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float,
        deadline: float | None,
    ) -> Outgoing:
        self.check_open()
        return Outgoing(
            method=method,
            url=f"{self.url}{path}",
            headers=tuple({**self._headers, **{name.lower(): value for name, value in headers.items()}}.items()),
            body=body,
            deadline=deadline,
            connect_seconds=seconds * _CONNECT_PART,
            named=self._named,
            once=True,
        )

    def close(self) -> None:
        """Close all connections; those of running event loops are closed by those loops shortly afterwards."""
        self._client.close()

    async def aclose(self) -> None:
        """`close`, and wait until the connections of the current event loop are closed."""
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"HttpLink({self.url!r})"

    def check_open(self) -> None:
        """Raise `ToolyardError` if the link is closed."""
        if self._client.closed:
            raise ToolyardError(f"the link to {self.url} is closed; make a new one")


def _as_link_error(error: CallError) -> CallError:
    """Turn `ToolFailed` into `Unavailable`: the link serves many tools, and none of them has failed."""
    if not isinstance(error, ToolFailed):
        return error
    fault = Unavailable(error.info.message)
    hint = None if error.info.hint is None else "ask for less, or allow more with max_bytes=..."
    fault.info = msgspec.structs.replace(error.info, code=fault.info.code, hint=hint)
    return fault
