"""What the operator said of a REST engine: where services are, how they are reached, and who asks.

Which credential goes with a call is chosen by what the tool's specification asks for. A credential is for its `origin`.
One without goes to where the operator said that tools are, and to no place that only a specification names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from toolyard.engines.options import RestEngineOptions
from toolyard.engines.rest.request import RestOperation
from toolyard.links.http.addresses import AddressRule
from toolyard.links.http.auth import AUTH_KINDS, Together, token_hosts
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Credential
from toolyard.links.http.url import read_origin, read_url
from toolyard.model.bindings import RestScheme
from toolyard.model.errors import CallError, ConfigError
from toolyard.model.names import json_type
from toolyard.schema.options import Text, check_keys, option_type, read_arguments, read_value

_TEXT = option_type(Text)
_TEXTS = option_type(Annotated[tuple[Text, ...], Meta(min_length=1, extra={"one": True})])
_KIND = option_type(Literal["bearer", "basic", "api_key", "oauth2"])
_PLACE = option_type(Literal["header", "query", "cookie"])
_TOKENS = frozenset({"bearer", "oauth2"})


def read_base_url(value: Any) -> str | None:
    """The address as it is, if it is one."""
    if value is None:
        return None
    try:
        target = read_url(value)
    except CallError as error:
        raise ConfigError(f"base_url: {error}") from None
    if "?" in target.path:
        raise ConfigError("base_url ends with its path; remove what follows '?'")
    return target.url.rstrip("/")


def make_client(max_bytes: int, pool: int, **given: Any) -> GuardedClient:
    """The client these options describe."""
    read = read_arguments(RestEngineOptions, **given)
    if read["ca"] is not None and not read["verify"]:
        raise ConfigError("ca says whom to trust, and verify: false to trust anybody; give one of them")
    return GuardedClient(
        AddressRule.of(read["allow_hosts"], read["allow_networks"]),
        verify=read["verify"] if read["ca"] is None else read["ca"],
        cert=tuple(read["cert"]) if isinstance(read["cert"], list) else read["cert"],
        max_bytes=max_bytes,
        pool=pool,
        http2=read["http2"],
    )


class AuthEntry:
    """One credential of the config, for as many origins as it is meant for."""

    def __init__(self, value: Any, where: str) -> None:
        check_keys(value, value if isinstance(value, dict) else (), where)
        block: dict[str, Any] = value
        if "type" not in block:
            raise ConfigError(f"{where}: needs a 'type': {', '.join(AUTH_KINDS)}")
        self.kind: str = read_value(_KIND, block["type"], f"{where}.type")
        keys = AUTH_KINDS[self.kind]
        check_keys(block, ("type", "origin", "scheme", *keys.needed, *keys.optional), where)
        # Where a key goes is for the operator to say: a service may take it anywhere.
        needed = ("in", *keys.needed) if "in" in keys.optional else keys.needed
        for key in needed:
            if key not in block:
                raise ConfigError(f"{where}: {self.kind} needs {key!r}")
        texts = {key: str(read_value(_TEXT, block[key], f"{where}.{key}")) for key in needed}
        self.scheme = (
            str(read_value(_TEXT, block["scheme"], f"{where}.scheme")) if block.get("scheme") is not None else None
        )
        self.origin = _read_origin(block["origin"], where) if block.get("origin") is not None else None
        self.place = (texts.get("in", ""), texts.get("name", ""))
        self.named: tuple[str, ...] = ()
        """Hosts that are asked besides the origin: the operator named them, so they may be private."""
        self._make = self._read_maker(texts, block, where)
        self._made: dict[str, Credential] = {}
        # What is wrong with it is said now, not with the first call.
        self._secrets = self.at(self.origin or "https://toolyard.invalid").secrets

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere."""
        return self._secrets

    @property
    def slot(self) -> tuple[str, str]:
        """Where in a request it goes: two for one slot cannot go together."""
        return self.place if self.kind == "api_key" else ("header", "authorization")

    def at(self, origin: str) -> Credential:
        """The credential for one origin."""
        if origin not in self._made:
            self._made.setdefault(origin, self._make(origin))
        return self._made[origin]

    def serves(self, operation: RestOperation) -> bool:
        """Whether it may go where the operation is."""
        return operation.trusted if self.origin is None else self.origin == operation.origin

    def fits(self, name: str, scheme: RestScheme | None) -> bool:
        """Whether it is what a specification calls by that name."""
        if self.scheme is not None:
            return self.scheme == name
        if scheme is None:
            return False
        if scheme.type == "api_key":
            place, key = self.place
            same = key.lower() == scheme.name.lower() if place == "header" else key == scheme.name
            return self.kind == "api_key" and place == scheme.location and same
        return self.kind == scheme.type or {self.kind, scheme.type} == _TOKENS

    def _read_maker(self, texts: dict[str, str], block: dict[str, Any], where: str) -> Callable[[str], Credential]:
        fields: dict[str, Any] = dict(texts)
        if "in" in fields:
            read_value(_PLACE, fields["in"], f"{where}.in")
        if block.get("scopes"):
            fields["scopes"] = read_value(_TEXTS, block["scopes"], f"{where}.scopes")
        fields["in_body"] = block.get("in_body") is True
        try:
            self.named = token_hosts(fields)
        except CallError as error:
            raise ConfigError(f"{where}.token_url: {error}") from None
        make = AUTH_KINDS[self.kind].make
        return lambda origin: make(origin, fields)


def read_auth(value: Any, where: str) -> tuple[AuthEntry, ...]:
    """One credential or a list of them."""
    if value is None:
        return ()
    if isinstance(value, dict):
        return (AuthEntry(value, where),)
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: must be a mapping or a list of them, not {json_type(value)}")
    return tuple(AuthEntry(item, f"{where}[{index}]") for index, item in enumerate(value))


class Chosen:
    """What goes along with a call."""

    __slots__ = ("credential", "named", "unplaced")

    def __init__(self, entries: Sequence[AuthEntry], origin: str) -> None:
        parts = [entry.at(origin) for entry in entries]
        self.credential: Credential | None = None if not parts else parts[0] if len(parts) == 1 else Together(*parts)
        self.named = tuple(name for entry in entries for name in entry.named)
        self.unplaced = any(entry.origin is None for entry in entries)
        """Something of it does not say which origin it is for."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown of it; a token that was fetched meanwhile counts."""
        return () if self.credential is None else self.credential.secrets


def choose_credentials(operation: RestOperation, own: Sequence[AuthEntry], shared: Sequence[AuthEntry] = ()) -> Chosen:
    """What the operation asks for, of the session's own credentials if these are enough, else of all.

    An alternative of the specification that can be met whole is. If none can, or it asks for nothing, what is not
    meant for a certain scheme goes along: the operator knows the service better than its specification may.
    """
    mine = [entry for entry in own if entry.serves(operation)]
    everything = [*mine, *(entry for entry in shared if entry.serves(operation))]
    for available in (mine, everything):
        for alternative in operation.binding.security:
            found = _meet_alternative(operation, alternative, available)
            if found:
                return Chosen(found, operation.origin)
    slots: dict[tuple[str, str], AuthEntry] = {}
    for entry in everything:
        if entry.scheme is None:
            slots.setdefault(entry.slot, entry)
    return Chosen(list(slots.values()), operation.origin)


def _meet_alternative(
    operation: RestOperation, alternative: Sequence[str], available: Sequence[AuthEntry]
) -> list[AuthEntry] | None:
    found: list[AuthEntry] = []
    for name in alternative:
        scheme = operation.binding.schemes.get(name)
        # One that is meant for the scheme by name before one that merely fits.
        fitting = sorted((entry for entry in available if entry.fits(name, scheme)), key=lambda e: e.scheme is None)
        if not fitting:
            return None
        if fitting[0] not in found:
            found.append(fitting[0])
    return found


def _read_origin(value: Any, where: str) -> str:
    try:
        return read_origin(read_value(_TEXT, value, f"{where}.origin"))
    except ValueError as error:
        raise ConfigError(f"{where}.origin: {error}") from None
