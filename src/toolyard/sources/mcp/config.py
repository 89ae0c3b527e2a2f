"""`MCPConfigToolLoader`: the servers in the JSON file of desktop clients, one namespace for each.

{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}, "wiki": {"url": "https://wiki.example/mcp"}}}
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource, SourceUnavailable, ToolyardError
from toolyard.model.json_schema import json_type, pointer_of
from toolyard.model.names import show
from toolyard.model.report import Rejection, Rewrite, SourceReport
from toolyard.model.tool import Tool
from toolyard.parsing import parse_json, read_bytes
from toolyard.schema.admission import AdmittedTool
from toolyard.schema.common_options import ConnectTimeout
from toolyard.schema.options import expand, expand_place, read_arguments
from toolyard.sources.base import ToolLoader
from toolyard.sources.mcp.loader import ApprovedFile, ListTimeout, MCPToolLoader

MAX_BYTES = 4 * 1024 * 1024
_LIST_KEYS = ("mcpServers", "servers")
_SERVER_KEYS = ("command", "args", "env", "cwd", "url", "headers", "auth", "transport", "type", "timeout")
_KEY_SPELLINGS = {"serverUrl": "url", "httpUrl": "url"}
_TYPES = {"http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse", "stdio": "stdio"}
_IGNORED_KEYS = frozenset({"disabled", "enabled", "name", "description"})


class _Server:
    """One server of the file."""

    def __init__(self, name: str, options: dict[str, Any], source: str, rewrites: tuple[Rewrite, ...]) -> None:
        self.name = name
        self.options = options
        self.loader = MCPToolLoader(**options)
        self.loader.label = source
        self.rewrites = rewrites
        self.admitted: tuple[AdmittedTool, ...] = ()
        self.report = SourceReport(name)
        self.failure: ToolyardError | None = None
        self.has_changed = False
        """True if the server reported a change since its last load."""

    def load(self) -> None:
        """Load its tools again; if that fails, the tools of the last load stay."""
        self.has_changed = False
        try:
            self.loader.load()
        except ToolyardError as error:
            self.failure = error
        else:
            self.failure, self.admitted, self.report = None, tuple(self.loader.admitted), self.loader.report

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the server changes, after noting that it did."""

        def note_change() -> None:
            self.has_changed = True
            changed()

        self.loader.watch(note_change)


class MCPConfigToolLoader(ToolLoader):
    """Loads the tools of every server in an MCP client's file. A server's name is its namespace.

    A server that fails is reported, and the tools of its last load stay; the load fails if all servers do. The file is
    read again on refresh; connections to unchanged servers are kept. Relative paths are resolved against the file's
    folder; `${NAME}` and `${NAME:-default}` are replaced from the environment. `approved` is as for one server. With
    `namespace`, one name or several, and `namespaces="locked"`, servers with other names are rejected.
    """

    def __init__(
        self,
        path: Annotated[str | Path, Meta(description="Path of the file, in the format of MCP clients.")],
        *,
        namespace: Annotated[
            str | Sequence[str] | None, Meta(description="Allowed names of the servers in the file; by default any.")
        ] = None,
        namespaces: str = "open",
        timeout: ListTimeout = 30.0,
        connect_timeout: ConnectTimeout = None,
        approved: ApprovedFile = None,
        on_error: str = "skip",
        on_duplicate: str = "skip",
    ) -> None:
        self.path = Path(expand_place(path, "path"))
        read_arguments(MCPConfigToolLoader, timeout=timeout, connect_timeout=connect_timeout)
        self._options: dict[str, Any] = {"timeout": timeout, "connect_timeout": connect_timeout, "approved": approved}
        self._options["namespaces"] = namespaces
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        self._servers: list[_Server] = []
        self._changed: Callable[[], None] | None = None
        self._rejected: list[Rejection] = []
        self._list_key = _LIST_KEYS[0]
        self._lock = threading.Lock()
        self._closed = False

    @property
    def source(self) -> str:
        """The file's path, as given."""
        return str(self.path)

    @property
    def servers(self) -> dict[str, MCPToolLoader]:
        """The loader of each enabled server, by name; empty until the file is read."""
        return {server.name: server.loader for server in self._servers}

    @property
    def comes_back(self) -> bool:
        """True if errors are skipped and the file could be read, since its servers may become available later."""
        return self.on_error == "skip" and bool(self._servers)

    def prepare(self) -> None:
        """Start connecting to all servers."""
        with suppress(ToolyardError, OSError):  # reported by `load`
            self._read_file()
            for server in self._servers:
                server.loader.prepare()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when any server changes."""
        self._check_open()
        self._changed = changed
        for server in self._servers:
            server.watch(changed)

    def load(self) -> list[Tool]:
        """The tools of every server that responds. After changes were reported, only those servers are asked again."""
        self._check_open()
        chosen = [server for server in self._servers if server.has_changed]
        if not chosen:
            self._read_file()
            chosen = self._servers
        servers = self._servers
        for server in chosen:
            server.loader.prepare()
        for server in chosen:
            server.load()
        rejected = list(self._rejected)
        failures: list[ToolyardError] = []
        for server in servers:
            rejected += server.report.rejected
            if server.failure is not None:
                kept = f"; the {len(server.admitted)} tools it gave last are kept" if server.admitted else ""
                failures.append(server.failure)
                kind = type(server.failure).__name__
                rejected.append(Rejection(self._place_of(server.name), f"{server.failure}{kept}", None, kind))
        if failures and (self.on_error == "raise" or len(failures) == len(servers)):
            raise SourceUnavailable(f"{self.source}: {'; '.join(map(str, failures))}")
        self.admitted = [candidate for server in servers for candidate in server.admitted]
        rewrites = [rewrite for server in servers for rewrite in (*server.rewrites, *server.report.rewrites)]
        self._report = SourceReport(self.source, len(self.admitted), tuple(rewrites), tuple(rejected))
        return [candidate.tool for candidate in self.admitted]

    def close(self) -> None:
        """Close all connections permanently."""
        with self._lock:
            self._closed = True
            servers = self._servers
        for server in servers:
            server.loader.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SourceUnavailable(f"{self.source} is closed")

    def _read_file(self) -> None:
        """Read the file again; unchanged servers stay connected."""
        found = self._read_servers(parse_json(read_bytes(self.path, max_bytes=MAX_BYTES), what=self.source))
        with self._lock:
            # If the source was closed meanwhile, the new servers would never be closed; they are not connected yet.
            self._check_open()
            before, self._servers = self._servers, found
        for server in before:
            if server not in found:
                server.loader.close()
        for server in found:
            if server not in before and self._changed is not None:
                server.watch(self._changed)

    def _read_servers(self, document: Any) -> list[_Server]:
        key = next((key for key in _LIST_KEYS if isinstance(document, dict) and key in document), None)
        if key is None or not isinstance(document[key], dict):
            raise MalformedSource('needs {"mcpServers": {name: {"command": ...} or {"url": ...}}}', where=self.source)
        self._list_key = key
        self._rejected = [
            Rejection(f"{self.source}#{pointer_of([other])}", "this key means nothing here", None)
            for other in document
            if other != key
        ]
        found: list[_Server] = []
        for name, entry in document[key].items():
            try:
                server = self._read_server(name, entry)
                if server is not None:
                    found.append(server)
            except (ConfigError, DefinitionError) as error:
                if self.on_error == "raise":
                    raise MalformedSource(str(error), where=self._place_of(name)) from None
                self._rejected.append(Rejection(self._place_of(name), str(error), None, type(error).__name__))
        return found

    def _read_server(self, name: str, entry: Any) -> _Server | None:
        if not isinstance(entry, dict):
            raise ConfigError(f"a server must be an object, not {json_type(entry)}")
        if entry.get("disabled") is True or entry.get("enabled") is False:
            self._rejected.append(Rejection(self._place_of(name), "this server is disabled", None, "Disabled"))
            return None
        warning = self._check_namespace(name)
        entry = {_KEY_SPELLINGS.get(key, key): value for key, value in entry.items()}
        unknown = [key for key in entry if key not in _SERVER_KEYS and key not in _IGNORED_KEYS]
        rewrites = tuple(Rewrite(name, pointer_of([key]), "this key means nothing here") for key in unknown)
        if warning is not None:
            rewrites = (*rewrites, Rewrite(name, "", warning))
        options = {key: expand(entry[key], where=key) for key in _SERVER_KEYS if entry.get(key) is not None}
        kind = options.pop("type", None)
        if kind is not None:
            if kind not in _TYPES:
                raise ConfigError(f"type must be one of {', '.join(_TYPES)}; not {show(kind)}")
            options.setdefault("transport", _TYPES[kind])
        if "command" in options:
            options["cwd"] = str((self.path.parent / options.get("cwd", "")).absolute())
        # The unit differs between programs: seconds in some, milliseconds in others.
        if options.pop("timeout", None) is not None:
            rewrites = (*rewrites, Rewrite(name, "/timeout", "left out; give timeout to the source instead"))
        options = {**self._options, **options, "namespace": name, "on_error": self.on_error}
        known = next((server for server in self._servers if server.name == name), None)
        if known is not None and known.options == options:
            return known
        return _Server(name, options, self.source, rewrites)

    def _place_of(self, name: str) -> str:
        return f"{self.source}#{pointer_of([self._list_key, name])}"
