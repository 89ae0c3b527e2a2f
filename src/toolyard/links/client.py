"""`GuardedClient`: the way out for every request to an address that this process did not choose itself.

It connects to public addresses and to what the operator has allowed, checked at the moment of connecting. Nothing of
the environment, no proxy, no cookie and no `.netrc` has a say. Credentials go to their own origin only; redirects are
followed within one origin, for GET and HEAD, which are also repeated if a kept connection turns out to be closed.
One deadline covers name lookup, connecting, TLS, sending and reading.
Failures are `CallError`s in our own words; none chains the library's exception, which holds the request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from toolyard.links.addresses import AddressRule
from toolyard.links.auth import Credential
from toolyard.links.lookup import system_addresses
from toolyard.links.per_loop import PerLoop
from toolyard.model.closing import Closing
from toolyard.model.errors import ConfigError, ToolyardError

if TYPE_CHECKING:
    import ssl

    from toolyard.links.async_pool import AsyncPool
    from toolyard.links.guard import Gate
    from toolyard.links.pool import Pool
    from toolyard.links.streaming import Flow
    from toolyard.links.swift import SwiftPool
    from toolyard.links.trip import Trip

MAX_BYTES = 8 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
MOST_HEADER_BYTES = 100 * 1024
"""More than that the HTTP library does not read."""
MAX_CONNECTIONS = 100
HARMLESS = frozenset({"GET", "HEAD"})

Certificate = str | tuple[str, str] | tuple[str, str, str]
"""A client certificate: one PEM file, or certificate and key, or these and the key's password."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One request. The URL is percent-encoded already; what is not URL syntax is refused."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    deadline: float | None = None
    """By `time.monotonic`; None means that only connecting is limited."""
    credential: Credential | None = None
    named: tuple[str, ...] = ()
    """`host` or `host:port`, spelled as in `AddressRule.of(...).hosts`, that the operator named for this call."""

    def __repr__(self) -> str:
        # URL, headers and body may hold secrets.
        return f"<Outgoing {self.method} {self.credential or ''}>"


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, whole and decoded; header names are in lower case, in the order they came, repeated if they were."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    url: str
    """Where it came from in the end, without the credential."""

    def header(self, name: str, default: str = "") -> str:
        """The first header of that name, in lower case."""
        return next((value for key, value in self.headers if key == name), default)


def _hush() -> None:
    """The libraries below log every header, credentials included, to whoever turns on debugging for everything."""
    import logging

    for name in ("hpack", "httpcore2"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


class GuardedClient(Closing):
    """Sends requests from threads and event loops; see the module for what it guards against.

    `verify` is True (the system's certificate authorities), the path of a file with others, which then are the only
    ones trusted, or False. `cert` is a client certificate. `pool` bounds the connections of all threads, and of each
    event loop. With `http2` that is spoken where a server offers it over TLS and the `http2` extra is installed.
    `resolve` turns a host and port into addresses.
    """

    def __init__(
        self,
        rule: AddressRule = AddressRule(),  # noqa: B008 - frozen
        *,
        verify: bool | str = True,
        cert: Certificate | None = None,
        max_bytes: int = MAX_BYTES,
        max_header_bytes: int = MAX_HEADER_BYTES,
        pool: int = MAX_CONNECTIONS,
        http2: bool = True,
        resolve: Callable[[str, int], Sequence[str]] = system_addresses,
    ) -> None:
        _hush()
        self.rule = rule
        self.max_bytes = _whole("max_bytes", max_bytes)
        self.max_header_bytes = _whole("max_header_bytes", max_header_bytes, MOST_HEADER_BYTES)
        self.closed = False
        self._verify = verify
        self._cert = cert
        self._size = _whole("pool", pool)
        self._http2 = http2
        self._resolve = resolve
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._swift_context: ssl.SSLContext | None = None
        self._gate: Gate | None = None
        self._pool: Pool | None = None
        self._pools: PerLoop[AsyncPool] = PerLoop(self._make_async_pool)
        self._swift: PerLoop[SwiftPool] = PerLoop(self._make_swift_pool)
        if isinstance(verify, str) or cert is not None:
            self._tls()  # a file that cannot be read is said so now, not with the first call

    def send(self, outgoing: Outgoing) -> Incoming:
        """Make the request from this thread and wait for the whole answer."""
        from toolyard.links.guard import EXCHANGE
        from toolyard.links.transport import DEADLINE
        from toolyard.links.trip import Trip

        pool = self._sync_pool()
        trip = Trip(self, outgoing)
        trip.left()
        if outgoing.credential is not None and trip.needs_credential:
            outgoing.credential.prepare(self, outgoing)
        deadline, exchange = DEADLINE.set(outgoing.deadline), EXCHANGE.set(trip.exchange)
        try:
            while (incoming := self._once(pool, trip)) is None:
                pass
            return incoming
        finally:
            EXCHANGE.reset(exchange)
            DEADLINE.reset(deadline)

    async def asend(self, outgoing: Outgoing) -> Incoming:
        """`send` for async code."""
        from toolyard.links.guard import EXCHANGE
        from toolyard.links.trip import Trip

        self._check_open()
        pool = await self._pools.here()
        trip = Trip(self, outgoing)
        trip.left()
        if outgoing.credential is not None and trip.needs_credential:
            await outgoing.credential.aprepare(self, outgoing)
        exchange = EXCHANGE.set(trip.exchange)
        try:
            while (incoming := await self._aonce(pool, trip)) is None:
                pass
            return incoming
        finally:
            EXCHANGE.reset(exchange)

    @asynccontextmanager
    async def astream(self, outgoing: Outgoing) -> AsyncGenerator[Flow, None]:
        """Make the request and give the answer as soon as its head is there; leaving hangs up on what is not read.

        The size of the body is the caller's to limit. The request's deadline, if it has one, ends the block too.
        """
        from toolyard.links.faults import late
        from toolyard.links.trip import Trip

        self._check_open()
        pool = await self._swift.here()
        trip = Trip(self, outgoing)
        trip.left()
        if outgoing.credential is not None and trip.needs_credential:
            await outgoing.credential.aprepare(self, outgoing)
        clock = asyncio.timeout(trip.left())
        try:
            async with clock, aclosing(self._answers(pool, trip)) as answers:
                async for flow in answers:
                    yield flow
        except TimeoutError:
            if not clock.expired():
                raise
            fault = late(trip.target.origin, trip.seconds(), trip.effect())
        else:
            return
        raise fault

    def close(self) -> None:
        """Hang up everywhere; pools of running loops are closed by their own loops, soon."""
        self._shut()
        self._pools.close()
        self._swift.close()

    async def aclose(self) -> None:
        """`close`, and this loop's own pool is closed when it returns."""
        self._shut()
        await self._pools.aclose()
        await self._swift.aclose()

    def __repr__(self) -> str:
        return f"<GuardedClient{' (closed)' if self.closed else ''}>"

    def _once(self, pool: Pool, trip: Trip) -> Incoming | None:
        from toolyard.links.faults import LIBRARY

        request = trip.request(trip.left())
        try:
            response = pool.handle_request(request)
            try:
                body = trip.body(response)
                for chunk in response.iter_stream():
                    body.add(chunk)
            finally:
                response.close()
            return trip.arrived(response, body)
        except LIBRARY as error:
            if trip.goes_on(error):
                return None
            fault = trip.fault(error)
            if fault is None:
                raise
        # Outside of the handler, so that the library's exception is not chained to it.
        raise fault

    async def _aonce(self, pool: AsyncPool, trip: Trip) -> Incoming | None:
        from toolyard.links.faults import LIBRARY

        left = trip.left()
        request = trip.request(left)
        try:
            async with asyncio.timeout(left):
                response = await pool.handle_async_request(request)
                try:
                    body = trip.body(response)
                    async with aclosing(response.aiter_stream()) as chunks:
                        async for chunk in chunks:
                            body.add(chunk)
                finally:
                    await response.aclose()
            return trip.arrived(response, body)
        except LIBRARY as error:
            if trip.goes_on(error):
                return None
            fault = trip.fault(error)
            if fault is None:
                raise
        raise fault

    async def _answers(self, pool: SwiftPool, trip: Trip) -> AsyncGenerator[Flow, None]:
        """The one answer in the end, closed after it was looked at."""
        from toolyard.links.faults import LIBRARY
        from toolyard.links.trip import CONNECT_SECONDS

        while True:
            response = None
            try:
                response = await pool.exchange(*trip.written(), trip.exchange, CONNECT_SECONDS)
                flow = trip.flow(response)
            except LIBRARY as error:
                goes_on = trip.goes_on(error)
                fault = None if goes_on else trip.fault(error)
                if fault is None and not goes_on:
                    raise
            else:
                fault, goes_on = None, flow is None
                if flow is not None:
                    yield flow
            finally:
                if response is not None:
                    await response.aclose()
            if fault is not None:
                raise fault
            if not goes_on:
                return

    def _sync_pool(self) -> Pool:
        pool = self._pool
        if pool is not None:
            return pool
        from toolyard.links.pool import Pool

        gate = self._network()
        with self._lock:
            self._check_open()
            if self._pool is None:
                self._pool = Pool(gate, self._tls, self._size, self._speaks_http2())
            return self._pool

    def _make_async_pool(self) -> AsyncPool:
        from toolyard.links.async_pool import AsyncPool

        return AsyncPool(self._network(), self._tls, self._size, self._speaks_http2())

    def _make_swift_pool(self) -> SwiftPool:
        from toolyard.links.swift import SwiftPool

        return SwiftPool(self._network(), self._swift_tls, self._size)

    def _swift_tls(self) -> ssl.SSLContext:
        """A context of its own: the library's offers other protocols than this one speaks."""
        if self._swift_context is None:
            self._swift_context = self._make_tls()
            self._swift_context.set_alpn_protocols(["http/1.1"])
        return self._swift_context

    def _network(self) -> Gate:
        from toolyard.links.guard import Gate

        with self._lock:
            self._check_open()
            if self._gate is None:
                self._gate = Gate(self.rule, self._resolve)
            return self._gate

    def _tls(self) -> ssl.SSLContext:
        """Reading the authorities takes a while, so it is done once, and not at all without TLS."""
        if self._context is None:
            self._context = self._make_tls()
        return self._context

    def _make_tls(self) -> ssl.SSLContext:
        from toolyard.links.transport import make_context

        try:
            context = make_context(self._verify)
        except OSError as error:
            raise ConfigError(f"verify={self._verify!r} holds no certificates that can be read: {error}") from None
        if self._cert is not None:
            _load(context, self._cert)
        return context

    def _speaks_http2(self) -> bool:
        from importlib.util import find_spec

        return self._http2 and find_spec("h2") is not None

    def _shut(self) -> None:
        with self._lock:
            self.closed = True
            pool, self._pool = self._pool, None
            if self._gate is not None:
                self._gate.closed = True
        if pool is not None:
            pool.close()

    def _check_open(self) -> None:
        if self.closed:
            raise ToolyardError("this GuardedClient is closed; make a new one")


def _load(context: ssl.SSLContext, cert: Certificate) -> None:
    parts: list[str | None] = [cert, None, None] if isinstance(cert, str) else [*cert, None]
    try:
        context.load_cert_chain(str(parts[0]), parts[1], parts[2] or _no_password)
    except OSError as error:
        raise ConfigError(f"cert={parts[0]!r} is no client certificate that can be read: {error}") from None


def _no_password() -> str:
    """Instead of asking at the terminal."""
    raise ConfigError("the key of the client certificate needs a password; give cert=(certificate, key, password)")


def _whole(name: str, value: object, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        limit = "" if most is None else f" and at most {most:,}"
        raise ConfigError(f"{name} must be a whole number above 0{limit}, not {value!r}")
    return value
