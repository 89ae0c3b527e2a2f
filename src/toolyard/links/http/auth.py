"""Credentials: what says who asks, each bound to the one origin it is meant for, and the one table of their kinds."""

from __future__ import annotations

import asyncio
import base64
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal
from urllib.parse import quote, quote_plus, urlencode

import msgspec

from toolyard.links.http.addresses import Blocked, with_port
from toolyard.links.http.messages import Credential, Headers, Incoming, Outgoing, Send, set_header
from toolyard.links.http.url import Target, read_url
from toolyard.model.errors import CallError, CallTimeout, ConfigError, MalformedSource, Unavailable
from toolyard.parsing import parse_json

_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE = re.compile(r"[!#-+\x2d-:<-\[\]-~]*")


class Bearer(Credential):
    """A token in the authorization header."""

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
    """A user and password in the authorization header."""

    def __init__(self, origin: str, user: str, password: str) -> None:
        super().__init__(origin)
        if ":" in user:
            raise ConfigError("the user of a basic credential may not hold a colon")
        self._secret = password or user
        self._value = base64.b64encode(f"{user}:{password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password, or the user that stands for it, and both as they are sent."""
        return (self._secret, self._value)

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header."""
        set_header(headers, "authorization", f"Basic {self._value}")
        return target


class ApiKeyCredential(Credential):
    """A key under a name of its own, in a header, the query or a cookie."""

    def __init__(self, origin: str, where: Literal["header", "query", "cookie"], name: str, value: str) -> None:
        super().__init__(origin)
        if where not in ("header", "query", "cookie"):
            raise ConfigError(f"an API key goes into the header, query or cookie, not {where!r}")
        if not name or (where != "query" and not _TOKEN.fullmatch(name)):
            raise ConfigError(f"{name!r} is no name for an API key in the {where}")
        self._where = where
        self._name = name
        self._value = value if where == "query" else check_field(value, "the API key")
        if where == "cookie" and not _COOKIE.fullmatch(value):
            raise ConfigError("the API key holds characters that no cookie may hold")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, and as it is in a query."""
        return tuple(dict.fromkeys((self._value, quote(self._value, safe=""))))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Put the key where it belongs; other cookies stay."""
        if self._where == "query":
            return target.with_query(self._name, self._value)
        if self._where == "header":
            set_header(headers, self._name, self._value)
            return target
        others = [value for name, value in headers if name.lower() == "cookie"]
        set_header(headers, "cookie", "; ".join([*others, f"{self._name}={self._value}"]))
        return target

    def clean(self, target: Target) -> Target:
        """Without the key, which a server may also send back in a redirect."""
        return target.without_query(self._name) if self._where == "query" else target


class Together(Credential):
    """Several credentials for one request, where a service wants more than one; all for one origin."""

    def __init__(self, *parts: Credential) -> None:
        if len({part.origin for part in parts}) != 1:
            raise ConfigError("credentials that go together are for one and the same origin")
        super().__init__(parts[0].origin)
        self._parts = parts

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those of all."""
        return tuple(secret for part in self._parts for secret in part.secrets)

    def attach(self, target: Target, headers: Headers) -> Target:
        """All of them."""
        for part in self._parts:
            target = part.attach(target, headers)
        return target

    def clean(self, target: Target) -> Target:
        """Without any of them."""
        for part in self._parts:
            target = part.clean(target)
        return target

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:
        """All of them."""
        for part in self._parts:
            await part.prepare(send, outgoing)

    def refused(self) -> None:
        """All of them."""
        for part in self._parts:
            part.refused()

    def __repr__(self) -> str:
        return f"<Together {', '.join(map(repr, self._parts))}>"


UNSAID_SECONDS = 300.0
"""How long a token is used whose server does not say."""
_EARLIER_SECONDS = 30.0
_EARLIER_PART = 0.1
_LONGEST = 7 * 24 * 3600.0
_ACCESS_TOKEN = re.compile(r"[!-~]{1,8192}")
_CODE = re.compile(r"[a-z_]{1,40}")
_OK = 200
_SERVER_FAULT = 500
_TOO_MANY = 429

Outcome = CallError | None
"""What became of a fetch, for those who waited: None means that there may be a token now, look again."""


_RECENT = 8


class NoToken(Unavailable):
    """The server that gives out tokens cannot be had; nothing is known of the one the token is for."""


class ClientCredentials(Credential):
    """OAuth 2 client credentials: a token fetched from `token_url`, kept until it runs out, fetched once for all.

    The secret goes to `token_url`, so that must come from the operator, never from a specification. With
    `in_body` the client's id and secret are sent in the form, for servers that do not take basic authorization.
    Thread safe, for any number of loops.
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
        self._client_secret = client_secret
        self._basic: str | None = None
        form = [("grant_type", "client_credentials")]
        if scopes:
            form.append(("scope", " ".join(scopes)))
        if in_body:
            form += [("client_id", client_id), ("client_secret", client_secret)]
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
            self._basic = base64.b64encode(pair.encode()).decode()
        self._form = urlencode(form).encode()
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._tokens: deque[str] = deque(maxlen=_RECENT)
        """The last few: calls that were sent with an older one may still be under way."""
        self._fetching: Future[Outcome] | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The client's secret, as it is sent too, and the tokens that were fetched of late."""
        sent = (self._client_secret, quote_plus(self._client_secret), self._basic, *tuple(self._tokens))
        return tuple(dict.fromkeys(secret for secret in sent if secret))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header to the latest token, even if it ran out since `prepare` got it."""
        if self._tokens:
            set_header(headers, "authorization", f"Bearer {self._tokens[-1]}")
        return target

    def refused(self) -> None:
        """The token is of no use any more: the next request fetches another. It stays known, so that nobody sees it."""
        with self._lock:
            self._until = 0.0

    async def prepare(self, send: Send, outgoing: Outgoing) -> None:
        """Fetch a token if there is none that lasts, or wait for whoever does."""
        while self._clock() >= self._until:
            with self._lock:
                mine = self._fetching is None
                fetch = self._fetching = self._fetching or Future()
            outcome = await (self._fetch_token(fetch, send, outgoing) if mine else self._await_token(fetch, outgoing))
            if outcome is not None:
                # Raised in several threads at once, so each gets its own.
                again = type(outcome)(outcome.info.message)
                again.info = outcome.info
                raise again
            if mine:
                return

    async def _fetch_token(self, fetch: Future[Outcome], send: Send, outgoing: Outgoing) -> Outcome:
        outcome = None
        try:
            self._keep_token(await send(self._token_request(outgoing)))
        except CallError as error:
            outcome = self._explain_for_call(error)
        finally:
            with self._lock:
                self._fetching = None
            # Never an exception: asyncio complains of those that nobody has looked at. And one caller's lack of time
            # is not the others'.
            fetch.set_result(None if isinstance(outcome, CallTimeout) else outcome)
        return outcome

    async def _await_token(self, fetch: Future[Outcome], outgoing: Outgoing) -> Outcome:
        left = None if outgoing.deadline is None else max(outgoing.deadline - time.monotonic(), 0.0)
        try:
            async with asyncio.timeout(left):
                # Shielded: a cancelled waiter must not cancel the fetch that others wait for.
                return await asyncio.shield(asyncio.wrap_future(fetch))
        except TimeoutError:
            raise CallTimeout(f"no access token for {self.origin} in time", effect="none") from None

    def _token_request(self, outgoing: Outgoing) -> Outgoing:
        headers = [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
        if self._basic is not None:
            headers.append(("authorization", f"Basic {self._basic}"))
        return Outgoing(
            method="POST",
            url=self._url,
            headers=tuple(headers),
            body=self._form,
            deadline=outgoing.deadline,
            named=outgoing.named,
        )

    def _keep_token(self, incoming: Incoming) -> None:
        try:
            data: Any = parse_json(incoming.body, what="token")
        except MalformedSource:
            data = None
        data = data if isinstance(data, dict) else {}
        if incoming.status != _OK:
            code = data.get("error")
            said = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
            raise Unavailable(
                f"{self._where} answered {incoming.status}{said}",
                retryable=incoming.status >= _SERVER_FAULT or incoming.status == _TOO_MANY,
            )
        token, kind, seconds = data.get("access_token"), data.get("token_type", "bearer"), data.get("expires_in")
        if not (isinstance(token, str) and _ACCESS_TOKEN.fullmatch(token) and str(kind).lower() == "bearer"):
            raise Unavailable(f"{self._where} answered without a bearer token", retryable=False)
        lasts = _read_seconds(seconds)
        with self._lock:
            self._tokens.append(token)
            self._until = self._clock() + lasts - min(_EARLIER_SECONDS, lasts * _EARLIER_PART)

    def _explain_for_call(self, error: CallError) -> CallError:
        """The same failure, said of the call that needed the token, which was not sent."""
        text = f"no access token for {self.origin}: {error.info.message}"
        again = (NoToken if isinstance(error, Unavailable) else type(error))(text)
        again.info = msgspec.structs.replace(error.info, message=text, effect="none")
        return again


def _read_seconds(value: object) -> float:
    """`expires_in`, which some servers write as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return UNSAID_SECONDS
    return float(min(max(value, 1.0), _LONGEST))


class AuthKind(msgspec.Struct, frozen=True):
    """One kind of `auth:` in a config: its keys, and what makes the credential of them for an origin."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[str, Mapping[str, Any]], Credential]


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
    "bearer": AuthKind(("token",), (), lambda origin, fields: Bearer(origin, fields["token"])),
    "basic": AuthKind(
        ("user", "password"), (), lambda origin, fields: Basic(origin, fields["user"], fields["password"])
    ),
    "api_key": AuthKind(
        ("name", "value"),
        ("in",),
        lambda origin, fields: ApiKeyCredential(origin, fields.get("in", "header"), fields["name"], fields["value"]),
    ),
    "oauth2": AuthKind(("token_url", "client_id", "client_secret"), ("scopes", "in_body"), _make_oauth2),
}
"""The kinds of credential that a config can name; whoever reads an `auth:` reads it by this table."""


def token_hosts(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Hosts that are asked besides the origin: the operator named them in `token_url`, so they may be private."""
    url = fields.get("token_url")
    if url is None:
        return ()
    target = read_url(url)
    return (target.authority, with_port(target.host, target.port))


def check_field(value: object, what: str) -> str:
    """The value if a header can hold it; the error does not show it."""
    if not isinstance(value, str) or not _FIELD.fullmatch(value):
        raise ConfigError(f"{what} must be text that fits into a header: visible ASCII, no line breaks")
    return value
