"""Who makes a request: the `Principal` with its scopes and limits, and the `Caller`, which is one request of it.

The call path knows a principal as its `Scope`, so that what a caller must not see does not exist there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import msgspec

from toolyard.model.call import Mode, ToolResult
from toolyard.model.tool import Tool
from toolyard.serving.scopes import ALL, Scopes


class KeyLimits(msgspec.Struct, frozen=True):
    """How much one principal may ask for; None means the server's default."""

    rate: float | None = None
    burst: float | None = None
    concurrency: int | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who makes requests, with what scopes and limits. Without keys every caller is `NOBODY`, who may do everything on
    a loopback server.
    """

    key_id: str | None
    name: str
    scopes: Scopes
    limits: KeyLimits = KeyLimits()

    @property
    def sees_all(self) -> bool:
        """True if the whole catalog is shown to it."""
        return self.scopes.everywhere("list")

    @property
    def owner(self) -> str | None:
        """Whose sessions these are; None where there are no keys."""
        return self.key_id

    @property
    def policy_keys(self) -> tuple[str, ...]:
        """What the `keys` of a policy's rules are compared with."""
        return () if self.key_id is None else (self.key_id, self.name)

    def lists(self, tool: Tool) -> bool:
        """True if the catalog shows the tool to it."""
        return self.scopes.allows("list", tool.namespace)

    def sees(self, tool: Tool) -> bool:
        """True if it may know of the tool: a principal that may call a tool may see it."""
        return self.lists(tool) or self.may("simulate", tool)

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if it may call the tool; one that may execute may also simulate."""
        return self.scopes.allows(mode, tool.namespace) or self.scopes.allows("execute", tool.namespace)


NOBODY = Principal(None, "anonymous", ALL)

CALLER = "toolyard.caller"
"""Where the scope of a request has its `Caller`."""


class Caller(msgspec.Struct, eq=False):
    """The caller of one request, over HTTP or not, and what becomes known of the request on its way."""

    principal: Principal = NOBODY
    headers: dict[bytes, bytes] = {}
    """Of the request, by their names in lower case; those that decide something are there once."""
    request_id: str = ""
    route: str = ""
    """The template that matched; a label for metrics and logs."""
    tool: str = ""
    """The tool that was called, for the log."""
    abandoned: list[Future[Any]] = []
    """Work of its calls that goes on past its deadline."""
    shared_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers of the answer that let a page of another origin read it."""
    leave_place: Callable[[], None] | None = None
    take_place: Callable[[], Awaitable[None]] | None = None
    """Of the place that the request runs in as a whole: give it back, and have one again."""
    is_gone: Callable[[], Awaitable[bool]] | None = None
    """Whether the client has gone, where that can be known."""
    unfinished: tuple[ToolResult, ...] = ()
    """What came of its calls while some of them are held: only these are sent again."""
