"""What stands before every connection: a name is resolved once, and every address it stands for is checked.

Names become addresses by the system's resolver, which nothing can interrupt once it has begun. So it runs in threads
of its own: few, and none that a process waits for at its end. Whoever asked waits as long as it has time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from ipaddress import ip_address

import httpcore2

from toolyard.links.http.addresses import AddressRule, blocked, read_address

Resolve = Callable[[str, int], Sequence[str]]
"""A host and port into addresses, best first; an `OSError` if there are none."""

MAX_THREADS = 32
_IDLE_SECONDS = 10.0
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


class NameLookups:
    """Runs a resolver in at most `threads` threads, first come, first served."""

    def __init__(self, resolve: Resolve = system_addresses, *, threads: int = MAX_THREADS) -> None:
        self._resolve = resolve
        self._threads = threads
        self._ready = threading.Condition()
        self._waiting: deque[tuple[Future[Sequence[str]], str, int]] = deque()
        self._running = 0
        self._idle = 0

    def begin(self, host: str, port: int) -> Future[Sequence[str]]:
        """The addresses, some time; cancelling it lets go of a lookup that has not begun."""
        answer: Future[Sequence[str]] = Future()
        with self._ready:
            self._waiting.append((answer, host, port))
            if self._idle >= len(self._waiting):
                self._ready.notify()
            elif self._running < self._threads:
                self._running += 1
                threading.Thread(target=self._run_lookups, name="toolyard-lookup", daemon=True).start()
        return answer

    def _run_lookups(self) -> None:
        while (job := self._next_lookup()) is not None:
            answer, host, port = job
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                addresses = self._resolve(host, port)
            except Exception as error:  # noqa: BLE001 - whatever a resolver raises belongs to who asked
                answer.set_exception(error)
            else:
                answer.set_result(addresses)
            del answer, job

    def _next_lookup(self) -> tuple[Future[Sequence[str]], str, int] | None:
        with self._ready:
            self._idle += 1
            self._ready.wait_for(lambda: bool(self._waiting), _IDLE_SECONDS)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


class UnknownHostError(httpcore2.ConnectError):
    """The name stands for no address."""


class AddressGuard:
    """Says which addresses a host may be reached by."""

    def __init__(self, rule: AddressRule, resolve: Resolve) -> None:
        self._rule = rule
        self._lookups = NameLookups(resolve)
        self.closed = False

    def find_addresses(self, host: str, port: int, trusted: bool, limit: float | None) -> list[str]:
        """The host's addresses, all of them allowed."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._check_all(host, port, trusted, [host])
        answer = self._lookups.begin(host, port)
        try:
            found = answer.result(limit)
        except concurrent.futures.TimeoutError as error:
            answer.cancel()
            raise httpcore2.ConnectTimeout from error
        except (OSError, UnicodeError) as error:
            raise UnknownHostError from error
        return self._check_all(host, port, trusted, found)

    async def afind_addresses(self, host: str, port: int, trusted: bool) -> list[str]:
        """`find_addresses` for async code; the time limit is the caller's."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._check_all(host, port, trusted, [host])
        answer = asyncio.wrap_future(self._lookups.begin(host, port))
        try:
            found = await answer
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
