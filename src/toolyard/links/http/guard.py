"""What stands before every connection: a name is resolved once, and every address it stands for is checked.

Names become addresses by the system's resolver, which nothing can interrupt once it has begun. So it runs in threads
of its own: few, first come, first served, and none that a process waits for at its end. Whoever asked waits as long as
it has time, and leaves the queue if it gives up.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address

import httpcore2

from toolyard.links.http.addresses import AddressRule, blocked, read_address
from toolyard.loop.threads import Threads, wrapped

Resolve = Callable[[str, int], Sequence[str]]
"""A host and port into addresses, best first; an `OSError` if there are none."""

MAX_THREADS = 32
_SHORT_PLACE = 2
"""IPv4's address and port; IPv6 has a flow and a zone behind them."""


def system_addresses(host: str, port: int) -> list[str]:
    """What the system says the name stands for; a zone, where there is one, is kept so that it can be refused."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(_write_address(entry[4]) for entry in found))


def _write_address(place: tuple[object, ...]) -> str:
    text = str(place[0])
    zone = place[3] if len(place) > _SHORT_PLACE else 0
    return f"{text}%{zone}" if zone and "%" not in text else text


class UnknownHostError(httpcore2.ConnectError):
    """The name stands for no address."""


class AddressGuard:
    """Says which addresses a host may be reached by."""

    def __init__(self, rule: AddressRule, resolve: Resolve, *, threads: int = MAX_THREADS) -> None:
        self._rule = rule
        self._resolve = resolve
        self._threads = Threads(threads, "toolyard-lookup")
        self.closed = False

    async def find_addresses(self, host: str, port: int, trusted: bool) -> list[str]:
        """The host's addresses, all of them allowed; the time limit is the caller's."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._check_all(host, port, trusted, [host])
        try:
            found = await wrapped(self._threads.submit(lambda: self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            raise UnknownHostError from error
        return self._check_all(host, port, trusted, found)

    def _check_all(self, host: str, port: int, trusted: bool, found: Sequence[str]) -> list[str]:
        if not found:
            raise UnknownHostError
        # All or nothing: a name that stands for a public and a private address at once is what rebinding looks like.
        for text in found:
            if "%" in text:
                raise blocked(host)
            if not trusted:
                self._rule.check(host, port, ip_address(text))
        return list(found)
