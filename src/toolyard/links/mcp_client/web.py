"""`Web`: how requests to a server at an address are made: its headers, its credential, its certificates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from toolyard.links.addresses import with_port
from toolyard.links.auth import ApiKey, Basic, Bearer, ClientCredentials, Credential
from toolyard.links.client import Certificate, GuardedClient, Outgoing
from toolyard.links.mcp_client import messages
from toolyard.links.mcp_client.faults import Redactor, refused, status_error
from toolyard.links.mcp_client.limits import LinkLimits
from toolyard.links.mcp_client.messages import UnreadableError
from toolyard.links.urls import read_url
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, ConfigError

if TYPE_CHECKING:
    from toolyard.links.streaming import Flow

_SAID_BYTES = 64 * 1024
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_MOVED = frozenset({307, 308})


@runtime_checkable
class Challenged(Protocol):
    """A credential that can do something about being refused, however long that takes."""

    async def challenge(
        self, client: GuardedClient, url: str, status: int, headers: tuple[tuple[str, str], ...]
    ) -> None:
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

    async def answers_to(self, flow: Flow) -> bool:
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
            work = credential.challenge(self.client, flow.url, flow.status, flow.headers)
            self._challenge = asyncio.get_running_loop().create_task(work)
        await asyncio.shield(self._challenge)
        return True

    async def failure(self, flow: Flow, name: str, redactor: Redactor) -> tuple[CallError, int, str]:
        """What a status that is no success says: the error, its JSON-RPC code and text if the answer has them."""
        said: Any = None
        if flow.header("content-type").lower().startswith("application/json"):
            try:
                found = messages.read(await flow.whole(_SAID_BYTES), self.limits.max_depth)
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

    def moved(self, flow: Flow) -> str | None:
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


def read_credential(server: McpServer, origin: str) -> tuple[Credential | None, tuple[str, ...]]:
    """The server's credential, and the hosts that it is fetched from; `ConfigError` says what it lacks."""
    if not server.auth:
        return None, ()
    fields: dict[str, Any] = dict(server.auth)
    kind = fields.get("type")
    try:
        match kind:
            case "bearer":
                return Bearer(origin, fields["token"]), ()
            case "basic":
                return Basic(origin, fields["user"], fields["password"]), ()
            case "api_key":
                return ApiKey(origin, fields.get("in", "header"), fields["name"], fields["value"]), ()
            case "oauth2":
                url = fields["token_url"]
                target = read_url(url)
                credential = ClientCredentials(
                    origin,
                    url,
                    fields["client_id"],
                    fields["client_secret"],
                    fields.get("scopes") or (),
                    in_body=fields.get("in_body") in (True, "true"),
                )
                return credential, (target.authority, with_port(target.host, target.port))
            case "oauth":
                from toolyard.links.mcp import AuthorizationCode

                return AuthorizationCode.read(server, origin, fields), tuple(fields.get("hosts") or ())
    except KeyError as error:
        raise ConfigError(f"auth of {server.name}: {kind} needs {error.args[0]!r}") from None
    raise ConfigError(f"auth of {server.name}: 'type' is one of bearer, basic, api_key, oauth2, oauth, not {kind!r}")


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
