"""`HttpLink`: one HTTP server that this process talks to, from threads and from event loops.

What goes wrong on the way is an `Unavailable` or a `CallTimeout` in our own words; its `effect` says whether the
request may have arrived. Headers, and with them secrets, are in no text and in no chained exception.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import msgspec

from toolyard.links.per_loop import PerLoop
from toolyard.model.closing import Closing
from toolyard.model.errors import CallError, CallTimeout, ConfigError, Effect, ToolyardError, Unavailable
from toolyard.parsing import parse_json

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer."""
MAX_DEPTH = 256
"""Levels of an answer: a value as deep as a tool may return, and what is around it."""
CONNECT_SECONDS = 10.0
_EARLIER = 0.9
"""Part of a request's time in which a connection must be had: a limit of its own shows that nothing was sent."""
_FOR_EVER = 1e8
_HARMLESS = frozenset({"GET", "HEAD"})
_WHITESPACE = frozenset(" \t\r\n")
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})

_log = logging.getLogger(__name__)


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `path` is percent-encoded already and is put behind the link's own address."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    """Seconds for the whole exchange; None means the link's own limit."""


class HttpAnswer(msgspec.Struct, frozen=True):
    """One answer, whole; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, what: str = "answer") -> Any:
        """The body as strict JSON; `MalformedSource` if it is not."""
        return parse_json(self.body, what=what, max_depth=MAX_DEPTH)


class HttpLink(Closing):
    """Connections to one server, kept and reused.

    `headers` go with every request. `verify` is True (the system's certificate authorities), the path of a file
    with others, or False. Credentials among the headers that would travel unencrypted to another machine are worth a
    warning in the log, once. Sync requests share one pool between all threads. Async ones have a pool for each event
    loop, which is closed with the link, or at the latest when its loop is shut down.
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
        self.url = read_address(url)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < _FOR_EVER:
            raise ConfigError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
            raise ConfigError(f"max_bytes must be a whole number above 0, not {max_bytes!r}")
        self.timeout = timeout
        self.max_bytes = max_bytes
        self._headers = dict(headers or {})
        if _CREDENTIALS.intersection(name.lower() for name in self._headers) and _is_exposed(self.url):
            _log.warning("%s is not encrypted: whoever is on the way can read the API key; use https://", self.url)
        self._verify = verify
        self._lock = threading.Lock()
        self._closed = False
        self._context: ssl.SSLContext | None = None
        self._client: httpx2.Client | None = None
        self._clients: PerLoop[httpx2.AsyncClient] = PerLoop(self._make_async_client)

    def send(self, request: HttpRequest) -> HttpAnswer:
        """Make the request from this thread and wait for the whole answer."""
        import httpx2

        from toolyard.links.transport import DEADLINE

        client = self._sync_client()
        seconds = self._seconds(request)
        mark = DEADLINE.set(time.monotonic() + seconds)
        try:
            with client.stream(**self._options(request, seconds)) as response:
                self._check_head(request, response)
                return self._answer(response, self._collect(request, response))
        except (httpx2.HTTPError, RuntimeError) as error:  # the latter when the link is closed meanwhile
            fault = self._fault(request, error, seconds)
        finally:
            DEADLINE.reset(mark)
        # Outside of the handler, so that the library's exception, which holds the request, is not chained to it.
        raise fault

    async def asend(self, request: HttpRequest) -> HttpAnswer:
        """`send` for async code."""
        import httpx2

        client = await self._clients.here()
        seconds = self._seconds(request)
        try:
            async with asyncio.timeout(seconds), client.stream(**self._options(request, seconds)) as response:
                self._check_head(request, response)
                chunks = _Chunks(self, request)
                async for chunk in response.aiter_raw():
                    chunks.add(chunk)
                return self._answer(response, chunks.joined())
        except (httpx2.HTTPError, RuntimeError, TimeoutError) as error:
            fault = self._fault(request, error, seconds)
        raise fault

    def close(self) -> None:
        """Hang up everywhere; pools of running loops are closed by their own loops, soon."""
        self._shut()
        self._clients.close()

    async def aclose(self) -> None:
        """`close`, and this loop's own pool is closed when it returns."""
        self._shut()
        await self._clients.aclose()

    def __repr__(self) -> str:
        return f"HttpLink({self.url!r})"

    def _shut(self) -> None:
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _seconds(self, request: HttpRequest) -> float:
        return self.timeout if request.timeout is None else request.timeout

    def _options(self, request: HttpRequest, seconds: float) -> dict[str, Any]:
        import httpx2

        query = f"?{urlencode(request.query)}" if request.query else ""
        return {
            "method": request.method,
            "url": f"{self.url}{request.path}{query}",
            "content": request.body,
            "headers": {**self._headers, **request.headers},
            "timeout": httpx2.Timeout(seconds, connect=_to_connect(seconds), pool=seconds * _EARLIER),
        }

    def _check_head(self, request: HttpRequest, response: httpx2.Response) -> None:
        declared = response.headers.get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > self.max_bytes:
            raise self.too_large(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Unavailable(
                f"{self.url} sent a compressed answer unasked",
                retryable=False,
                effect=_effect(request),
            )

    def _collect(self, request: HttpRequest, response: httpx2.Response) -> bytes:
        chunks = _Chunks(self, request)
        for chunk in response.iter_raw():
            chunks.add(chunk)
        return chunks.joined()

    def _answer(self, response: httpx2.Response, body: bytes) -> HttpAnswer:
        return HttpAnswer(response.status_code, dict(response.headers), body)

    def too_large(self, request: HttpRequest) -> Unavailable:
        """The answer is over the limit; asking again would give the same."""
        return Unavailable(
            f"the answer of {self.url} is larger than {self.max_bytes:,} bytes",
            hint="ask for less, or allow more with max_bytes=...",
            retryable=False,
            effect=_effect(request),
        )

    def _sync_client(self) -> httpx2.Client:
        client = self._client
        if client is not None:
            return client
        with self._lock:
            self._check_open()
            if self._client is None:
                from toolyard.links.transport import make_client

                self._client = make_client(self._tls())
            return self._client

    def _make_async_client(self) -> httpx2.AsyncClient:
        from toolyard.links.transport import make_async_client

        self._check_open()
        return make_async_client(self._tls())

    def _tls(self) -> ssl.SSLContext | None:
        """Reading the authorities takes a while, so it is done once, and not at all without TLS."""
        if self._context is None and self.url.startswith("https:"):
            from toolyard.links.transport import make_context

            try:
                self._context = make_context(self._verify)
            except OSError as error:
                raise ConfigError(f"verify={self._verify!r} holds no certificates that can be read: {error}") from None
        return self._context

    def _fault(self, request: HttpRequest, error: Exception, seconds: float) -> ToolyardError:
        """The library's exception in our words; what is not the library's is raised as it is."""
        import httpx2

        if self._closed:
            return Unavailable(
                f"the link to {self.url} was closed while this was under way", retryable=False, effect=_effect(request)
            )
        if isinstance(error, RuntimeError) and not isinstance(error, httpx2.StreamError):
            raise error
        return _fault(self, request, error, seconds)

    def _check_open(self) -> None:
        if self._closed:
            raise ToolyardError(f"the link to {self.url} is closed; make a new one")


class _Chunks:
    """An answer as it comes, refused once it is too large."""

    def __init__(self, link: HttpLink, request: HttpRequest) -> None:
        self._link = link
        self._request = request
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._link.max_bytes:
            raise self._link.too_large(self._request)
        self._parts.append(chunk)

    def joined(self) -> bytes:
        return b"".join(self._parts)


def read_address(url: object) -> str:
    """The address in one spelling, without a slash at its end; `ConfigError` says what is wrong with it."""
    if not isinstance(url, str) or any(char in _WHITESPACE for char in url):
        raise ConfigError("a server's address is text such as 'http://127.0.0.1:8000'")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("the server's address is no URL; write one such as 'http://127.0.0.1:8000'") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("the server's address must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        # Shown in errors and in logs; credentials in it would be too.
        raise ConfigError("the server's address may not hold a user or password; give api_key=... instead")
    if parts.query or parts.fragment:
        raise ConfigError("the server's address ends with its path; remove what follows '?' or '#'")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def _is_exposed(url: str) -> bool:
    """True if requests leave this machine, and are readable when they do."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "http" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


def _to_connect(seconds: float) -> float:
    return min(seconds * _EARLIER, CONNECT_SECONDS)


def _effect(request: HttpRequest) -> Effect:
    return "none" if request.method in _HARMLESS else "unknown"


def _fault(link: HttpLink, request: HttpRequest, error: Exception, seconds: float) -> CallError:
    """The library's exception in our words."""
    import httpx2

    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        limit = _to_connect(seconds) if isinstance(error, httpx2.ConnectTimeout) else seconds * _EARLIER
        return Unavailable(f"no connection to {link.url} within {limit:.3g} s")
    if isinstance(error, httpx2.ConnectError):
        # Refused, no such host, a certificate that is not trusted: the system's own words, from before anything
        # of the request was sent.
        return Unavailable(f"cannot connect to {link.url}: {error}", retryable="certificate" not in str(error).lower())
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return CallTimeout(f"{link.url} did not answer within {seconds:.3g} s", effect=_effect(request))
    if isinstance(error, httpx2.LocalProtocolError):
        return Unavailable(f"the request to {link.url} cannot be sent as HTTP", retryable=False)
    if isinstance(error, httpx2.RemoteProtocolError) and not _cut_short(error):
        return Unavailable(f"{link.url} does not answer in HTTP", retryable=False, effect=_effect(request))
    if isinstance(error, httpx2.ProtocolError | httpx2.NetworkError):
        return Unavailable(f"lost the connection to {link.url} before the answer was whole", effect=_effect(request))
    return Unavailable(f"the answer of {link.url} could not be read", retryable=False, effect=_effect(request))


def _cut_short(error: Exception) -> bool:
    """The library has one exception for an answer that ends too early and for one that is no HTTP."""
    text = str(error)
    return "disconnected" in text or "closed connection" in text
