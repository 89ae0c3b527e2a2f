"""`Principal`: who makes a request, with scopes and limits. `Caller`: the state of one request.

The call path gets the principal as its `Scope`: tools that the principal must not see do not exist there.
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
    """Request limits of one principal; None means the server's default."""

    rate: float | None = None
    burst: float | None = None
    concurrency: int | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who makes requests, with what scopes and limits. On a server without keys every caller is `NOBODY`, who may do
    everything.
    """

    key_id: str | None
    name: str
    scopes: Scopes
    limits: KeyLimits = KeyLimits()

    @property
    def can_list_all(self) -> bool:
        """True if it may list every namespace."""
        return self.scopes.allows_everywhere("list")

    @property
    def owner(self) -> str | None:
        """The owner of the sessions it creates; None without keys."""
        return self.key_id

    @property
    def policy_keys(self) -> tuple[str, ...]:
        """The id and name of the key, to be matched with `keys` of policy rules."""
        return () if self.key_id is None else (self.key_id, self.name)

    def can_list(self, tool: Tool) -> bool:
        """True if listings show it the tool."""
        return self.scopes.allows("list", tool.namespace)

    def can_see(self, tool: Tool) -> bool:
        """True if it may list, simulate or execute the tool."""
        return self.can_list(tool) or self.can_call("simulate", tool)

    def can_call(self, mode: Mode, tool: Tool) -> bool:
        """True if it may call the tool; one that may execute may also simulate."""
        return self.scopes.allows(mode, tool.namespace) or self.scopes.allows("execute", tool.namespace)


NOBODY = Principal(None, "anonymous", ALL)

CALLER = "toolyard.caller"
"""Key of the `Caller` in the ASGI scope."""


class Caller(msgspec.Struct, eq=False):
    """The state of one request, over HTTP or not: its principal, and what middleware and handlers record about it."""

    principal: Principal = NOBODY
    headers: dict[bytes, bytes] = {}
    """Request headers by lower-case name. `HostGuard` refuses requests that repeat a header which matters."""
    request_id: str = ""
    route: str = ""
    """The path template that matched, for metrics and logs."""
    tool: str = ""
    """The tool that was called, or the number of calls, for the log."""
    abandoned: list[Future[Any]] = []
    """Work of its calls that is still running past its deadline."""
    shared_headers: tuple[tuple[bytes, bytes], ...] = ()
    """CORS headers for the response."""
    leave_place: Callable[[], None] | None = None
    take_place: Callable[[], Awaitable[None]] | None = None
    """Give back the request's place, and take one again."""
    is_gone: Callable[[], Awaitable[bool]] | None = None
    """Whether the client has disconnected; None if that cannot be known."""
    unfinished: tuple[ToolResult, ...] = ()
    """The results of its calls while some are held; a repeat runs only the held calls again."""
