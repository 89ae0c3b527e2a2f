"""The `auth` option of sources and engines: credentials as the operator configures them.

A credential with an `origin` is sent only there. One without is sent to the origins that the operator configured, never
to one that only a specification names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from toolyard.links.http.addresses import read_origin
from toolyard.links.http.auth import AUTH_KINDS, CombinedCredential, token_hosts
from toolyard.links.http.messages import Credential
from toolyard.model.bindings import RestScheme
from toolyard.model.errors import CallError, ConfigError
from toolyard.model.json_schema import file_type
from toolyard.schema.options import Text, check_keys, option_type, read_value

_TEXT = option_type(Text)
_TEXTS = option_type(Annotated[tuple[Text, ...], Meta(min_length=1, extra={"one": True})])
_KIND = option_type(Literal["bearer", "basic", "api_key", "oauth2"])
_PLACE = option_type(Literal["header", "query", "cookie"])
_ANY_TEXT = option_type(str)
_TOKENS = frozenset({"bearer", "oauth2"})


class AuthEntry:
    """One configured credential; creates a `Credential` for each origin it may be sent to."""

    def __init__(self, value: Any, where: str) -> None:
        self.kind, needed = _check_block(value, where)
        block: dict[str, Any] = value
        # A password may be empty, for services whose user name is the key.
        kinds = {key: _ANY_TEXT if key == "password" else _TEXT for key in needed}
        texts = {key: str(read_value(kind, block[key], f"{where}.{key}")) for key, kind in kinds.items()}
        self.scheme: str | None = None
        if block.get("scheme") is not None:
            self.scheme = read_value(_TEXT, block["scheme"], f"{where}.scheme")
        self.origin: str | None = None
        if block.get("origin") is not None:
            try:
                self.origin = read_origin(read_value(_TEXT, block["origin"], f"{where}.origin"))
            except ValueError as error:
                raise ConfigError(f"{where}.origin: {error}") from None
        self.place = (texts.get("in", ""), texts.get("name", ""))
        self._fields: dict[str, Any] = {**texts, "in_body": block.get("in_body") is True}
        if "in" in texts:
            read_value(_PLACE, texts["in"], f"{where}.in")
        if block.get("scopes"):
            self._fields["scopes"] = read_value(_TEXTS, block["scopes"], f"{where}.scopes")
        try:
            self.named = token_hosts(self._fields)
            """Hosts contacted besides the origin; the operator configured them, so they may be private."""
        except CallError as error:
            raise ConfigError(f"{where}.token_url: {error}") from None
        self._made: dict[str, Credential] = {}
        # Create one now, so that mistakes are reported at load time, not with the first call.
        self.secrets = self.for_origin(self.origin or "https://toolyard.invalid").secrets
        """Values that must never appear in logs or errors."""

    @property
    def slot(self) -> tuple[str, str]:
        """Where in a request it is put; two credentials for one slot cannot be combined."""
        return self.place if self.kind == "api_key" else ("header", "authorization")

    def for_origin(self, origin: str) -> Credential:
        """The credential for one origin; cached."""
        if origin not in self._made:
            self._made.setdefault(origin, AUTH_KINDS[self.kind].make(origin, self._fields))
        return self._made[origin]

    def may_be_sent_to(self, origin: str, trusted: bool) -> bool:
        """Whether it may be sent to `origin`; without an own origin, only to trusted ones."""
        return trusted if self.origin is None else self.origin == origin

    def matches_scheme(self, name: str, scheme: RestScheme | None) -> bool:
        """Whether it matches a specification's security scheme, by `scheme` if set, else by kind."""
        if self.scheme is not None:
            return self.scheme == name
        if scheme is None:
            return False
        if scheme.type == "api_key":
            place, key = self.place
            same = key.lower() == scheme.name.lower() if place == "header" else key == scheme.name
            return self.kind == "api_key" and place == scheme.location and same
        return self.kind == scheme.type or {self.kind, scheme.type} == _TOKENS


def read_auth(value: Any, where: str) -> tuple[AuthEntry, ...]:
    """Read one credential or a list; those with empty secrets, as from an unset variable, are skipped."""
    if value is None:
        return ()
    if not isinstance(value, dict | list | tuple):
        raise ConfigError(f"{where}: must be a mapping or a list of them, not {file_type(value)}")
    single = isinstance(value, dict)
    items = [(value, where)] if single else [(item, f"{where}[{index}]") for index, item in enumerate(value)]
    for item, place in items:
        _check_block(item, place)
    return tuple(AuthEntry(item, place) for item, place in items if not is_blank(item))


def is_blank(auth: Any) -> bool:
    """Whether all secrets of a credential, or of a list of them, are empty."""
    if isinstance(auth, list):
        return bool(auth) and all(map(is_blank, auth))
    kind = AUTH_KINDS.get(str(auth.get("type"))) if isinstance(auth, dict) else None
    return kind is not None and all(auth.get(key) == "" for key in kind.secrets)


def _check_block(value: Any, where: str) -> tuple[str, tuple[str, ...]]:
    """Check a credential's keys; return its kind and the required keys."""
    check_keys(value, value if isinstance(value, dict) else (), where)
    if "type" not in value:
        raise ConfigError(f"{where}: needs a 'type': {', '.join(AUTH_KINDS)}")
    kind: str = read_value(_KIND, value["type"], f"{where}.type")
    keys = AUTH_KINDS[kind]
    check_keys(value, ("type", "origin", "scheme", *keys.needed, *keys.optional), where)
    # `in` is required: services differ in where they expect the key.
    needed = ("in", *keys.needed) if "in" in keys.optional else keys.needed
    for key in needed:
        if key not in value:
            raise ConfigError(f"{where}: {kind} needs {key!r}")
    return kind, needed


def join_credentials(entries: Sequence[AuthEntry], origin: str) -> Credential | None:
    """Combine the entries into one credential for an origin; None if there are none."""
    parts = [entry.for_origin(origin) for entry in entries]
    return None if not parts else parts[0] if len(parts) == 1 else CombinedCredential(*parts)


def suggest_auth(scheme: RestScheme | None, write: Callable[[str], str]) -> dict[str, str] | None:
    """Suggest an `auth` block for a specification's scheme; `write` returns the placeholder of a named secret.

    None if the scheme's own text contains `${`, which would be expanded from the operator's environment and sent.
    """
    if scheme is not None and "${" in f"{scheme.name}\n{scheme.token_url}":
        return None
    match scheme:
        case RestScheme(type="basic"):
            return {"type": "basic", "user": write("USER"), "password": write("PASSWORD")}
        case RestScheme(type="api_key"):
            return {"type": "api_key", "in": str(scheme.location), "name": scheme.name, "value": write("KEY")}
        case RestScheme(type="oauth2", token_url=str(url)):
            client = {"client_id": write("CLIENT_ID"), "client_secret": write("CLIENT_SECRET")}
            return {"type": "oauth2", "token_url": url, **client}
    return {"type": "bearer", "token": write("TOKEN")}


def write_yaml_flow(auth: Mapping[str, str]) -> str:
    """Write the block as YAML flow; keys are unquoted, since the redactor takes `"token": "..."` for a secret."""
    return f"{{{', '.join(f'{key}: {json.dumps(value)}' for key, value in auth.items())}}}"
