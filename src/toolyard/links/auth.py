"""Credentials: what says who asks, each bound to the one origin it is meant for.

`GuardedClient` attaches them to requests for that origin and to no other. They show their kind and origin, never what
they hold, and cannot be pickled.
"""

from __future__ import annotations

import base64
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn
from urllib.parse import quote, quote_plus

from toolyard.links.addresses import Blocked
from toolyard.links.urls import Target, read_origin
from toolyard.model.errors import ConfigError

if TYPE_CHECKING:
    from toolyard.links.client import GuardedClient, Outgoing
    from toolyard.links.tokens import Token

Headers = list[tuple[str, str]]

_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE = re.compile(r"[!#-+\x2d-:<-\[\]-~]*")


class Credential(ABC):
    """Something secret for one origin, `https://host[:port]`."""

    def __init__(self, origin: str) -> None:
        try:
            self.origin = read_origin(origin)
        except ValueError as error:
            raise ConfigError(f"a credential is for one origin such as 'https://api.example.com': {error}") from None

    @property
    @abstractmethod
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere, in the spellings in which it is sent."""

    @abstractmethod
    def attach(self, target: Target, headers: Headers) -> Target:
        """Add to the headers, or return a changed target. Called for the credential's own origin only."""

    def apply(self, target: Target, headers: Headers) -> Target:
        """`attach` if the target is of the credential's origin; else nothing happens."""
        return self.attach(target, headers) if target.origin == self.origin else target

    def clean(self, target: Target) -> Target:
        """The target without what `attach` put into it."""
        return target

    def prepare(self, client: GuardedClient, outgoing: Outgoing) -> None:  # noqa: B027 - most need nothing
        """Get what is needed before the request can be sent."""

    async def aprepare(self, client: GuardedClient, outgoing: Outgoing) -> None:  # noqa: B027 - most need nothing
        """`prepare` for async code."""

    def refused(self) -> None:  # noqa: B027 - most cannot do anything about it
        """The origin answered 401."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self.origin}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("credentials are not pickled or copied: they stay where they were made")


class Bearer(Credential):
    """A token in the authorization header."""

    def __init__(self, origin: str, token: str) -> None:
        super().__init__(origin)
        self._value = field(token, "the token")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self._value,)

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header."""
        put(headers, "authorization", f"Bearer {self._value}")
        return target


class Basic(Credential):
    """A user and password in the authorization header."""

    def __init__(self, origin: str, user: str, password: str) -> None:
        super().__init__(origin)
        if ":" in user:
            raise ConfigError("the user of a basic credential may not hold a colon")
        self._password = password
        self._value = base64.b64encode(f"{user}:{password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password, and both as they are sent."""
        return (self._password, self._value)

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header."""
        put(headers, "authorization", f"Basic {self._value}")
        return target


class ApiKey(Credential):
    """A key under a name of its own, in a header, the query or a cookie."""

    def __init__(self, origin: str, where: Literal["header", "query", "cookie"], name: str, value: str) -> None:
        super().__init__(origin)
        if where not in ("header", "query", "cookie"):
            raise ConfigError(f"an API key goes into the header, query or cookie, not {where!r}")
        if not name or (where != "query" and not _TOKEN.fullmatch(name)):
            raise ConfigError(f"{name!r} is no name for an API key in the {where}")
        self._where = where
        self._name = name
        self._value = value if where == "query" else field(value, "the API key")
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
            put(headers, self._name, self._value)
            return target
        others = [value for name, value in headers if name.lower() == "cookie"]
        put(headers, "cookie", "; ".join([*others, f"{self._name}={self._value}"]))
        return target

    def clean(self, target: Target) -> Target:
        """Without the key, which a server may also send back in a redirect."""
        return target.without_query(self._name) if self._where == "query" else target


class ClientCredentials(Credential):
    """OAuth 2 client credentials: a token fetched from `token_url`, kept until it runs out, fetched once for all.

    The secret goes to `token_url`, so that must come from the operator, never from a specification. With
    `in_body` the client's id and secret are sent in the form, for servers that do not take basic authorization.
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
        from toolyard.links.tokens import Token

        super().__init__(origin)
        form = [("grant_type", "client_credentials")]
        if scopes:
            form.append(("scope", " ".join(scopes)))
        self._client_secret = client_secret
        basic: str | None = None
        if in_body:
            form += [("client_id", client_id), ("client_secret", client_secret)]
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
            basic = base64.b64encode(pair.encode()).decode()
        self._basic = basic
        try:
            self._token: Token = Token(self.origin, token_url, form, basic, clock)
        except Blocked as error:
            raise ConfigError(f"token_url: {error}") from None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The client's secret, as it is sent too, and the token there is now."""
        sent = (self._client_secret, quote_plus(self._client_secret), self._basic, *self._token.recent())
        return tuple(dict.fromkeys(secret for secret in sent if secret))

    def attach(self, target: Target, headers: Headers) -> Target:
        """Set the header, to the token that `prepare` got."""
        token = self._token.latest()
        if token is not None:
            put(headers, "authorization", f"Bearer {token}")
        return target

    def prepare(self, client: GuardedClient, outgoing: Outgoing) -> None:
        """Fetch a token if there is none that lasts."""
        self._token.get(client, outgoing)

    async def aprepare(self, client: GuardedClient, outgoing: Outgoing) -> None:
        """`prepare` for async code."""
        await self._token.aget(client, outgoing)

    def refused(self) -> None:
        """Forget the token: the next request fetches another."""
        self._token.forget()


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

    def prepare(self, client: GuardedClient, outgoing: Outgoing) -> None:
        """All of them."""
        for part in self._parts:
            part.prepare(client, outgoing)

    async def aprepare(self, client: GuardedClient, outgoing: Outgoing) -> None:
        """All of them."""
        for part in self._parts:
            await part.aprepare(client, outgoing)

    def refused(self) -> None:
        """All of them."""
        for part in self._parts:
            part.refused()

    def __repr__(self) -> str:
        return f"<Together {', '.join(map(repr, self._parts))}>"


def put(headers: Headers, name: str, value: str) -> None:
    """Set the header, instead of any of that name."""
    headers[:] = [item for item in headers if item[0].lower() != name.lower()]
    headers.append((name, value))


def field(value: object, what: str) -> str:
    """The value if a header can hold it; the error does not show it."""
    if not isinstance(value, str) or not _FIELD.fullmatch(value):
        raise ConfigError(f"{what} must be text that fits into a header: visible ASCII, no line breaks")
    return value
