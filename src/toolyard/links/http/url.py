"""`Target`: the destination of a request, parsed from a URL by one parser only.

If two parsers read a URL differently, the address that was checked may not be the one connected to. So anything the
standards leave ambiguous is refused, and the request is built from the parsed parts.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, quote_from_bytes, unquote_plus, urljoin

import msgspec

from toolyard.links.http.addresses import Blocked, read_address, read_host, read_port, with_port
from toolyard.model.errors import ConfigError

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
        raise Blocked("the address to call must begin with http:// or https://, and hold no '#'")
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
