"""What stands before every connection: a name is resolved once, and every address it stands for is checked."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Sequence
from contextvars import ContextVar
from ipaddress import ip_address

import httpcore2

from toolyard.links.addresses import AddressRule, blocked, read_address
from toolyard.links.lookup import Lookups, Resolve

IDLE_SECONDS = 4.0
"""Less than the 5 s after which many servers hang up, so that a request seldom meets that."""


MAX_BEFORE_HEAD = 256 * 1024
"""Bytes read before an answer's head is known; a head that is allowed, and what came with it, is less."""
TOO_LONG = "receive buffer too long"


class Exchange:
    """One request on its way, as the network sees it."""

    __slots__ = ("answered", "fresh", "received", "sent")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Once more from the start, for the next request of the same trip."""
        self.sent = False
        """True once the first byte may have left."""
        self.fresh = False
        """True if the connection was made for it."""
        self.answered = False
        """True once the answer's head is there."""
        self.received = 0

    def count(self, data: bytes) -> None:
        """Note what came in; before the head is there, that has a limit, however many small messages it is."""
        if not self.answered:
            self.received += len(data)
            if self.received > MAX_BEFORE_HEAD:
                raise httpcore2.RemoteProtocolError(TOO_LONG)


EXCHANGE: ContextVar[Exchange] = ContextVar("toolyard_exchange")


class UnknownHostError(httpcore2.ConnectError):
    """The name stands for no address."""


class Place(httpcore2.Origin):
    """An origin, and whether the operator named it."""

    def __init__(self, scheme: bytes, host: bytes, port: int, trusted: bool) -> None:
        super().__init__(scheme, host, port)
        self.trusted = trusted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.trusted == other.trusted and super().__eq__(other)


class PlaceURL(httpcore2.URL):
    """A URL whose origin is a `Place`."""

    def __init__(self, scheme: str, host: str, port: int, target: str, trusted: bool) -> None:
        super().__init__(scheme=scheme, host=host, port=port, target=target)
        self._place = Place(self.scheme, self.host, port, trusted)

    @property
    def origin(self) -> Place:
        """What connections are kept by."""
        return self._place


class Gate:
    """Says which addresses a host may be reached by."""

    def __init__(self, rule: AddressRule, resolve: Resolve) -> None:
        self._rule = rule
        self._lookups = Lookups(resolve)
        self.closed = False

    def addresses(self, host: str, port: int, trusted: bool, limit: float | None) -> list[str]:
        """The host's addresses, all of them allowed."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._checked(host, port, trusted, [host])
        answer = self._lookups.begin(host, port)
        try:
            found = answer.result(limit)
        except concurrent.futures.TimeoutError as error:
            answer.cancel()
            raise httpcore2.ConnectTimeout from error
        except (OSError, UnicodeError) as error:
            raise UnknownHostError from error
        return self._checked(host, port, trusted, found)

    async def aaddresses(self, host: str, port: int, trusted: bool) -> list[str]:
        """`addresses` for async code; the time limit is the caller's."""
        if self.closed:
            raise httpcore2.ConnectError("closed")
        if read_address(host) is not None:
            return self._checked(host, port, trusted, [host])
        answer = asyncio.wrap_future(self._lookups.begin(host, port))
        try:
            found = await answer
        except (OSError, UnicodeError) as error:
            raise UnknownHostError from error
        return self._checked(host, port, trusted, found)

    def _checked(self, host: str, port: int, trusted: bool, found: Sequence[str]) -> list[str]:
        if not found:
            raise UnknownHostError
        # All or nothing: a name that stands for a public and a private address at once is what rebinding looks like.
        for text in found:
            if "%" in text:
                raise blocked(host)
            if not trusted:
                self._rule.check(host, port, ip_address(text))
        return list(found)


def share_of(end: float | None, parts: int) -> float | None:
    """An equal part of the time left, so that one silent address does not take the others' chance."""
    return None if end is None else (end - time.monotonic()) / parts


def has_more(connection: object) -> bool:
    """Whether a server sent more than its answer, which would be taken for the answer to the next request.

    The library looks at the socket for that, but not at what it has read off it already.
    """
    parser = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    return parser is not None and parser.trailing_data[0] != b""


def remote(error: BaseException) -> BaseException:
    """HTTP/2's own exceptions, and a status that is no number, are the server's fault."""
    if isinstance(error, ValueError) or type(error).__module__.partition(".")[0] in ("h2", "hpack", "hyperframe"):
        return httpcore2.RemoteProtocolError("not HTTP/2")
    return error
