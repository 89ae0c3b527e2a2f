"""`Web`: how requests to a server at an address are made: its headers, its credential, its certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from toolyard.links.http.addresses import with_port
from toolyard.links.http.auth import AUTH_KINDS as HTTP_AUTH_KINDS, AuthKind, token_hosts
from toolyard.links.http.client import Certificate, GuardedClient
from toolyard.links.http.messages import AsyncSend, Credential, Outgoing
from toolyard.links.http.oauth import ClientCredentials
from toolyard.links.http.url import read_url
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import ServerRedactor, refused, status_error
from toolyard.links.mcp.framing import UnreadableError
from toolyard.links.mcp.limits import LinkLimits
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
    """A credential that can do something about being refused, however long that takes."""

    async def challenge(self, send: AsyncSend, url: str, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        """Get what the server asks for."""


class Web:
    """The way to one server over HTTP, kept from one connection to the next."""

    def __init__(self, server: McpServer, limits: LinkLimits) -> None:
        url = server.url or ""
        target = read_url(url)
        self.server = server
        self.limits = limits
        self.credential, hosts = read_credential(server, target.origin)
        self._named = (target.authority, with_port(target.host, target.port), *hosts)
        self._headers = server.headers
        self.client = GuardedClient(
            verify=(server.ca or True) if server.verify else False,
            cert=_certificate(server.cert),
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
        """A request; what the operator set is not overruled by anything but the protocol's own headers."""
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
        """Whether it is worth asking again after a refusal: the credential was renewed meanwhile."""
        credential = self.credential
        if flow.status == _UNAUTHORIZED and isinstance(credential, ClientCredentials):
            return True
        if flow.status not in (_UNAUTHORIZED, _FORBIDDEN) or not isinstance(credential, Challenged):
            return False
        if flow.status == _FORBIDDEN and "insufficient_scope" not in flow.header("www-authenticate"):
            return False
        if self._challenge is None or self._challenge.done():
            # A person may be asked, who takes longer than this request may: the next one then finds it done.
            work = credential.challenge(self.client.asend, flow.url, flow.status, flow.headers)
            self._challenge = asyncio.get_running_loop().create_task(work)
        await asyncio.shield(self._challenge)
        return True

    async def failure(self, flow: StreamedAnswer, name: str, redactor: ServerRedactor) -> tuple[CallError, int, str]:
        """What a status that is no success says: the error, its JSON-RPC code and text if the answer has them."""
        said: Any = None
        if flow.header("content-type").lower().startswith("application/json"):
            try:
                found = framing.read(await flow.read_all(_SAID_BYTES), self.limits.max_depth)
                said = found[0].error if found else None
            except (UnreadableError, CallError):
                said = None
        fields = said if isinstance(said, dict) else {}
        text, code = fields.get("message"), fields.get("code")
        text = text if isinstance(text, str) else ""
        if not isinstance(code, int):
            fields, code = {}, 0  # an error, but not of this protocol
        if not fields or flow.status in (_UNAUTHORIZED, _FORBIDDEN):
            return status_error(name, flow.status, text, redactor), code, text
        error = refused(name, said, redactor)
        details = {"status": flow.status, **error.info.details}
        error.info = msgspec.structs.replace(error.info, details=details)
        return error, code, text

    def moved(self, flow: StreamedAnswer) -> str | None:
        """Where a request is to be made again, within the same origin; None if the answer is no such redirect."""
        location = flow.header("location")
        if flow.status not in _MOVED or not location:
            return None
        here = read_url(flow.url)
        there = here.redirected(location)
        return there.url if there.origin == here.origin else None

    async def aclose(self) -> None:
        """Hang up."""
        if self._challenge is not None:
            self._challenge.cancel()
        await self.client.aclose()


def _make_oauth(origin: str, fields: Mapping[str, Any]) -> Credential:
    from toolyard.links.mcp.authorization import AuthorizationCode

    return AuthorizationCode.read(origin, fields)


AUTH_KINDS: dict[str, AuthKind] = {
    **HTTP_AUTH_KINDS,
    "oauth": AuthKind(
        (), ("client_id", "client_secret", "client_name", "scopes", "redirect_uri", "store", "hosts"), _make_oauth
    ),
}
"""The kinds of every HTTP service, and a person who logs in, as MCP has it."""


def read_credential(server: McpServer, origin: str) -> tuple[Credential | None, tuple[str, ...]]:
    """The server's credential, and the hosts that it is fetched from; `ConfigError` says what it lacks."""
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


def _certificate(parts: tuple[str, ...]) -> Certificate | None:
    match parts:
        case ():
            return None
        case (one,):
            return one
        case (one, two):
            return (one, two)
        case (one, two, three):
            return (one, two, three)
    raise ConfigError("cert is a certificate, or certificate and key, or these and the key's password")
