"""`Flow`: an answer that is read while it comes in, which may take as long as the connection lasts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from toolyard.links.decoding import Body
from toolyard.links.faults import LIBRARY

if TYPE_CHECKING:
    from toolyard.links.swift_line import SwiftResponse
    from toolyard.links.trip import Trip

MOST_AT_ONCE = 64 * 1024 * 1024
"""Bytes that one piece off the wire may become when it is decoded."""


class Flow:
    """One answer whose head is there. How much of its body is read is for the caller to limit.

    It is read by the task that opened it, and hung up on when that leaves `GuardedClient.astream`.
    """

    __slots__ = ("_body", "_response", "_trip", "headers", "status", "url")

    def __init__(self, trip: Trip, response: SwiftResponse, body: Body, url: str) -> None:
        self._trip = trip
        self._response = response
        self._body = body
        self.url = url
        """Where it comes from, without the credential."""
        self.status: int = response.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers
        )

    def header(self, name: str, default: str = "") -> str:
        """The first header of that name, in lower case."""
        return next((value for key, value in self.headers if key == name), default)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, decoded; what goes wrong is a `CallError`."""
        decode = self._body.add if self._body.is_encoded else None
        try:
            async with aclosing(self._response.aiter_stream()) as pieces:
                async for piece in pieces:
                    if decode is None:
                        yield piece
                    else:
                        decode(piece)
                        if plain := self._body.take():
                            yield plain
            if decode is not None:
                self._body.whole()
            return
        except LIBRARY as error:
            fault = self._trip.fault(error)
            if fault is None:
                raise
        raise fault

    async def whole(self, limit: int) -> bytes:
        """All of the body; `CallError` if it is larger than the limit."""
        body = Body(limit)
        try:
            async with aclosing(self.chunks()) as chunks:
                async for chunk in chunks:
                    body.add(chunk)
            return body.whole()
        except LIBRARY as error:
            fault = self._trip.fault(error, limit)
            if fault is None:
                raise
        raise fault


def flowing(encoding: str) -> Body:
    """What decodes a body that has no end in sight."""
    return _Endless(MOST_AT_ONCE, encoding)


class _Endless(Body):
    def add(self, chunk: bytes) -> None:
        """The next bytes off the wire; what they become is taken away before the next."""
        self._received = 0
        self._pieces = 0
        super().add(chunk)
