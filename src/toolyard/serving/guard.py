"""What every request must pass before anybody looks at what it wants: whose name it came to, from whose page."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_ONCE = (b"host", b"content-length", b"content-type", b"authorization", b"origin", b"idempotency-key", b"x-api-key")
_REMEMBERED = 1024
_HOST = re.compile(r"(\[[^]]*\]|[^][:]*)(:[0-9]*)?")


def is_loopback(host: str) -> bool:
    """True for a name or address that only this machine can reach."""
    if host.strip("[]").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Checks `Host` and `Origin`, so that no page of somebody else's can make a browser use this server.

    A name that an attacker points at this machine (DNS rebinding) shows in `Host`; a foreign page shows in `Origin`.
    """

    def __init__(self, host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> None:
        own = {host.lower(), f"[{host.lower()}]"} if ":" in host else {host.lower()}
        self._any_address = host in ("0.0.0.0", "::", "")  # noqa: S104 - a comparison
        names = {socket.gethostname().lower()} if self._any_address else set()
        self._names = _LOOPBACK | own | names | {name.lower() for name in allowed_hosts}
        self.origins = frozenset(origin.lower().rstrip("/").encode() for origin in allowed_origins)
        self._fine: set[bytes] = set()

    def check(self, request: Request) -> None:
        """Refuse a request that came by a wrong name or from a foreign page."""
        headers = request.headers
        if len(headers) != len(request.scope["headers"]):
            _check_repeats(request)
        host = headers.get(b"host")
        if host is None:
            raise HttpFault(400, "request.invalid_http", "a request needs a Host header")
        if host not in self._fine:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None:
            self.check_origin(request, origin, host)
        elif headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and request.method not in ("GET", "HEAD"):
            raise _foreign("another site")

    def check_origin(self, request: Request, origin: bytes, host: bytes) -> None:
        """Refuse a page that is not of this server and not among the allowed."""
        origin = origin.lower()
        if origin != str(request.scope["scheme"]).encode() + b"://" + host.lower() and origin not in self.origins:
            raise _foreign(origin[:200].decode("latin-1"))

    def _check_host(self, host: bytes) -> None:
        name = _name_of(host)
        if name not in self._names and not (self._any_address and _is_address(name)):
            raise HttpFault(
                421,
                "request.host_not_allowed",
                f"this server does not answer for {name[:200]!r}",
                hint="list the name in server.allowed_hosts",
            )
        if len(self._fine) < _REMEMBERED:
            self._fine.add(host)


def _check_repeats(request: Request) -> None:
    names = [name for name, _ in request.scope["headers"]]
    for name in _ONCE:
        if names.count(name) > 1:
            raise HttpFault(400, "request.invalid_http", f"the header {name.decode()} is there more than once")


def _foreign(who: str) -> HttpFault:
    return HttpFault(
        403,
        "request.origin_not_allowed",
        f"requests from pages of {who!r} are not allowed",
        hint="list the origin in server.allowed_origins",
    )


def _name_of(host: bytes) -> str:
    """The name without its port; what is not so written is nobody's name."""
    text = host.decode("latin-1").lower()
    found = _HOST.fullmatch(text)
    return text if found is None else found[1]


def _is_address(name: str) -> bool:
    # An address cannot be pointed elsewhere, as a name can.
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
