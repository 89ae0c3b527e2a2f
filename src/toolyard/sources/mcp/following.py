"""`ServerFollower`: a persistent connection to a server and its tool list; the file of approved definitions.

After a change, the list is fetched before the source is asked to load it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolyard.loop.home import link_loop
from toolyard.loop.threads import keep_alive, reset_after_fork
from toolyard.model.bindings import McpServer
from toolyard.model.errors import (
    CallError,
    DefinitionError,
    MalformedSource,
    SourceError,
    SourceUnavailable,
    SyncInAsyncError,
    Unavailable,
)
from toolyard.model.tool import Tool, digest
from toolyard.parsing import parse_json
from toolyard.parsing.files import lock_file, read_bytes, replace_file

if TYPE_CHECKING:
    from toolyard.links.mcp import Handlers, Listing, McpLink


_MIN_PAUSE = 0.2
_MAX_PAUSE = 60.0
_log = logging.getLogger(__name__)
_PAUSE_FACTOR = 4
"""If a server keeps changing, wait this many times the duration of the last listing before the next one."""


class ServerFollower:
    """Connects on `start` or first use, and stays connected until it is closed.

    After a notification, the list is fetched on the loop of links and only then announced, so that loading it does not
    wait: a server that hangs delays no other.
    """

    def __init__(self, server: McpServer, handlers: Handlers, timeout: float) -> None:
        self._server = server
        self._handlers = handlers
        self._timeout = timeout
        self._lock = threading.RLock()
        self._link: McpLink | None = None
        self._unwatch: Callable[[], None] | None = None
        self._next_list: Future[Listing] | None = None
        """The list for the next load."""
        self._changed: Callable[[], None] | None = None
        self._missed_change = False
        """True if a change occurred before `watch` was called."""
        self._may_be_outdated = False
        """True if the last load may be outdated because the server cannot be reached."""
        self._fetching: Future[None] | None = None
        self._wants_fetch = False
        self._closed = False
        reset_after_fork(self)

    def reset_in_child(self) -> None:
        """Reset in a forked child, where nothing runs the parent's work."""
        keep_alive(self._next_list, self._fetching)
        self._lock = threading.RLock()
        self._next_list = self._fetching = None

    def start(self) -> None:
        """Connect and fetch the list; returns at once."""
        link = self._connect()
        link.begin()
        with self._lock:
            if self._next_list is None:
                self._next_list = link_loop.submit(link.alist_tools(timeout=self._timeout))

    def fetch_tools(self) -> Listing:
        """The server's tool list; `SourceUnavailable` says why there is none."""
        if link_loop.is_here():
            raise SyncInAsyncError("this is the loop of links, which must not wait; load in a thread instead")
        link = self._connect()
        with self._lock:
            ahead, self._next_list = self._next_list, None
        if ahead is None:
            ahead = link_loop.submit(link.alist_tools(timeout=self._timeout))
        try:
            found = ahead.result()
        except CallError as error:
            self._may_be_outdated = True
            raise SourceUnavailable.from_call(error) from None
        except CancelledError:
            self._may_be_outdated = True
            raise SourceUnavailable("the connection was closed") from None
        except BaseException:
            ahead.cancel()
            raise
        self._may_be_outdated = False
        return found

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever `fetch_tools` would return something else or fail."""
        with self._lock:
            self._changed = changed
            missed, self._missed_change = self._missed_change, False
        if missed:
            self._refetch()

    def close(self) -> None:
        """Release the connection; it closes when its last user releases it."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
            unwatch, self._unwatch = self._unwatch, None
            waiting = [future for future in (self._next_list, self._fetching) if future is not None]
            self._next_list = self._fetching = self._changed = None
        if unwatch is not None:
            unwatch()
        for future in waiting:
            future.cancel()
        if link is not None:
            from toolyard.links.mcp import give_back

            give_back(link)

    def _connect(self) -> McpLink:
        from toolyard.links.mcp import lease
        from toolyard.links.mcp.options import limits_of

        with self._lock:
            if self._closed:
                raise SourceUnavailable(f"the source of {self._server.name} is closed")
            if self._link is None:
                self._link = lease(self._server, limits=limits_of(self._server), handlers=self._handlers)
                self._unwatch = self._link.watch(self._handle_event)
            return self._link

    def _handle_event(self, what: Literal["changed", "up", "down"]) -> None:
        if what == "changed" or (what == "up" and self._may_be_outdated):
            self._refetch()
        elif what == "down" and not self._may_be_outdated:
            self._may_be_outdated = True
            if self._changed is None:
                return
            failed: Future[Listing] = Future()
            link = self._link
            reason = None if link is None else link.error
            failed.set_exception(Unavailable(reason or f"the connection to {self._server.name} was lost"))
            self._announce(failed)

    def _announce(self, ahead: Future[Listing]) -> None:
        with self._lock:
            if self._link is None:
                return
            self._next_list, changed = ahead, self._changed
        if changed is not None:
            changed()

    def _refetch(self) -> None:
        with self._lock:
            if self._link is None:
                return
            if self._changed is None:
                self._missed_change = True
                return
            self._wants_fetch = True
            if self._fetching is None:
                self._fetching = link_loop.submit(self._fetch(self._link))

    async def _fetch(self, link: McpLink) -> None:
        try:
            await self._fetch_until_settled(link)
        except BaseException:
            # Whatever the reason, the next change must start a new fetch.
            with self._lock:
                self._fetching = None
            raise

    async def _fetch_until_settled(self, link: McpLink) -> None:
        pause = _MIN_PAUSE
        while self._begin_fetch():
            began = time.monotonic()
            ahead: Future[Listing] = Future()
            try:
                ahead.set_result(await link.alist_tools(timeout=self._timeout))
                pause = max(_MIN_PAUSE, _PAUSE_FACTOR * (time.monotonic() - began))
            except CallError as error:
                ahead.set_exception(error)
                # While the server is up but its list fails, no notification would cause another attempt.
                self._wants_fetch = self._wants_fetch or link.state == "up"
                pause = max(2 * pause, 1.0)
            except Exception as error:  # noqa: BLE001 - a bug here must not end the following
                _log.warning("listing the tools of %s failed unexpectedly", self._server.name, exc_info=True)
                ahead.set_exception(Unavailable(f"listing failed: {type(error).__name__}"))
                self._wants_fetch, pause = True, max(2 * pause, 1.0)
            self._announce(ahead)
            await asyncio.sleep(min(pause, _MAX_PAUSE))

    def _begin_fetch(self) -> bool:
        with self._lock:
            if not self._wants_fetch or self._link is None:
                self._fetching = None
                return False
            self._wants_fetch = False
            return True


_SHOWN_TO_PEOPLE = ("title", "annotations")
_SERVERS = "servers"


class NotApprovedError(DefinitionError):
    """The tool differs from the approved definition."""


def hash_definition(tool: Tool) -> str:
    """A hash of what the tool says about itself, including its title and annotations."""
    return digest(tool.definition_hash, *(tool.metadata.get(key) for key in _SHOWN_TO_PEOPLE))


class ApprovedDefinitions:
    """The entries of one server in a file that several may share: `{"servers": {server: {tool: hash}}}`.

    A server that is not in the file is trusted on first use, and so is a tool whose hash is null; the hashes are then
    added. A server is not trusted if the file has another one with the same name; `place` tells them apart.
    """

    def __init__(self, path: Path, name: str, place: str) -> None:
        self.path = path
        self._name = f"{name} "
        self._server = f"{name} {place}"
        self._known: dict[str, str | None] | None = None
        self._new: dict[str, str] = {}

    def start_load(self) -> None:
        """Read the file again at the start of a load."""
        document, self._known = self._read()
        self._new = {}
        others = [key for key in document[_SERVERS] if key.startswith(self._name) and key != self._server]
        if self._known is None and any(" " not in key.removeprefix(self._name) for key in others):
            _log.warning(
                "%s is reached in another way than when its tools were approved in %s: they must be approved again",
                self._name.rstrip(),
                self.path,
            )
            self._known = {}

    def check(self, key: str, tool: Tool) -> None:
        """`NotApprovedError` unless the tool has its approved definition, or is trusted on first use."""
        current = hash_definition(tool)
        if self._known is None:
            self._new[key] = current
            return
        approved = self._known.get(key, "")
        if approved is None:
            self._new[key] = current
        elif approved != current:
            what = "has changed since it was approved" if approved else "is new, and not approved yet"
            raise NotApprovedError(
                f"{what}; to approve it, call approve({tool.name!r}) of its loader, or set its entry in {self.path} "
                "to null, and load again"
            )

    def finish_load(self) -> None:
        """Save what was trusted in this load; approvals that were added to the file meanwhile take precedence."""
        if self._known is None or self._new:
            self._save(self._new, replace_known=False)

    def approve(self, entries: dict[str, str]) -> None:
        """Add entries, or replace older ones."""
        self._save(entries, replace_known=True)

    def _save(self, entries: dict[str, str], *, replace_known: bool) -> None:
        try:
            with lock_file(self.path):
                document, known = self._read()
                before = {key: value for key, value in (known or {}).items() if value is not None or key not in entries}
                merged = {**before, **entries} if replace_known else {**entries, **before}
                document[_SERVERS][self._server] = dict(sorted(merged.items()))
                replace_file(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        except OSError as error:
            raise SourceError(f"{self.path}: approvals cannot be written: {error.strerror}") from None

    def _read(self) -> tuple[dict[str, Any], dict[str, str | None] | None]:
        try:
            data = read_bytes(self.path)
        except SourceUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return {_SERVERS: {}}, None
            # Not the server: a source that cannot be reached is left out, and that would hide this.
            raise SourceError(str(error)) from None
        document = parse_json(data, what=str(self.path))
        servers = document.get(_SERVERS) if isinstance(document, dict) else None
        known = servers.get(self._server) if isinstance(servers, dict) else None
        whole = isinstance(servers, dict) and isinstance(known, dict | None)
        whole = whole and all(isinstance(item, str | None) for item in (known or {}).values())
        if not whole:
            raise MalformedSource('is no list of approvals: {"servers": {server: {tool: hash}}}', where=str(self.path))
        return document, known
