"""`Web`: requests to a server over HTTP, with its headers, credential and certificates."""

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
