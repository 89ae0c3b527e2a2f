"""`McpLink`: a persistent connection to one MCP server, for callers in any thread and on any loop.

`lease` returns the same link for the same server, limits and handlers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from toolyard.links.http.messages import make_timeout_error
from toolyard.links.mcp.connection import Connection, Listing, ToolsCall
from toolyard.links.mcp.errors import SessionLostError, mark_unsent, mark_without_effect
from toolyard.links.mcp.finder import Finder
from toolyard.links.mcp.options import credentials_of, secrets_of
from toolyard.links.mcp.peer import Handlers, LinkLimits, LinkSecrets, Peer
from toolyard.links.mcp.web import Web
from toolyard.links.mcp.wire import McpWire
from toolyard.loop.home import link_loop
from toolyard.loop.pacing import ReconnectBackoff
from toolyard.loop.threads import keep_alive, reset_after_fork
from toolyard.model.bases import Closing
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, ToolFailed, Unavailable

T = TypeVar("T")

_SILENT_SECONDS = 2.0
"""After so many seconds, log what the connection is waiting for."""


State = Literal["new", "connecting", "up", "down", "closed"]
Change = Literal["changed", "up", "down"]
Watcher = Callable[[Change], None]

_log = logging.getLogger("toolyard.mcp")


class McpLink(Closing):
    """Connects on first use or `begin`, and reconnects when the connection is lost.

    Calls share the connection; a failing, slow or oversized call does not affect others. Errors are `CallError`s.
    """

    def __init__(
        self,
        server: McpServer,
        *,
        limits: LinkLimits = LinkLimits(),  # noqa: B008 - frozen
        handlers: Handlers = Handlers(),  # noqa: B008 - frozen
    ) -> None:
        self.server = server
        self.limits = limits
        self.handlers = handlers
        self.state: State = "new"
        self.error: str | None = None
        """Why the connection is, or last was, down; without secrets."""
        self.secrets = LinkSecrets(secrets_of(server), credentials_of(server), self._current_tokens)
        self._fault: CallError | None = None
        self._connection: Connection | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._retry_task: asyncio.Task[None] | None = None
        self._web = self._new_web()
        self._backoff = self._new_backoff()
        self._finder = Finder(
            server,
            handlers.capabilities(),
            partial(Peer, server.name, handlers, limits, self.secrets),
            self._make_web,
            self._lose_connection,
            self._start_task,
        )
        self._lock = threading.Lock()
        self._watchers: list[Watcher] = []
        self._tasks: set[asyncio.Task[None]] = set()
        reset_after_fork(self)

    def begin(self) -> None:
        """Start connecting if necessary; returns at once."""
        link_loop.call_soon(self._begin_attempt)

    async def alist_tools(self, *, timeout: float = 30.0) -> Listing:  # noqa: ASYNC109 - the twin has it too
        """Every tool of the server, as the server describes it."""
        return await link_loop.arun(self._list_tools(timeout))

    list_tools = link_loop.sync_twin(alist_tools)

    async def acall(self, name: str, arguments: dict[str, Any], **conditions: Any) -> dict[str, Any]:
        """The raw result of a tool, possibly with `isError`; `conditions` are further fields of `ToolsCall`.

        Cancelling it notifies the server.
        """
        return await link_loop.arun(self._call_tool(ToolsCall(name, arguments, **conditions)))

    call = link_loop.sync_twin(acall)

    def watch(self, callback: Watcher) -> Callable[[], None]:
        """Call a function when the tools change and when the connection is lost or restored; call the result to stop.

        It is called on the loop of links, so it must return at once. While there are watchers, a lost connection is
        restored without waiting for a call.
        """
        with self._lock:
            self._watchers.append(callback)
        link_loop.call_soon(self._tend_watchers)

        def stop() -> None:
            with self._lock:
                if callback in self._watchers:
                    self._watchers.remove(callback)

        return stop

    async def aclose(self) -> None:
        """Close the connection and wait until that is done."""
        await link_loop.arun(self._close_link())

    def close(self) -> None:
        """`aclose` for threads."""
        link_loop.run(self.aclose(), twin="aclose")

    @property
    def protocol(self) -> str | None:
        """The protocol version that was agreed on; None while not connected."""
        connection = self._connection
        return None if connection is None else connection.agreement.version

    def _current_tokens(self) -> tuple[str, ...]:
        web = self._web
        return () if web is None or web.credential is None else web.credential.secrets

    def __repr__(self) -> str:
        return f"<McpLink {self.server.name} ({self.state})>"

    async def _list_tools(self, timeout: float) -> Listing:  # noqa: ASYNC109
        # A server that still has to start gets additional time.
        starting = 0.0 if self._connection is not None else self.limits.connect_seconds
        deadline = asyncio.get_running_loop().time() + starting + timeout
        return await self._ask_server(lambda connection: connection.list_tools(deadline), deadline)

    async def _call_tool(self, call: ToolsCall) -> dict[str, Any]:
        try:
            return await self._ask_server(lambda connection: connection.call(call), call.deadline)
        except CallError as error:
            if call.reads:
                mark_without_effect(error)
            raise

    async def _ask_server(self, ask: Callable[[Connection], Awaitable[T]], deadline: float | None) -> T:
        fault: CallError | None = None
        for _ in range(2):
            try:
                return await ask(await self._get_connection(deadline))
            except SessionLostError as lost:
                fault = lost.fault  # the server did not execute it, so it can be sent again
        raise fault or Unavailable(f"{self.server.name} forgets our session at once")

    async def _get_connection(self, deadline: float | None) -> Connection:
        """The current connection, or a new one unless the backoff forbids another attempt."""
        if self._connection is not None:
            return self._connection
        loop = asyncio.get_running_loop()
        seconds = None if deadline is None else deadline - loop.time()
        self._begin_attempt(patient=False)
        if self._attempt is not None:
            await asyncio.wait({self._attempt}, timeout=seconds)
        if self._connection is not None:
            return self._connection
        if self._attempt is not None and not self._attempt.done():
            raise make_timeout_error(self.server.name, seconds, "none")
        if self.state == "closed":
            raise Unavailable(f"the link to {self.server.name} is closed", retryable=False)
        assert self._fault is not None
        fault = CallError.from_info(self._fault.info)  # each caller raises its own
        pause = self._backoff.seconds_left(asked=True) or None
        fault.info = msgspec.structs.replace(fault.info, effect="none", retry_after=pause)
        raise fault

    def _begin_attempt(self, patient: bool = True) -> None:
        """Start an attempt unless one is running or it is too soon; if `patient`, the watchers' retry will follow."""
        if self.state == "closed" or self._connection is not None or self._attempt is not None:
            return
        if self._backoff.seconds_left(asked=not patient) > 0:
            if patient:
                self._tend_watchers()
            return
        self.state = "connecting"
        self._attempt = asyncio.get_running_loop().create_task(self._connect())
        self._tend_watchers()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limits.connect_seconds
        done = "start" if self.server.url is None else "answer"
        words = ("waiting for %s to %s, up to %g s (connect_timeout)", self.server.name, done)
        notice = loop.call_later(_SILENT_SECONDS, _log.warning, *words, self.limits.connect_seconds)
        try:
            connection = await self._finder.find(deadline)
        except CallError as error:
            self._attempt = None
            self._record_loss(mark_unsent(error))
            return
        except Exception as error:  # noqa: BLE001 - a bug here must not leave all callers waiting
            _log.warning("connecting to %s failed unexpectedly", self.server.name, exc_info=True)
            self._attempt = None
            text = f"connecting to {self.server.name} failed: {type(error).__name__}"
            self._record_loss(ToolFailed(text, effect="none"))
            return
        finally:
            notice.cancel()
        self._attempt = None
        if self.state == "closed":
            await connection.aclose()
            return
        self._connection = connection
        self._backoff.record_connection()
        self.state, self.error = "up", None
        connection.peer.changed = partial(self._notify_watchers, "changed")
        if self._watchers or self.handlers.capabilities():
            connection.listen()
        self._notify_watchers("up")

    def _lose_connection(self, wire: McpWire, fault: CallError) -> None:
        connection = self._connection
        if connection is None or connection.wire is not wire:
            return
        self._connection = None
        self._start_task(connection.aclose())
        self._record_loss(fault)

    def _record_loss(self, fault: CallError) -> None:
        if self.state == "closed":
            return
        self._fault = fault
        self.state, self.error = "down", fault.info.message
        self._backoff.record_failure()
        _log.debug("%s is down: %s", self.server.name, self.error)
        self._notify_watchers("down")
        self._tend_watchers()

    def _notify_watchers(self, change: Change) -> None:
        with self._lock:
            watchers = list(self._watchers)
        loop = asyncio.get_running_loop()
        for watcher in watchers:
            loop.call_soon(watcher, change)

    def _tend_watchers(self) -> None:
        """Keep watchers informed: listen for changes, and reconnect after a loss."""
        if not self._watchers or self.state in ("closed", "new"):
            return
        if self._connection is not None:
            self._connection.listen()
        elif self._retry_task is None and self._attempt is None:
            self._retry_task = asyncio.get_running_loop().create_task(self._retry_later())

    async def _retry_later(self) -> None:
        """Retry once when the backoff allows it; another failure schedules the next retry."""
        await asyncio.sleep(self._backoff.seconds_left())
        self._retry_task = None
        if self._watchers:
            self._begin_attempt()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def reset_in_child(self) -> None:
        """Reset in a forked child: leave the parent's connection alone and connect again when needed."""
        keep_alive(self._connection, self._attempt, self._retry_task, self._web, *self._tasks)
        self._lock = threading.Lock()
        self._connection = self._attempt = self._retry_task = None
        self._tasks = set()
        if self.state != "closed":
            self.state, self.error, self._fault = "new", None, None
            self._web = None
            self._backoff = self._new_backoff()

    def _new_web(self) -> Web | None:
        server = self.server
        return None if server.url is None or server.transport == "stdio" else Web(server, self.limits)

    def _new_backoff(self) -> ReconnectBackoff:
        limits = self.limits
        return ReconnectBackoff(limits.backoff_seconds, limits.max_backoff_seconds, limits.healthy_seconds)

    def _make_web(self) -> Web:
        if self._web is None:
            self._web = self._new_web()
        assert self._web is not None
        return self._web

    async def _close_link(self) -> None:
        self.state = "closed"
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()
        for task in (self._attempt, self._retry_task):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        self._attempt = self._retry_task = None
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        if self._web is not None:
            await self._web.aclose()


_Key = tuple[McpServer, LinkLimits, Handlers]

_LOCK = threading.Lock()
_LINKS: dict[_Key, tuple[McpLink, int]] = {}


def lease(
    server: McpServer,
    *,
    limits: LinkLimits = LinkLimits(),  # noqa: B008 - frozen
    handlers: Handlers = Handlers(),  # noqa: B008 - frozen
) -> McpLink:
    """The shared link to this server; release it with `give_back`."""
    key = (server, limits, handlers)
    with _LOCK:
        link, count = _LINKS.get(key) or (McpLink(server, limits=limits, handlers=handlers), 0)
        _LINKS[key] = (link, count + 1)
        return link


def give_back(link: McpLink) -> None:
    """Release a leased link; the last release closes it and waits for that."""
    key = (link.server, link.limits, link.handlers)
    with _LOCK:
        kept, count = _LINKS.get(key, (None, 0))
        if kept is link and count > 1:
            _LINKS[key] = (link, count - 1)
        elif kept is link:
            del _LINKS[key]
    if kept is link and count == 1:
        link.close()


def _renew_lock_in_child() -> None:
    # Links remain leased in a forked child; each one resets itself there.
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock_in_child)
