"""`LinkLimits` and `Handlers`: what a server may cost, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Handler = Callable[[dict[str, Any]], Any]
"""Takes the request's params and gives its result, or an awaitable of it. Sync ones run in a thread."""


class LinkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """All of them hold unless an operator says otherwise."""

    connect_seconds: float = 10.0
    """Starting or reaching the server, and agreeing on a protocol, in all."""
    max_message_bytes: int = 16 * 1024 * 1024
    max_depth: int = 200
    """Levels of lists and objects in a message."""
    max_pages: int = 1000
    max_tools: int = 100_000
    max_list_bytes: int = 256 * 1024 * 1024
    """Bytes of all pages of one listing."""
    max_pending: int = 1000
    """Requests in flight at once."""
    max_requests: int = 16
    """Requests of the server that are worked on at once."""
    max_rounds: int = 10
    """How often one call may ask for input."""
    max_connections: int = 200
    """Sockets to one HTTP server."""
    stderr_bytes: int = 4096
    """Of what a process says last on its error stream, for the text of an error."""
    close_seconds: float = 2.0
    """For each step of ending a process."""
    backoff_seconds: float = 0.25
    max_backoff_seconds: float = 30.0
    healthy_seconds: float = 60.0
    """A connection that held this long makes earlier failures forgotten."""


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers what a server asks for; what has no handler is refused, and not offered to the server."""

    sampling: Handler | None = None
    elicitation: Handler | None = None
    roots: Handler | None = None

    def capabilities(self) -> dict[str, Any]:
        """What the client tells the server it can do."""
        found = {"sampling": self.sampling, "elicitation": self.elicitation, "roots": self.roots}
        return {name: {} for name, handler in found.items() if handler is not None}

    def of(self, method: str) -> Handler | None:
        """The handler for a request of the server."""
        match method:
            case "sampling/createMessage":
                return self.sampling
            case "elicitation/create":
                return self.elicitation
            case "roots/list":
                return self.roots
        return None
