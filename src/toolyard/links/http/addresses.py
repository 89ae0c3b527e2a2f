"""Which hosts and addresses may be connected to, and `Target`: the destination of a request.

Allowed are public unicast addresses and those the operator has added. A name is judged by the addresses it resolves to,
and an address by where it leads: many IPv6 forms embed an IPv4 address that a gateway on the way connects to.

URLs are parsed here only. If two parsers read a URL differently, the address that was checked may not be the one
connected to. So anything the standards leave ambiguous is refused, and the request is built from the parsed parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import quote, quote_from_bytes, unquote_plus, urljoin

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


_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
_VISIBLE = re.compile(r"[!-~]+")
_KEPT = "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"
_LONGEST = 64 * 1024


class Target(msgspec.Struct, frozen=True):
    """A parsed URL."""

    scheme: str
    host: str
    """In canonical form, IPv6 without brackets."""
    port: int
    path: str
    """The path with the query; starts with a slash."""

    @property
    def origin(self) -> str:
        """Scheme, host and port in canonical form, without the scheme's default port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port as in the `Host` header."""
        if self.port == _PORTS[self.scheme]:
            return f"[{self.host}]" if ":" in self.host else self.host
        return with_port(self.host, self.port)

    @property
    def url(self) -> str:
        """The complete URL."""
        return f"{self.origin}{self.path}"

    @property
    def is_exposed(self) -> bool:
        """Whether requests leave this machine unencrypted."""
        if self.scheme != "http" or self.host == "localhost" or self.host.endswith(".localhost"):
            return False
        address = read_address(self.host)
        return address is None or not address.is_loopback

    def with_query(self, name: str, value: str) -> Target:
        """Return a copy with the query parameter set to `value`, replacing all of that name."""
        bare = self.without_query(name)
        sign = "&" if "?" in bare.path else "?"
        return msgspec.structs.replace(bare, path=f"{bare.path}{sign}{quote(name, safe='')}={quote(value, safe='')}")

    def without_query(self, name: str) -> Target:
        """Return a copy without the query parameter."""
        path, sign, query = self.path.partition("?")
        kept = [item for item in query.split("&") if unquote_plus(item.partition("=")[0]) != name]
        if not sign or kept == query.split("&"):
            return self
        return msgspec.structs.replace(self, path=path + (f"?{'&'.join(kept)}" if kept else ""))

    def redirected(self, location: str) -> Target:
        """Resolve a `Location` header against this target; `Blocked` if the result is not a valid URL."""
        # Escape bytes that are not allowed in a URL, as browsers do.
        escaped = quote_from_bytes(location.encode("latin-1", "replace"), safe=_KEPT)
        try:
            joined = urljoin(self.url, escaped).partition("#")[0]
            return read_url(joined)
        except (ValueError, Blocked):
            raise Blocked(f"{self.origin} redirects to an invalid URL") from None


def read_url(url: str) -> Target:
    """Parse a URL; `Blocked` says what is wrong without quoting the URL, which may contain a secret."""
    if not isinstance(url, str) or len(url) > _LONGEST:
        raise Blocked("the address to call is not a URL, or too long for one")
    found = _URL.fullmatch(url)
    if found is None:
        needs = "must begin with http:// or https://" if _URL.match(url) is None else "may hold no '#'"
        raise Blocked(f"the address to call {needs}")
    scheme, authority, path = found[1].lower(), found[2], found[3]
    if "@" in authority:
        raise Blocked("the address to call may not hold a user or password")
    if path and (not _VISIBLE.fullmatch(path) or "\\" in path):
        raise Blocked("the address to call holds characters that must be percent-encoded")
    try:
        host, port = _read_authority(authority, _PORTS[scheme])
    except ValueError:
        raise Blocked("the address to call has no valid host") from None
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}")


def read_base_url(value: Any, where: str) -> str:
    """Return a base URL in canonical form, without a trailing slash; `ConfigError` if it is invalid."""
    try:
        target = read_url(value)
    except Blocked as error:
        raise ConfigError(f"{where}: {error}") from None
    if "?" in target.path:
        raise ConfigError(f"{where}: ends with its path; remove what follows '?'")
    return target.url.rstrip("/")


def read_origin(origin: str) -> str:
    """Return `https://host[:port]` in canonical form; `ValueError` if it is not exactly an origin."""
    try:
        target = read_url(origin)
    except Blocked as error:
        raise ValueError(str(error)) from None
    if target.path != "/" or "?" in origin:
        raise ValueError("an origin is scheme, host and port only")
    return target.origin


def _read_authority(text: str, default: int) -> tuple[str, int]:
    if text.endswith("]"):
        return read_host(text), default
    host, colon, port = text.rpartition(":") if ":" in text else (text, "", "")
    if ":" in host and not host.startswith("["):
        raise ValueError("an IPv6 address needs brackets")
    return read_host(host), read_port(port) if colon and port else default
