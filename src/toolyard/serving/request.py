"""`Request`: one HTTP request as handlers see it, its body read within limits."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

from toolyard.serving.counting import Values
from toolyard.serving.faults import HttpFault
from toolyard.serving.principal import NOBODY, Principal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGE = 64 * 1024
"""Bytes of a body from which on it costs its sender more than a request."""

_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_MAX_QUERY = 100
_PROCESS = secrets.token_hex(4)
_count = count(1)


class Disconnected(Exception):
    """The client went away before its request was whole; there is nobody to answer."""


class Room:
    """How many bytes of bodies there may be at once, of all requests together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    def take(self, request: Request, size: int) -> None:
        """The body has grown to that size; 429 if that is more than there is room for."""
        self.taken += size - request.held
        request.held = size
        if self.taken > self.most:
            raise HttpFault(
                429,
                "server.overloaded",
                "too many large bodies arrive at once; try again",
                retryable=True,
                headers=((b"retry-after", b"1"), (b"connection", b"close")),
            )

    def give_back(self, request: Request) -> None:
        """The request is over."""
        self.taken -= request.held
        request.held = 0


class Request:
    """Method, path and headers at once; query and body when asked for."""

    __slots__ = (
        *("_query", "body", "headers", "method", "path", "principal", "receive", "request_id", "route", "scope"),
        *("answered", "send", "sharing"),
        *("abandoned", "allotted", "booked", "declared", "held", "spent", "tool", "values"),
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send | None = None) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        """For a handler that answers with a stream, and sets `answered` when it begins."""
        self.answered = False
        self.sharing: Sequence[tuple[bytes, bytes]] = ()
        """Headers of the answer that let a page of another origin read it."""
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        """Percent-decoded."""
        # Of a repeated header the first counts; the guard refuses those that must not be repeated.
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        given = self.headers.get(b"x-request-id")
        # Only what is safe in a header and in a log line is said back.
        usable = given is not None and _ID.fullmatch(given) is not None
        self.request_id: str = given.decode("ascii") if usable and given else f"{_PROCESS}-{next(_count):x}"
        length = self.headers.get(b"content-length")
        self.declared = int(length[:20]) if length is not None and length.isdigit() else 0
        """Bytes of its body as the head says; 0 if it says nothing."""
        self.principal: Principal = NOBODY
        self.route = ""
        """The template that matched; a label for metrics and logs."""
        self.values: tuple[str, ...] = ()
        """What stands in the template's braces, percent-decoded."""
        self.tool = ""
        """The tool that was called, for the log."""
        self.abandoned: list[Future[Any]] = []
        """Work of its calls that goes on past its deadline."""
        self.body: bytes | None = None
        self.held = 0
        """Bytes of its body that count against the room for large ones."""
        self.allotted = 0.0
        """Seconds of processor time that it was expected to cost, if it is a large one."""
        self.booked = 0.0
        """Seconds by which it has put off the next large one of its key."""
        self.spent = 0.0
        """Seconds that it has cost so far."""
        self._query: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        """Every query parameter with its values, in order."""
        if self._query is None:
            self._query = _read_query(self.scope["query_string"])
        return self._query

    async def read(self, max_bytes: int, room: Room | None = None, max_values: int | None = None) -> bytes:
        """The body; 413 as soon as it is known to be too large, or to hold too many values, however it is framed."""
        if self.body is not None:
            return self.body
        if self.declared > max_bytes:
            raise too_large(max_bytes)
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body: bytes = message["body"]
        if message.get("more_body", False) or len(body) > min(LARGE, max_bytes):
            body = await self._read_on(message, max_bytes, room, max_values)
        self.body = body
        return body

    async def _read_on(
        self, message: MutableMapping[str, Any], max_bytes: int, room: Room | None, max_values: int | None
    ) -> bytes:
        values = None if max_values is None else Values(max_values)
        chunks: list[bytes] = []
        size = 0
        while True:
            chunks.append(message["body"])
            size += len(message["body"])
            if size > max_bytes:
                raise too_large(max_bytes)
            if room is not None:
                room.take(self, size)
            if values is not None:
                values.feed(message["body"])
            if not message.get("more_body", False):
                return b"".join(chunks)
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected


def too_large(max_bytes: int) -> HttpFault:
    """The body is over the limit; the connection is of no further use, since the rest of it is still to come."""
    return HttpFault(
        413,
        "request.too_large",
        f"the request body is larger than {max_bytes:,} bytes",
        details={"max_body_bytes": max_bytes},
        headers=((b"connection", b"close"),),
    )


def _read_query(text: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=False,
            max_num_fields=_MAX_QUERY,
            errors="strict",
        )
    except (ValueError, UnicodeDecodeError):
        raise HttpFault(
            400,
            "request.invalid_query",
            f"the query must be percent-encoded UTF-8 with at most {_MAX_QUERY} parameters",
        ) from None
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
