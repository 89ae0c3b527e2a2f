"""`Web`: requests to a server over HTTP, with its headers, credential and certificates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from toolyard.links.http.addresses import read_url, with_port
from toolyard.links.http.auth import ClientCredentials
from toolyard.links.http.bodies import EventReader, ServerSentEvent
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import RETRYABLE, Outgoing, Send, retry_after
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import RequestRefused, make_rpc_error, make_status_error
from toolyard.links.mcp.framing import UnreadableError
from toolyard.links.mcp.options import read_credential
from toolyard.links.mcp.peer import LinkLimits, Peer
from toolyard.links.mcp.wire import Lost, McpWire
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError

if TYPE_CHECKING:
    from toolyard.links.http.exchange import StreamedAnswer


_MAX_ERROR_BYTES = 64 * 1024
_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_MOVED = frozenset({307, 308})
_MAX_MOVES = 3
Renewal = Literal["ask", "quietly", "never"]
"""How a credential that was rejected is renewed: by a person if necessary, without one, or not."""


@runtime_checkable
class ChallengeHandler(Protocol):
    """A credential that can react to a rejection, however long that takes."""

    async def challenge(self, send: Send, url: str, status: int, headers: tuple[tuple[str, str], ...]) -> bool:
        """Obtain what the server requires, from a person if necessary; True."""

    async def renew(self, send: Send) -> bool:
        """Obtain it without a person; False if that is not possible."""


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
        self._challenge: asyncio.Task[bool] | None = None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        headers: tuple[tuple[str, str], ...],
        body: bytes | None = None,
        deadline: float | None = None,
        *,
        renew: Renewal = "ask",
    ) -> AsyncGenerator[StreamedAnswer, None]:
        """The response to a request; sent again if the credential was renewed, or the address has moved within the
        origin. Only the protocol's own headers override those of the operator. To renew a credential, a person may have
        to log in, which the deadline does not limit; `renew` is "quietly" for a request that nobody waits for.
        """
        is_renewed, moves = False, 0
        while True:
            outgoing = Outgoing(
                method=method,
                url=url,
                headers=(*self._headers, *headers),
                body=body,
                deadline=deadline,
                credential=self.credential,
                named=self._named,
            )
            async with self.client.astream(outgoing) as answer:
                target = self._find_new_address(answer)
                if target is not None and moves < _MAX_MOVES:
                    url, moves = target, moves + 1
                elif renew != "never" and not is_renewed and await self._renew_credential(answer, renew == "ask"):
                    is_renewed = True
                else:
                    yield answer
                    return

    async def _renew_credential(self, answer: StreamedAnswer, may_ask: bool) -> bool:
        """Whether to repeat a rejected request, because the credential was renewed meanwhile."""
        credential = self.credential
        if answer.status == HTTPStatus.UNAUTHORIZED and isinstance(credential, ClientCredentials):
            return True
        if answer.status not in _REFUSALS or not isinstance(credential, ChallengeHandler):
            return False
        if answer.status == HTTPStatus.FORBIDDEN and "insufficient_scope" not in answer.header("www-authenticate"):
            return False
        if self._challenge is None or self._challenge.done():
            # It may wait for a user longer than this request may take; the next request then uses the result.
            send = self.client.asend
            asking = credential.challenge(send, answer.url, answer.status, answer.headers) if may_ask else None
            self._challenge = asyncio.get_running_loop().create_task(asking or credential.renew(send))
        is_renewed = await asyncio.shield(self._challenge)
        # It may have been the quiet renewal of another request that ended without one.
        return is_renewed or (may_ask and await self._renew_credential(answer, may_ask))

    def _find_new_address(self, answer: StreamedAnswer) -> str | None:
        """The target of a redirect within the same origin; None if the response is not such a redirect."""
        location = answer.header("location")
        if answer.status not in _MOVED or not location:
            return None
        here = read_url(answer.url)
        there = here.redirected(location)
        return there.url if there.origin == here.origin else None

    async def aclose(self) -> None:
        """Cancel a pending login and close the client."""
        if self._challenge is not None:
            self._challenge.cancel()
        await self.client.aclose()


class WebWire(McpWire):
    """The common part of both HTTP transports. A limited number of messages is posted in the background."""

    accept: tuple[tuple[str, str], ...]
    """The headers of every request, besides those of the session."""
    post_seconds: float
    """Time limit for messages without a response."""

    def __init__(self, web: Web, url: str, peer: Peer, lost: Lost) -> None:
        super().__init__(peer, lost)
        self._web = web
        self._posts = 0
        self.url = url
        self.session: str | None = None
        self.version: str | None = None
        """The version of the old protocol, once agreed on."""

    @property
    def post_url(self) -> str:
        """Where messages are posted to."""
        return self.url

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of every request."""
        headers = self.accept if self.session is None else (*self.accept, ("mcp-session-id", self.session))
        return headers if self.version is None else (*headers, ("mcp-protocol-version", self.version))

    def send_soon(self, data: bytes) -> None:
        """Send a message that has no response."""
        if self._posts < self.peer.limits.max_requests:
            self._posts += 1
            self.peer.start(self._post_quietly(data))

    async def finish_handshake(self, version: str) -> None:
        """Send the notification that ends a handshake."""
        self.version = version
        await self._post_message(framing.INITIALIZED)

    async def _post_quietly(self, data: bytes) -> None:
        try:
            with suppress(CallError):
                await self._post_message(data, renew="quietly")
        finally:
            self._posts -= 1

    async def _post_message(self, data: bytes, deadline: float | None = None, renew: Renewal = "ask") -> None:
        """Send one message whose response, if any, arrives elsewhere."""
        deadline = deadline or asyncio.get_running_loop().time() + self.post_seconds
        async with self._web.open("POST", self.post_url, self.headers(), data, deadline, renew=renew) as answer:
            if not answer.is_success:
                raise (await self._read_failure(answer))[0]

    async def _read_events(
        self, answer: StreamedAnswer, reader: EventReader
    ) -> AsyncGenerator[list[ServerSentEvent], None]:
        """The events in each piece of a stream. A server that sends too many messages is slowed down."""
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                yield reader.feed(chunk)
                if pause := self.peer.seconds_to_pause():
                    await asyncio.sleep(pause)

    async def _read_failure(self, answer: StreamedAnswer) -> tuple[CallError, int]:
        """The error for a failure status, with the server's reason, and the code of its JSON-RPC error, if any."""
        name, redactor = self.peer.name, self.peer.redactor
        kind = answer.header("content-type").lower()
        said: Any = None
        with suppress(UnreadableError, CallError):
            if kind.startswith("application/json"):
                found = framing.read_messages(await answer.read_all(_MAX_ERROR_BYTES), self.peer.limits.max_depth)
                said = found[0].error if found else None
            elif kind.startswith("text/plain"):
                said = (await answer.read_all(_MAX_ERROR_BYTES)).decode(errors="replace")
        fields = said if isinstance(said, dict) else {"message": said}
        text, code = fields.get("message"), fields.get("code")
        text = text if isinstance(text, str) else ""
        if 300 <= answer.status < 400:
            text = f"to {answer.header('location').partition('?')[0]}"
        if not isinstance(code, int):
            fields, code = {}, 0  # an error, but not a JSON-RPC one
        error = None if not fields or answer.status in _REFUSALS else make_rpc_error(name, said, redactor)
        if error is None or (isinstance(error, RequestRefused) and answer.status in RETRYABLE):
            pause = retry_after(answer.header("retry-after"), time.time())
            return make_status_error(name, answer.status, text, redactor, pause), code
        details = {"status": answer.status, **error.info.details}
        error.info = msgspec.structs.replace(error.info, details=details)
        return error, code
