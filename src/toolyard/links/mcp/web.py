"""`Web`: requests to a server over HTTP, with its headers, credential and certificates.

`EventReader` parses the `text/event-stream` responses of such a server.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from toolyard.links.http.addresses import with_port
from toolyard.links.http.auth import AUTH_KINDS as HTTP_AUTH_KINDS, AuthKind, ClientCredentials, token_hosts
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Credential, Outgoing, Send
from toolyard.links.http.url import read_url
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import refused, status_error
from toolyard.links.mcp.framing import UnreadableError
from toolyard.links.mcp.peer import LinkLimits, Lost, Peer
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, ConfigError
from toolyard.parsing.lines import EDGE, SkippedLine

if TYPE_CHECKING:
    from toolyard.links.http.exchange import StreamedAnswer


_SAID_BYTES = 64 * 1024
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_MOVED = frozenset({307, 308})


@runtime_checkable
class Challenged(Protocol):
    """A credential that can react to a rejection, however long that takes."""

    async def challenge(self, send: Send, url: str, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        """Obtain what the server requires."""


class Web:
    """The HTTP client for one server, kept across connections."""

    def __init__(self, server: McpServer, limits: LinkLimits) -> None:
        url = server.url or ""
        target = read_url(url)
        self.credential, hosts = read_credential(server, target.origin)
        self._named = (target.authority, with_port(target.host, target.port), *hosts)
        self._headers = server.headers
        self.client = GuardedClient(
            verify=(server.ca or True) if server.verify else False,
            cert=server.cert or None,
            max_bytes=limits.max_message_bytes,
            pool=limits.max_connections,
        )
        self._challenge: asyncio.Task[None] | None = None

    def outgoing(
        self,
        method: str,
        url: str,
        headers: tuple[tuple[str, str], ...],
        body: bytes | None = None,
        deadline: float | None = None,
    ) -> Outgoing:
        """A request; only the protocol's own headers override those of the operator."""
        return Outgoing(
            method=method,
            url=url,
            headers=(*self._headers, *headers) if self._headers else headers,
            body=body,
            deadline=deadline,
            credential=self.credential,
            named=self._named,
        )

    async def answers_to(self, flow: StreamedAnswer) -> bool:
        """Whether to repeat a rejected request, because the credential was renewed meanwhile."""
        credential = self.credential
        if flow.status == _UNAUTHORIZED and isinstance(credential, ClientCredentials):
            return True
        if flow.status not in (_UNAUTHORIZED, _FORBIDDEN) or not isinstance(credential, Challenged):
            return False
        if flow.status == _FORBIDDEN and "insufficient_scope" not in flow.header("www-authenticate"):
            return False
        if self._challenge is None or self._challenge.done():
            # It may wait for a user longer than this request may take; the next request then uses the result.
            work = credential.challenge(self.client.asend, flow.url, flow.status, flow.headers)
            self._challenge = asyncio.get_running_loop().create_task(work)
        await asyncio.shield(self._challenge)
        return True

    def moved(self, flow: StreamedAnswer) -> str | None:
        """The target of a redirect within the same origin; None if the response is not such a redirect."""
        location = flow.header("location")
        if flow.status not in _MOVED or not location:
            return None
        here = read_url(flow.url)
        there = here.redirected(location)
        return there.url if there.origin == here.origin else None

    async def aclose(self) -> None:
        """Cancel a pending login and close the client."""
        if self._challenge is not None:
            self._challenge.cancel()
        await self.client.aclose()


class WebWire(ABC):
    """The common part of both HTTP transports. A limited number of messages is posted in the background."""

    def __init__(self, web: Web, url: str, peer: Peer, lost: Lost) -> None:
        self._web = web
        self._peer = peer
        self._lost = lost
        self._posts = 0
        self.url = url
        self.version: str | None = None
        """The version of the old protocol, once agreed on."""

    def has_read(self) -> bool:
        """True: an unread request shows as an error or a timeout."""
        return True

    def tell(self, data: bytes) -> None:
        """Send a message that has no response."""
        if self._posts < self._peer.limits.max_requests:
            self._posts += 1
            self._peer.start(self._send_quietly(data))

    async def post(self, data: bytes, version: str) -> None:
        """Send the notification that ends a handshake."""
        self.version = version
        await self._post_message(data)

    async def _send_quietly(self, data: bytes) -> None:
        try:
            with suppress(CallError):
                await self._post_message(data)
        finally:
            self._posts -= 1

    @abstractmethod
    async def _post_message(self, data: bytes, deadline: float | None = None) -> None:
        """Send one message whose response, if any, arrives elsewhere."""

    async def _failure(self, flow: StreamedAnswer) -> tuple[CallError, int, str]:
        """The error for a failure status, with the code and text of its JSON-RPC error if there is one."""
        name, redactor = self._peer.name, self._peer.redactor
        said: Any = None
        if flow.header("content-type").lower().startswith("application/json"):
            with suppress(UnreadableError, CallError):
                found = framing.read(await flow.read_all(_SAID_BYTES), self._peer.limits.max_depth)
                said = found[0].error if found else None
        fields = said if isinstance(said, dict) else {}
        text, code = fields.get("message"), fields.get("code")
        text = text if isinstance(text, str) else ""
        if not isinstance(code, int):
            fields, code = {}, 0  # an error, but not a JSON-RPC one
        if not fields or flow.status in (_UNAUTHORIZED, _FORBIDDEN):
            return status_error(name, flow.status, text, redactor), code, text
        error = refused(name, said, redactor)
        details = {"status": flow.status, **error.info.details}
        error.info = msgspec.structs.replace(error.info, details=details)
        return error, code, text


def _make_oauth(origin: str, fields: Mapping[str, Any]) -> Credential:
    from toolyard.links.mcp.authorization import AuthorizationCode

    return AuthorizationCode(origin, fields)


AUTH_KINDS: dict[str, AuthKind] = {
    **HTTP_AUTH_KINDS,
    "oauth": AuthKind(
        (), ("client_id", "client_secret", "client_name", "scopes", "redirect_uri", "store", "hosts"), _make_oauth
    ),
}
"""The kinds of HTTP authentication, and the login of a user as in MCP."""


def read_credential(server: McpServer, origin: str) -> tuple[Credential | None, tuple[str, ...]]:
    """The server's credential, and the hosts that it is obtained from; `ConfigError` says what is missing."""
    if not server.auth:
        return None, ()
    fields: dict[str, Any] = {**dict(server.auth), "url": server.url or ""}
    name = fields.get("type")
    kind = AUTH_KINDS.get(str(name))
    if kind is None:
        raise ConfigError(f"auth of {server.name}: 'type' is one of {', '.join(AUTH_KINDS)}, not {name!r}")
    try:
        return kind.make(origin, fields), (*token_hosts(fields), *(fields.get("hosts") or ()))
    except KeyError as error:
        raise ConfigError(f"auth of {server.name}: {name} needs {error.args[0]!r}") from None


MAX_FIELD = 8192
"""Maximum bytes of an event's name, id or retry; longer ones are ignored."""
MAX_LINES = 100_000
"""Maximum lines of one event's data."""
MAX_RETRY = 3600.0
_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct):
    """One event, with its raw data."""

    data: bytes
    name: str = "message"
    too_long: SkippedLine | None = None
    """What is known of the data if it exceeds the limit; `data` is then empty."""


class EventReader:
    """Parses events, and keeps the id and the delay for resuming the stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.restart()
        self.last_id = ""
        """The last id in the stream, also of events without data; empty if there was none."""
        self.retry: float | None = None
        """Seconds that the server asks to wait before the stream is resumed."""

    def restart(self) -> None:
        """Prepare for another stream: discard the unfinished event of the last one."""
        self._line = bytearray()
        self._after_cr = False
        self._begun = False
        self._data: list[bytes] = []
        self._size = 0
        self._name = "message"
        self._is_cut = False
        self._skipped: SkippedLine | None = None

    @property
    def is_over(self) -> bool:
        """Whether the event that is being received already exceeds the limit."""
        return self._is_cut or self._skipped is not None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that these bytes complete."""
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        found: list[ServerSentEvent] = []
        for piece in data.splitlines(keepends=True):
            if piece[-1] not in b"\r\n":
                self._grow_line(piece)
                break
            text = piece.rstrip(b"\r\n")
            if self._line:
                self._grow_line(text)
                text = bytes(self._line)
                self._line.clear()
            self._take_line(text, found)
        self._after_cr = data[-1:] == b"\r"
        return found

    def _grow_line(self, piece: bytes) -> None:
        """Buffer the beginning of a line; of an oversized one, keep only both ends."""
        self._line += piece
        if len(self._line) > self._limit + MAX_FIELD:
            self._is_cut = True
            # The name of the field remains, so that what follows is still read as the same line.
            del self._line[2 * EDGE : -2 * EDGE]

    def _take_line(self, line: bytes, found: list[ServerSentEvent]) -> None:
        is_cut, self._is_cut = self._is_cut, False
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch_event(found)
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._add_data(value, is_cut)
        elif is_cut or len(value) > MAX_FIELD:
            return
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry = min(int(value[:12]) / 1000, MAX_RETRY)

    def _add_data(self, value: bytes, is_cut: bool) -> None:
        self._size += len(value) + 1
        if self._skipped is not None:
            self._skipped.tail = value[-EDGE:]
        elif is_cut or self._size > self._limit + 1 or len(self._data) > MAX_LINES:
            self._skipped = SkippedLine((self._data[0] if self._data else value)[:EDGE], value[-EDGE:])
            self._data.clear()
        else:
            self._data.append(value)

    def _dispatch_event(self, found: list[ServerSentEvent]) -> None:
        """Finish an event; without data there is none, although its id counts."""
        if self._skipped is not None:
            found.append(ServerSentEvent(b"", self._name, self._skipped))
        elif self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            found.append(ServerSentEvent(data, self._name))
        self._data.clear()
        self._size = 0
        self._name = "message"
        self._skipped = None
