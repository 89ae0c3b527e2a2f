"""`Request`: one HTTP request as handlers see it, its body read within limits."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

from toolyard.serving.faults import HttpFault
from toolyard.serving.principal import NOBODY, Principal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

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
        *("abandoned", "held", "tool", "values"),
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        """Percent-decoded."""
        # Of a repeated header the first counts; the guard refuses those that must not be repeated.
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        given = self.headers.get(b"x-request-id")
        # Only what is safe in a header and in a log line is said back.
        usable = given is not None and _ID.fullmatch(given) is not None
        self.request_id: str = given.decode("ascii") if usable and given else f"{_PROCESS}-{next(_count):x}"
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
        self._query: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        """Every query parameter with its values, in order."""
        if self._query is None:
            self._query = _read_query(self.scope["query_string"])
        return self._query

    async def read(self, max_bytes: int, room: Room | None = None) -> bytes:
        """The body; 413 as soon as it is known to be too large, however it is framed."""
        if self.body is not None:
            return self.body
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared[:20]) > max_bytes:
            raise too_large(max_bytes)
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body: bytes = message["body"]
        if message.get("more_body", False) or len(body) > max_bytes:
            body = await self._read_on(body, message, max_bytes, room)
        self.body = body
        return body

    async def _read_on(
        self, first: bytes, message: MutableMapping[str, Any], max_bytes: int, room: Room | None
    ) -> bytes:
        chunks, size = [first], len(first)
        while size <= max_bytes and message.get("more_body", False):
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunks.append(message["body"])
            size += len(message["body"])
            if room is not None:
                room.take(self, size)
        if size > max_bytes:
            raise too_large(max_bytes)
        return b"".join(chunks)


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
