"""Which hosts and addresses may be connected to.

Allowed are public unicast addresses and those the operator has added. A name is judged by the addresses it resolves to,
and an address by where it leads: many IPv6 forms embed an IPv4 address that a gateway on the way connects to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

from toolyard.model.errors import ConfigError, Denied

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Listed here because `is_global` of `ipaddress` differs between versions of Python.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's platform services, reachable from every machine there
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_CARRIES_LAST_32 = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))
"""IPv4-compatible and NAT64: the last 32 bits are an IPv4 address."""

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253
_LONGEST_PORT = 5


class Blocked(Denied):
    """The host may not be connected to, or the URL is invalid. Nothing was sent."""


class AddressRule(msgspec.Struct, frozen=True):
    """What is allowed besides public addresses; create it with `of`, which validates."""

    hosts: frozenset[str] = frozenset()
    """`host` or `host:port` in lower case, IPv6 as `::1` or `[::1]:80`; allowed whatever they resolve to."""
    networks: tuple[Network, ...] = ()
    """Allowed under any name."""

    @classmethod
    def of(cls, hosts: Iterable[str] = (), cidrs: Iterable[str] = ()) -> AddressRule:
        """Create a rule for these hosts and networks; `ConfigError` names the invalid one."""
        return cls(frozenset(map(_read_host_entry, hosts)), tuple(map(_read_network, cidrs)))

    def lists(self, host: str, port: int, named: Iterable[str] = ()) -> bool:
        """Whether the operator listed this host, in the rule or in `named`."""
        known = {host, with_port(host, port)}
        return not known.isdisjoint(self.hosts) or any(name in known for name in named)

    def check(self, host: str, port: int, address: Address) -> None:
        """Raise `Blocked` unless a connection to `host`, which resolved to `address`, is allowed."""
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            raise make_blocked_error(host, port)
        if self.lists(host, port) or is_public(address):
            return
        plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
        if not any(plain in network or address in network for network in self.networks):
            raise make_blocked_error(host, port)


def make_blocked_error(host: str, port: int) -> Blocked:
    """The error for a refused host; it does not show the addresses, which would reveal the internal network."""
    return Blocked(
        f"{host} may not be called: it is, or resolves to, an address that is not public",
        hint="the operator can allow it in the source (type: rest) or its engine: "
        f'allow_hosts: ["{with_port(host, port)}"]',
    )


def is_public(address: Address) -> bool:
    """Whether the address is reachable from the public internet, so that connecting from here reveals nothing more."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None:
        return False
    carried = _embedded_ipv4(address)
    if carried:
        return all(map(is_public, carried))
    return address in _UNICAST_6 and not any(address in network for network in _NOT_PUBLIC_6)


def _embedded_ipv4(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses embedded in an IPv6 address; empty if there are none."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if any(address in network for network in _CARRIES_LAST_32):
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


def with_port(host: str, port: int) -> str:
    """`host:port`, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_host(text: str) -> str:
    """Return the host in canonical form: lower case, punycode, no trailing dot, IPv6 without brackets.

    `ValueError` if it is invalid or ambiguous: systems read `0177.1` or `2130706433` differently.
    """
    if text.startswith("["):
        if not text.endswith("]"):
            raise ValueError("no end of an IPv6 address")
        return _read_ipv6(text[1:-1])
    name = text.lower() if text.isascii() else _encode_idna(text)
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        return str(IPv4Address(name))
    return name


def read_port(text: str) -> int:
    """Parse a port; `ValueError` if it is invalid."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_PORT and 0 < int(text) < 1 << 16):
        raise ValueError("not a port")
    return int(text)


def _encode_idna(text: str) -> str:
    import idna

    try:
        return idna.encode(text).decode().lower()
    except idna.IDNAError:
        raise ValueError("not a host name") from None


def _read_ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError("an address with a zone")
    return str(IPv6Address(text))


def _read_host_entry(text: object) -> str:
    try:
        if not isinstance(text, str):
            raise ValueError("not text")
        if text.count(":") > 1 and not text.startswith("["):
            return _read_ipv6(text)
        bare = text.endswith("]") or ":" not in text
        host, _, port = (text, "", "") if bare else text.rpartition(":")
        return read_host(host) if bare else with_port(read_host(host), read_port(port))
    except ValueError:
        raise ConfigError(f"{text!r} is no host; write one such as 'api.example.com' or 'localhost:8000'") from None


def _read_network(text: object) -> Network:
    try:
        if not isinstance(text, str) or "%" in text:
            raise ValueError("not text of a network without zone")
        return ip_network(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is no network; write one such as '10.1.0.0/16': {error}") from None


def read_address(text: str) -> Address | None:
    """Parse a host as an address; None if it is a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None
