"""`Links`: the connections of one engine, shared with everybody or one a session."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from toolyard.loop.forking import renewed_in_child
from toolyard.model.bindings import McpServer
from toolyard.model.errors import Unavailable
from toolyard.sessions.store import Key

if TYPE_CHECKING:
    from toolyard.links.mcp import Handlers, McpLink

_log = logging.getLogger(__name__)
_CLOSING_SECONDS = 10.0

Owner = tuple[Key, McpServer]


class _Own:
    """The connection of one session, and how many calls are on it."""

    __slots__ = ("calls", "link")

    def __init__(self, link: McpLink) -> None:
        self.link = link
        self.calls = 0


class Borrowed:
    """A connection for the time of one call."""

    __slots__ = ("_own", "_owner", "link")

    def __init__(self, link: McpLink, own: _Own | None = None, owner: Links | None = None) -> None:
        self.link = link
        self._own = own
        self._owner = owner

    def done(self) -> None:
        """The call is over."""
        if self._own is not None and self._owner is not None:
            self._owner.left(self._own)
            self._own = None


class Links:
    """Opened when first needed. Those of sessions are at most `most`; the one longest unused makes room."""

    def __init__(self, handlers: Handlers | None, most: int) -> None:
        self._given = handlers
        self._most = most
        self._lock = threading.Lock()
        self._shared: dict[McpServer, McpLink] = {}
        self._own: OrderedDict[Owner, _Own] = OrderedDict()
        self._closing: set[Future[None]] = set()
        self._closed = False
        renewed_in_child(self)

    def forked(self) -> None:
        """In the child of a fork no call is under way, and nothing is being closed."""
        self._lock = threading.Lock()
        self._closing = set()
        for own in self._own.values():
            own.calls = 0

    def shared(self, server: McpServer) -> Borrowed:
        """The connection that everybody uses who wants the same server."""
        link = self._shared.get(server)
        return Borrowed(self._lease(server) if link is None else link)

    def own(self, server: McpServer, session: Key) -> Borrowed:
        """The session's own connection."""
        from toolyard.links.mcp import McpLink
        from toolyard.links.mcp.options import limits_of

        with self._lock:
            self._check_open(server)
            found = self._own.get((session, server))
            if found is None:
                self._make_room(server)
                found = _Own(McpLink(server, limits=limits_of(server), handlers=self._handlers()))
                self._own[session, server] = found
            self._own.move_to_end((session, server))
            found.calls += 1
            return Borrowed(found.link, found, self)

    def left(self, own: _Own) -> None:
        """One call less on a session's connection."""
        with self._lock:
            own.calls -= 1

    def ended(self, session: Key) -> None:
        """Hang up for a session that is over; nobody waits for it."""
        with self._lock:
            for key in [key for key in self._own if key[0] == session]:
                self._hang_up(self._own.pop(key))

    def close(self) -> None:
        """Hang up, and give back what is shared."""
        from toolyard.links.mcp import give_back

        with self._lock:
            self._closed = True
            for own in self._own.values():
                self._hang_up(own)
            self._own.clear()
            shared, self._shared = list(self._shared.values()), {}
            closing = set(self._closing)
        for link in shared:
            give_back(link)
        wait(closing, timeout=_CLOSING_SECONDS)

    def _lease(self, server: McpServer) -> McpLink:
        from toolyard.links.mcp import lease
        from toolyard.links.mcp.options import limits_of

        with self._lock:
            self._check_open(server)
            if server not in self._shared:
                self._shared[server] = lease(server, limits=limits_of(server), handlers=self._handlers())
            return self._shared[server]

    def _handlers(self) -> Handlers:
        from toolyard.links.mcp import Handlers

        return self._given or Handlers()

    def _check_open(self, server: McpServer) -> None:
        if self._closed:
            raise Unavailable(f"the engine that calls {server.name} is closed", retryable=False)

    def _make_room(self, server: McpServer) -> None:
        if len(self._own) < self._most:
            return
        idle = next((key for key, own in self._own.items() if own.calls == 0), None)
        if idle is None:
            raise Unavailable(
                f"{self._most} sessions have a connection of their own to servers such as {server.name}, all in use",
                hint="try again later, or raise max_session_connections",
            )
        _log.warning("session %s lost its connection to %s to make room for another", idle[0].session_id, idle[1].name)
        self._hang_up(self._own.pop(idle))

    def _hang_up(self, own: _Own) -> None:
        from toolyard.loop.home import link_loop

        future = link_loop.submit(own.link.aclose())
        self._closing.add(future)
        future.add_done_callback(self._closing.discard)
