"""Credentials, each bound to one origin, and the table of their kinds."""

from __future__ import annotations

import base64
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote, quote_plus, urlencode

import msgspec

from toolyard.links.http.addresses import Blocked, Target, read_url, with_port
from toolyard.links.http.messages import Credential, Headers, Incoming, Outgoing, Send, set_header
from toolyard.model.errors import CallError, CallTimeout, ConfigError, MalformedSource, Unavailable
from toolyard.parsing import parse_json
from toolyard.schema.common_options import HTTP_TOKEN

_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_COOKIE = re.compile(r"[!#-+\x2d-:<-\[\]-~]*")


class Bearer(Credential):
    """A token in the `Authorization` header."""

    def __init__(self, origin: str, token: str) -> None:
        super().__init__(origin)
        self._value = check_field(token, "the token")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self._value,)

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header."""
        set_header(headers, "authorization", f"Bearer {self._value}")
        return target


class Basic(Credential):
    """A user and password in the `Authorization` header."""

    def __init__(self, origin: str, user: str, password: str) -> None:
        super().__init__(origin)
        if ":" in user:
            raise ConfigError("the user of a basic credential may not hold a colon")
        self._secret = password or user
        self._value = base64.b64encode(f"{user}:{password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password (or the user if it is empty), and the encoded pair."""
        return (self._secret, self._value)

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header."""
        set_header(headers, "authorization", f"Basic {self._value}")
        return target


class ApiKeyCredential(Credential):
    """A key in a named header, query parameter or cookie."""

    def __init__(self, origin: str, where: Literal["header", "query", "cookie"], name: str, value: str) -> None:
        super().__init__(origin)
        if where not in ("header", "query", "cookie"):
            raise ConfigError(f"an API key goes into the header, query or cookie, not {where!r}")
        if not name or (where != "query" and not HTTP_TOKEN.fullmatch(name)):
            raise ConfigError(f"{name!r} is no name for an API key in the {where}")
        self._where = where
        self._name = name
        self._value = value if where == "query" else check_field(value, "the API key")
        if where == "cookie" and not _COOKIE.fullmatch(value):
            raise ConfigError("the API key holds characters that no cookie may hold")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, plain and percent-encoded."""
        return tuple(dict.fromkeys((self._value, quote(self._value, safe=""))))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header, query parameter or cookie; other cookies are kept."""
        if self._where == "query":
            return target.with_query(self._name, self._value)
        if self._where == "header":
            set_header(headers, self._name, self._value)
            return target
        others = [value for name, value in headers if name.lower() == "cookie"]
        set_header(headers, "cookie", "; ".join([*others, f"{self._name}={self._value}"]))
        return target

    def strip(self, target: Target) -> Target:
        """Remove the key from the query, where a redirect may have repeated it."""
        return target.without_query(self._name) if self._where == "query" else target


class CombinedCredential(Credential):
    """Several credentials of one origin, all attached to each request."""

    def __init__(self, *parts: Credential) -> None:
        if len({part.origin for part in parts}) != 1:
            raise ConfigError("credentials that go together are for one and the same origin")
        super().__init__(parts[0].origin)
        self._parts = parts

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of all parts."""
        return tuple(secret for part in self._parts for secret in part.secrets)

    def attach(self, target: Target, headers: Headers) -> Target:
        """Attach all parts."""
        for part in self._parts:
            target = part.attach(target, headers)
        return target

    def strip(self, target: Target) -> Target:
        """Remove what any part added."""
        for part in self._parts:
            target = part.strip(target)
        return target

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:
        """Prepare all parts."""
        for part in self._parts:
            await part.prepare(send, outgoing)

    def note_refusal(self) -> None:
        """Notify all parts."""
        for part in self._parts:
            part.note_refusal()

    def __repr__(self) -> str:
        return f"<CombinedCredential {', '.join(map(repr, self._parts))}>"


DEFAULT_TOKEN_SECONDS = 300.0
"""Assumed lifetime of a token, in seconds, if the server gives none."""
_EARLIER_SECONDS = 30.0
_EARLIER_PART = 0.1
_LONGEST = 7 * 24 * 3600.0
_ACCESS_TOKEN = re.compile(r"[!-~]{1,8192}")
_CODE = re.compile(r"[a-z_]{1,40}")

_RECENT = 8

Outcome = CallError | None
"""The result of a token fetch for the requests that waited; None means to check for a token again."""


class TokenUnavailable(Unavailable):
    """The token server is unavailable; says nothing about the server the token is for."""


class ClientCredentials(Credential):
    """OAuth 2 client credentials: fetches a token from `token_url` and reuses it until it expires.

    The secret is sent to `token_url`, so that URL must come from the operator, never from a specification. With
    `in_body`, client id and secret are sent in the form, for servers that do not accept basic authorization. Thread
    safe; concurrent requests on any number of event loops share one fetch.
    """

    def __init__(
        self,
        origin: str,
        token_url: str,
        client_id: str,
        client_secret: str,
        scopes: Sequence[str] = (),
        *,
        in_body: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(origin)
        try:
            self._where = read_url(token_url).origin
        except Blocked as error:
            raise ConfigError(f"token_url: {error}") from None
        self._url = token_url
        self._fixed_secrets = [client_secret, quote_plus(client_secret)]
        form = [("grant_type", "client_credentials")]
        headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
        if scopes:
            form.append(("scope", " ".join(scopes)))
        if in_body:
            form += [("client_id", client_id), ("client_secret", client_secret)]
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
            self._fixed_secrets.append(base64.b64encode(pair.encode()).decode())
            headers.append(("authorization", f"Basic {self._fixed_secrets[-1]}"))
        self._headers, self._form = tuple(headers), urlencode(form).encode()
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._tokens: deque[str] = deque(maxlen=_RECENT)
        """The latest tokens; requests sent with an older one may still be in flight."""
        self._fetching: Future[Outcome] | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The client's secret, plain and encoded, and the recent tokens."""
        return tuple(dict.fromkeys(secret for secret in (*self._fixed_secrets, *tuple(self._tokens)) if secret))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header to the latest token, even if it has expired since `prepare`."""
        if self._tokens:
            set_header(headers, "authorization", f"Bearer {self._tokens[-1]}")
        return target

    def note_refusal(self) -> None:
        """Make the next request fetch a new token. The old one stays among `secrets`."""
        with self._lock:
            self._until = 0.0

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:
        """Fetch a token if there is no valid one, or wait for the fetch that is under way."""
        while self._clock() >= self._until:
            with self._lock:
                mine = self._fetching is None
                fetch = self._fetching = self._fetching or Future()
            outcome = await (self._fetch_token(fetch, send, outgoing) if mine else self._await_token(fetch, outgoing))
            if outcome is not None:
                # Several threads may raise it at once, so each raises its own copy.
                again = type(outcome)(outcome.info.message)
                again.info = outcome.info
                raise again
            if mine:
                return

    async def _fetch_token(self, fetch: Future[Outcome], send: Send, outgoing: Outgoing) -> Outcome:
        outcome: Outcome = None
        request = Outgoing(
            method="POST",
            url=self._url,
            headers=self._headers,
            body=self._form,
            deadline=outgoing.deadline,
            named=outgoing.named,
        )
        try:
            self._keep_token(await send(request))
        except CallError as error:
            # Rephrased for the request that needed the token, which was not sent.
            text = f"no access token for {self.origin}: {error.info.message}"
            outcome = (TokenUnavailable if isinstance(error, Unavailable) else type(error))(text)
            outcome.info = msgspec.structs.replace(error.info, message=text, effect="none")
        finally:
            with self._lock:
                self._fetching = None
            # Set a result, never an exception: asyncio logs exceptions that are not retrieved. A timeout is not shared,
            # since other callers may have more time.
            fetch.set_result(None if isinstance(outcome, CallTimeout) else outcome)
        return outcome

    async def _await_token(self, fetch: Future[Outcome], outgoing: Outgoing) -> Outcome:
        import asyncio

        left = None if outgoing.deadline is None else max(outgoing.deadline - time.monotonic(), 0.0)
        try:
            async with asyncio.timeout(left):
                # Shielded: a cancelled waiter must not cancel the fetch that others wait for.
                return await asyncio.shield(asyncio.wrap_future(fetch))
        except TimeoutError:
            raise CallTimeout(f"no access token for {self.origin} in time", effect="none") from None

    def _keep_token(self, incoming: Incoming) -> None:
        try:
            data: Any = parse_json(incoming.body, what="token")
        except MalformedSource:
            data = None
        data = data if isinstance(data, dict) else {}
        if incoming.status != HTTPStatus.OK:
            code = data.get("error")
            said = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
            raise Unavailable(
                f"{self._where} answered {incoming.status}{said}",
                retryable=incoming.status >= 500 or incoming.status == HTTPStatus.TOO_MANY_REQUESTS,
            )
        token, kind = data.get("access_token"), data.get("token_type", "bearer")
        if not (isinstance(token, str) and _ACCESS_TOKEN.fullmatch(token) and str(kind).lower() == "bearer"):
            raise Unavailable(f"{self._where} answered without a bearer token", retryable=False)
        lasts = _read_seconds(data.get("expires_in"))
        with self._lock:
            self._tokens.append(token)
            self._until = self._clock() + lasts - min(_EARLIER_SECONDS, lasts * _EARLIER_PART)


def _read_seconds(value: object) -> float:
    """Seconds of `expires_in`, which some servers send as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DEFAULT_TOKEN_SECONDS
    return float(min(max(value, 1.0), _LONGEST))


class AuthKind(msgspec.Struct, frozen=True):
    """A kind of `auth:` in a config: its keys, and the factory of the credential for an origin."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[str, Mapping[str, Any]], Credential]
    secrets: tuple[str, ...] = ()
    """Keys that are all empty if the variables of a config are not set."""


def _make_oauth2(origin: str, fields: Mapping[str, Any]) -> Credential:
    scopes = fields.get("scopes") or ()
    return ClientCredentials(
        origin,
        fields["token_url"],
        fields["client_id"],
        fields["client_secret"],
        scopes.split() if isinstance(scopes, str) else scopes,
        in_body=fields.get("in_body") in (True, "true"),
    )


AUTH_KINDS: dict[str, AuthKind] = {
    "bearer": AuthKind(("token",), (), lambda origin, fields: Bearer(origin, fields["token"]), ("token",)),
    "basic": AuthKind(
        ("user", "password"),
        (),
        lambda origin, fields: Basic(origin, fields["user"], fields["password"]),
        ("user", "password"),
    ),
    "api_key": AuthKind(
        ("name", "value"),
        ("in",),
        lambda origin, fields: ApiKeyCredential(origin, fields.get("in", "header"), fields["name"], fields["value"]),
        ("value",),
    ),
    "oauth2": AuthKind(
        ("token_url", "client_id", "client_secret"), ("scopes", "in_body"), _make_oauth2, ("client_secret",)
    ),
}
"""The credential kinds of a config; every reader of an `auth:` block uses this table."""


def token_hosts(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Hosts contacted besides the origin: that of `token_url`, which the operator configured and may be private."""
    url = fields.get("token_url")
    if url is None:
        return ()
    target = read_url(url)
    return (target.authority, with_port(target.host, target.port))


def check_field(value: object, what: str) -> str:
    """Return the value if a header can hold it; the error does not show the value."""
    if not isinstance(value, str) or not _FIELD.fullmatch(value):
        raise ConfigError(f"{what} must be text that fits into a header: visible ASCII, no line breaks")
    return value
