"""Credentials: what says who asks, each bound to the one origin it is meant for, and the one table of their kinds."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from toolyard.links.http.addresses import with_port
from toolyard.links.http.messages import Credential, Headers, Outgoing, Send, set_header
from toolyard.links.http.oauth import ClientCredentials
from toolyard.links.http.url import Target, read_url
from toolyard.model.errors import ConfigError

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
        self._password = password
        self._value = base64.b64encode(f"{user}:{password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password, and both as they are sent."""
        return (self._password, self._value)

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
