"""`HttpLink`: one HTTP server that the operator named, by its address, with what goes along with every request to it.

What goes wrong on the way is an `Unavailable` or a `CallTimeout` in our own words; its `effect` says whether the
request may have arrived. Headers, and with them secrets, are in no text and in no chained exception.
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
"""Bytes of one answer."""
MAX_CONNECTIONS = 256
_FOR_EVER = 1e8
_CONNECT_PART = 0.9
"""Of a request's time, in which a connection must be had."""
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "toolyard"}

_NO_HEADERS: Mapping[str, str] = {}
_log = logging.getLogger(__name__)


class HttpLink(Closing):
    """A `GuardedClient` for one server, which may be anywhere: the operator named it.

    `headers` go with every request. `verify` is True (the system's certificate authorities), the path of a file
    with others, or False. Credentials among the headers that would travel unencrypted to another machine are worth a
    warning in the log, once. Redirects are answers.
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
            _log.warning("%s is not encrypted: others on the network can read the API key; use https://", self.url)
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
        """Make a request and wait for the whole answer; `timeout` in place of the link's own limit.

        `path` is percent-encoded already and is put behind the link's own address.
        """
        seconds = self.timeout if timeout is None else timeout
        where = f"{path}?{urlencode(query)}" if query else path
        outgoing = self._make_outgoing(method, where, body, headers, seconds, time.monotonic() + seconds)
        try:
            return await self._client.asend(outgoing)
        except CallError as error:
            fault = _blame_link(error)
        # Outside of the handler, so that nothing is chained to it.
        raise fault

    send = link_loop.sync_twin(asend)

    def astream(
        self, path: str, *, headers: Mapping[str, str] = _NO_HEADERS
    ) -> AbstractAsyncContextManager[StreamedAnswer]:
        """`GET` something that has no end: only connecting is limited in time."""
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
        """Hang up everywhere; connections of running loops are closed by their own loops, soon."""
        self._client.close()

    async def aclose(self) -> None:
        """`close`, and this loop's own connections are closed when it returns."""
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"HttpLink({self.url!r})"

    def check_open(self) -> None:
        """Refuse to go on with one that was closed."""
        if self._client.closed:
            raise ToolyardError(f"the link to {self.url} is closed; make a new one")


def _blame_link(error: CallError) -> CallError:
    """The same failure as one of the link: behind it are many tools, of which none has failed."""
    if not isinstance(error, ToolFailed):
        return error
    fault = Unavailable(error.info.message)
    hint = None if error.info.hint is None else "ask for less, or allow more with max_bytes=..."
    fault.info = msgspec.structs.replace(error.info, code=fault.info.code, hint=hint)
    return fault
