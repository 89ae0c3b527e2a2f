"""`HttpLink`: requests to one HTTP server that the operator configured, with common headers.

Transport failures are `Unavailable` or `CallTimeout`; their `effect` tells whether the request may have arrived.
Headers, which may hold secrets, appear in no message and no chained exception.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from toolyard.links.http.addresses import with_port
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Incoming, Outgoing
from toolyard.links.http.url import read_base_url, read_url
from toolyard.loop.home import link_loop
from toolyard.model.bases import Closing
from toolyard.model.errors import CallError, ConfigError, ToolFailed, ToolyardError, Unavailable

if TYPE_CHECKING:
    from toolyard.links.http.exchange import StreamedAnswer

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of one response."""
MAX_CONNECTIONS = 256
_FOR_EVER = 1e8
_CONNECT_PART = 0.9
"""The fraction of a request's time within which it must be connected."""
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "toolyard"}

_NO_HEADERS: Mapping[str, str] = {}
_log = logging.getLogger(__name__)


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
        self._client = GuardedClient(verify=verify, max_bytes=max_bytes, pool=MAX_CONNECTIONS, http2=False)

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
