"""Options of the engine, read strictly: what is wrong with one is said when the engine is made."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from toolyard.engines.options import RestEngineOptions
from toolyard.links.http.addresses import AddressRule, with_port
from toolyard.links.http.breaker import Breaker
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.url import read_url
from toolyard.model.errors import CallError, ConfigError, NoEngine
from toolyard.model.json_words import json_type
from toolyard.schema.options import option_type, read_arguments, read_value

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TRIPLE = 3


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


def named_hosts(named: Sequence[str], base_url: str | None) -> tuple[str, ...]:
    """Hosts the operator named, in their one spelling."""
    if base_url is not None:
        target = read_url(base_url)
        return (with_port(target.host, target.port),)
    return known_hosts(named)


def known_hosts(named: Sequence[str]) -> tuple[str, ...]:
    """Hosts in their one spelling."""
    try:
        return tuple(sorted(AddressRule.of(named).hosts))
    except ConfigError as error:
        raise NoEngine(f"a host that was named for this tool is none: {error}") from None


def read_headers(headers: Any) -> tuple[tuple[str, str], ...]:
    """Headers that go along with calls; the error shows no value."""
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigError(f"headers: must be a mapping, not {json_type(headers)}")
    found = dict(headers or {})
    for name, value in found.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ConfigError(f"headers: {name!r} is no name of a header")
        if not isinstance(value, str) or _CONTROL.search(value) or value.strip() != value or not value.isascii():
            raise ConfigError(f"headers.{name}: must be text that fits into a header: ASCII, no line breaks")
    return tuple((str(name), str(value)) for name, value in found.items())


def read_breaker(failures: Any, pause: Any) -> Breaker:
    """The circuit breaker for these numbers."""
    read = read_arguments(RestEngineOptions, breaker_failures=failures, breaker_pause=pause)
    return Breaker(time.monotonic, read["breaker_failures"], read["breaker_pause"])


def make_client(
    hosts: Sequence[str],
    networks: Sequence[str],
    verify: bool,
    ca: str | None,
    cert: str | Sequence[str] | None,
    max_bytes: int,
    pool: int,
    http2: bool,
) -> GuardedClient:
    """The client these options describe."""
    rule = AddressRule.of(_read_texts(hosts, "allow_hosts"), _read_texts(networks, "allow_networks"))
    if ca is not None and verify is False:
        raise ConfigError("ca says whom to trust, and verify: false to trust anybody; give one of them")
    if isinstance(cert, list | tuple):
        if not 1 < len(cert) <= _TRIPLE or not all(isinstance(part, str) for part in cert):
            raise ConfigError("cert must be a file, or certificate and key, or these and the key's password")
    elif cert is not None and not isinstance(cert, str):
        raise ConfigError(f"cert must be a file or a list of two or three texts, not {json_type(cert)}")
    checked: Any = cert if cert is None or isinstance(cert, str) else tuple(cert)
    return GuardedClient(
        rule,
        verify=read_value(option_type(bool), verify, "verify") if ca is None else ca,
        cert=checked,
        max_bytes=max_bytes,
        pool=pool,
        http2=read_value(option_type(bool), http2, "http2"),
    )


def _read_texts(value: Any, where: str) -> Sequence[str]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: must be a list, not {json_type(value)}")
    return value
