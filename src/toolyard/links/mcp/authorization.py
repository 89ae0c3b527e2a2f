"""OAuth for MCP servers that require a user to log in: the authorization code flow of the official SDK.

This is the only module that imports the SDK, which comes with `pip install toolyard[mcp]`. The SDK determines which
requests to make; they are sent through `GuardedClient` like all others, so an authorization server named by a server is
only reached if it is public or on a host that the operator allowed. `LOGIN` sends the user to the login page and
receives the result; `TokenFile` stores tokens across processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from pydantic import ValidationError

from toolyard.links.http.addresses import Target, read_url
from toolyard.links.http.messages import Credential, Headers, Outgoing, Send, set_header
from toolyard.loop.home import home_loop
from toolyard.model.errors import CallError, CallTimeout, ConfigError, Denied, MalformedSource, Unavailable
from toolyard.parsing import parse_json
from toolyard.parsing.files import lock_file, replace_file
from toolyard.plugins import missing_extra
from toolyard.words.redactor import Redactor

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken


_LONGEST = 16 * 1024
_PAGE = b"<!doctype html><title>toolyard</title><p>%s You can close this page."
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class LoginAnswer(msgspec.Struct, frozen=True):
    """The parameters of the redirect from the authorization server."""

    code: str
    state: str | None = None
    issuer: str | None = None

    def __repr__(self) -> str:
        return "<LoginAnswer>"


class LoopbackLogin:
    """Prints the login URL, opens a browser if there is a desktop, and waits for the redirect on a local port."""

    async def show(self, url: str) -> None:
        """Show the login URL to the user."""
        sys.stderr.write(f"toolyard: to go on, log in at\n  {url}\n")
        sys.stderr.flush()
        if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            import webbrowser

            await asyncio.to_thread(webbrowser.open, url)

    async def log_in(self, url: str, redirect: str, seconds: float) -> LoginAnswer:
        """Wait for the first valid request to the redirect URI and return its parameters; other requests get 404."""
        parts = urlsplit(redirect)
        if parts.hostname not in _LOOPBACK or parts.scheme != "http":
            raise Denied(f"{redirect} is no address on this machine; set redirect_uri to one, or use another login")
        answer: asyncio.Future[LoginAnswer] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _serve(reader, writer, parts.path or "/", answer)

        host = "127.0.0.1" if parts.hostname == "localhost" else str(parts.hostname)
        try:
            server = await asyncio.start_server(serve, host, parts.port or 80, limit=_LONGEST)
        except OSError as error:
            raise Unavailable(f"cannot wait for the login at {redirect}: {error.strerror}") from None
        try:
            async with asyncio.timeout(seconds):
                await self.show(url)
                return await answer
        except TimeoutError:
            raise CallTimeout(f"no login within {seconds:.0f} s", effect="none") from None
        finally:
            server.close()


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, answer: asyncio.Future[LoginAnswer]
) -> None:
    try:
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        writer.close()
        return
    target = head.split(b" ", 2)[1].decode("latin-1") if head.startswith(b"GET ") else ""
    asked = urlsplit(target)
    fields = {name: values[0] for name, values in parse_qs(asked.query).items()}
    if asked.path != path or not fields.keys() & {"code", "error"} or answer.done():
        status, text = b"404 Not Found", b"There is nothing here."
    elif "code" in fields:
        status, text = b"200 OK", b"You are logged in."
        answer.set_result(LoginAnswer(fields["code"], fields.get("state"), fields.get("iss")))
    else:
        status, text = b"200 OK", b"You are not logged in."
        answer.set_exception(Denied(f"the login was refused: {fields['error'][:100]!r}"))
    page = _PAGE % text
    head = b"HTTP/1.1 %s\r\ncontent-type: text/html\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    writer.write(head % (status, len(page)) + page)
    writer.close()


LOGIN = LoopbackLogin()
"""How users log in."""

_OTHERS = 0o077


class TokenFile:
    """The entry of one server in a token file that several may share; without a path it is kept in memory."""

    def __init__(self, path: str | None, key: str) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._key = key
        entry = self._read_file().get(key)
        self._entry: dict[str, Any] = dict(entry) if isinstance(entry, dict) else {}

    @property
    def tokens(self) -> dict[str, Any] | None:
        """The tokens from the authorization server."""
        return self._read_part("tokens")

    @property
    def client(self) -> dict[str, Any] | None:
        """The client registration at the authorization server."""
        return self._read_part("client")

    def save(self, **parts: dict[str, Any]) -> None:
        """Store these parts, replacing the file atomically; errors are raised as `CallError`."""
        self._entry |= parts
        if self._path is None:
            return
        try:
            with lock_file(self._path):
                # Other processes may have stored their entries since.
                content = {**self._read_file(), self._key: self._entry}
                replace_file(self._path, msgspec.json.encode(content))
        except (OSError, ConfigError) as error:
            cannot = f"the token store {self._path} cannot be written"
            reason = f"{cannot}: {error.strerror}" if isinstance(error, OSError) else str(error)
            hint = "let the store of auth be a file that this process may change"
            raise Unavailable(reason, retryable=False, hint=hint) from None

    def __repr__(self) -> str:
        return f"<TokenFile {self._path or 'in memory'}>"

    def _read_part(self, name: str) -> dict[str, Any] | None:
        part = self._entry.get(name)
        return part if isinstance(part, dict) else None

    def _read_file(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & _OTHERS:
                    raise ConfigError(f"{self._path} holds tokens and can be read by others; chmod 600 it first")
                value = parse_json(file.read(), what="token store")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"the token store {self._path} cannot be read: {error.strerror}") from None
        except MalformedSource:
            raise ConfigError(f"the token store {self._path} is not one; move it away to begin a new one") from None
        return value if isinstance(value, dict) else {}


REDIRECT = "http://127.0.0.1:8976/callback"
SECONDS = 600.0
"""Time limit for the user to log in."""
_REQUEST_SECONDS = 30.0
_PAST = 1.0
_NOT_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_SHOWN = 300


class AuthorizationCode(Credential):
    """OAuth tokens granted by a user. Requested when the server demands them, refreshed on expiry, stored in a file."""

    def __init__(self, origin: str, fields: Mapping[str, Any]) -> None:
        """`fields` are the server's `auth` options, with its `url`."""
        super().__init__(origin)
        self._url: str = fields["url"]
        target = read_url(self._url)
        self._named = (target.authority, f"{target.authority}:{target.port}", *_read_words(fields.get("hosts")))
        self._redirect: str = fields.get("redirect_uri") or REDIRECT
        self._file = TokenFile(fields.get("store") or None, self._url.partition("?")[0])
        self._client_secret: str | None = fields.get("client_secret") or None
        self._renewed_for: str | None = None
        self._login_url = ""
        try:
            self._provider = self._make_provider(fields)
        except ValidationError as error:
            raise ConfigError(f"auth: {error.errors()[0]['loc'][0]} is not valid") from None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The current tokens and the client secret."""
        tokens = self._provider.context.current_tokens
        info = self._provider.context.client_info
        found = (
            None if tokens is None else tokens.access_token,
            None if tokens is None else tokens.refresh_token,
            None if info is None else info.client_secret,
            self._client_secret,
        )
        return tuple(dict.fromkeys(secret for secret in found if secret))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the Authorization header if there is a token."""
        tokens = self._provider.context.current_tokens
        if tokens is not None:
            set_header(headers, "authorization", f"Bearer {tokens.access_token}")
        return target

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:
        """Load the stored tokens, and refresh them if they have expired."""
        context = self._provider.context
        if context.current_tokens is not None and context.is_token_valid():
            return
        if context.current_tokens is None and self._file.tokens is None:
            return  # the server's challenge will start the login
        await self._drive_flow(send, None)

    async def challenge(self, send: Send, url: str, status: int, headers: tuple[tuple[str, str], ...]) -> bool:
        """Refresh the token after a rejection, or have the user log in."""
        import httpx2

        if status == httpx2.codes.FORBIDDEN or not await self.renew(send):
            await self._drive_flow(send, httpx2.Response(status, headers=list(headers)))
        return True

    async def renew(self, send: Send) -> bool:
        """Refresh the token; False if there is none that can be refreshed, or it was refreshed in vain."""
        context = self._provider.context
        token = None if context.current_tokens is None else context.current_tokens.access_token
        if not context.can_refresh_token() or token == self._renewed_for:
            return False
        context.token_expiry_time = _PAST
        await self._drive_flow(send, None)
        if context.current_tokens is None:
            return False
        self._renewed_for = context.current_tokens.access_token
        return True

    async def _drive_flow(self, send: Send, refusal: httpx2.Response | None) -> None:
        """Run the SDK's flow. The flow's own request is not sent here; `refusal` is its response."""
        import httpx2
        from mcp.client.auth import OAuthFlowError

        request = httpx2.Request("POST", self._url)
        flow: AsyncGenerator[httpx2.Request, httpx2.Response] = self._provider.async_auth_flow(request)
        fault: Exception
        try:
            asked = await anext(flow)
            while True:
                if asked is request:
                    response, refusal = refusal or httpx2.Response(httpx2.codes.OK), None
                else:
                    response = await self._fetch_request(send, asked)
                response.request = asked
                asked = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValueError) as error:
            fault = error
        finally:
            await flow.aclose()
        text = Redactor(self.secrets).text(" ".join(str(fault).split()))
        raise Denied(f"authorization for {self.origin} failed: {text[:_SHOWN] or type(fault).__name__}") from None

    async def _fetch_request(self, send: Send, asked: httpx2.Request) -> httpx2.Response:
        import httpx2

        headers = tuple((name, value) for name, value in asked.headers.items() if name.lower() not in _NOT_OURS)
        outgoing = Outgoing(
            method=asked.method,
            url=str(asked.url),
            headers=headers,
            body=asked.content or None,
            deadline=time.monotonic() + _REQUEST_SECONDS,
            named=self._named,
        )
        try:
            incoming = await send(outgoing)
        except CallError as error:
            # The SDK probes possible metadata URLs; a failed probe means that there is no metadata.
            if asked.method != "GET" or isinstance(error, Denied):
                raise
            return httpx2.Response(httpx2.codes.NOT_FOUND)
        kept = [(name, value) for name, value in incoming.headers if name not in ("content-encoding", "content-length")]
        return httpx2.Response(incoming.status, headers=kept, content=incoming.body)

    def _make_provider(self, fields: Mapping[str, Any]) -> OAuthClientProvider:
        try:
            from mcp.client.auth import OAuthClientProvider
            from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
        except ImportError:
            raise missing_extra("mcp", "auth of type oauth", "mcp") from None
        logger = logging.getLogger("mcp.client.auth")
        if logger.level == logging.NOTSET:
            # It would log server responses of failed exchanges, which `_drive_flow` reports without secrets.
            logger.setLevel(logging.CRITICAL + 1)
        options: dict[str, Any] = {
            "client_name": fields.get("client_name") or "toolyard",
            "redirect_uris": [self._redirect],
            "scope": " ".join(_read_words(fields.get("scopes"))) or None,
        }
        fixed = None
        if fields.get("client_id"):
            how = "client_secret_post" if fields.get("in_body") in (True, "true") else "client_secret_basic"
            method = how if self._client_secret else "none"
            secret = {"client_secret": self._client_secret} if self._client_secret else {}
            fixed = OAuthClientInformationFull.model_validate(
                {**options, "client_id": fields["client_id"], "token_endpoint_auth_method": method, **secret}
            )
        storage = _Storage(self._file, fixed)
        provider = OAuthClientProvider(
            self._url,
            OAuthClientMetadata.model_validate({key: value for key, value in options.items() if value}),
            storage,
            self._show_login,
            self._wait_login,
        )
        storage.provider = provider
        return provider

    async def _show_login(self, url: str) -> None:
        # Shown later, when the redirect can be received, since it may come at once.
        self._login_url = url

    async def _wait_login(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        # Waiting for the user must not happen on the loop of links.
        answer = await home_loop.arun(LOGIN.log_in(self._login_url, self._redirect, SECONDS))
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)


def _read_words(value: str | Sequence[str] | None) -> Sequence[str]:
    return value.split() if isinstance(value, str) else value or ()


class _Storage:
    """Adapts a `TokenFile` to the SDK's storage interface."""

    def __init__(self, file: TokenFile, fixed: OAuthClientInformationFull | None) -> None:
        self._file = file
        self._fixed = fixed
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        stored = self._file.tokens
        if stored is None:
            return None
        tokens = OAuthToken.model_validate(stored)
        expires = stored.get("expires_at")
        if self.provider is not None and isinstance(expires, int | float):
            self.provider.context.token_expiry_time = float(expires)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        stored = tokens.model_dump(mode="json", exclude_none=True)
        if tokens.expires_in is not None:
            stored["expires_at"] = time.time() + tokens.expires_in
        self._file.save(tokens=stored)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        if self._fixed is not None:
            return self._fixed
        stored = self._file.client
        return None if stored is None else OAuthClientInformationFull.model_validate(stored)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._file.save(client=client_info.model_dump(mode="json", exclude_none=True))
