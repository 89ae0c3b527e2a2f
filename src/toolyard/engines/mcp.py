"""`MCPToolEngine`: calls tools of MCP servers over persistent connections."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from toolyard.calls.batch import check_listener, notify_safely
from toolyard.calls.flow import drive_or_await
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import redact_info
from toolyard.calls.waits import Flow, WaitPair
from toolyard.dialects.mcp import read_answer
from toolyard.engines.effectful import OutwardEngine
from toolyard.links.mcp import Handlers, McpLink, give_back, lease
from toolyard.links.mcp.options import limits_of, read_handlers, read_server, secrets_of
from toolyard.loop.home import link_loop
from toolyard.loop.threads import reset_after_fork
from toolyard.model.bindings import McpBinding, McpServer
from toolyard.model.call import Notice, Notify, Progress, ToolCall
from toolyard.model.errors import CallError, ConfigError, NoEngine, Unavailable
from toolyard.model.names import show
from toolyard.model.tool import Effects, Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.common_options import McpServerOptions
from toolyard.schema.options import read_arguments
from toolyard.sessions.store.base import Key
from toolyard.words.redactor import Redactor

Connection = Literal["shared", "per_session"]
OnProgress = Callable[[ToolCall, Progress], None]

_log = logging.getLogger(__name__)


SessionConnections = Annotated[
    int,
    Meta(ge=1, description="Session connections that are kept; beyond that, the least recently used is closed."),
]


@register_tool_engine("mcp")
class MCPToolEngine(OutwardEngine):
    """Calls tools of MCP servers over the connections of their sources.

    `url` or `command`, with the same options as `MCPToolLoader`, overrides the server of every tool. With
    `connection="per_session"` each session has its own connection, for servers that keep state per connection; it is
    closed when the session ends.

    `on_progress` is called with progress notifications. `sampling`, `elicitation` and `roots` handle requests from the
    server, each called with the request's params; roots may be a list of folders. Requests without a handler are
    refused.

    Structured content is returned as the value; text is returned as text, unless `json_text` asks for JSON in it to be
    parsed. Images, audio and resources are kept as content blocks beside the value.
    """

    option_structs: ClassVar[tuple[type, ...]] = (McpServerOptions,)

    type_name = "mcp"

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        url: str | None = None,
        *,
        command: str | Sequence[str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        transport: str = "auto",
        headers: Mapping[str, str] | None = None,
        auth: Mapping[str, Any] | None = None,
        verify: bool = True,
        ca: str | None = None,
        cert: str | Sequence[str] | None = None,
        connect_timeout: float | None = None,
        connection: Annotated[
            Connection, Meta(description="Whether sessions share one connection or have their own.")
        ] = "shared",
        max_session_connections: SessionConnections = 100,
        on_progress: Annotated[
            OnProgress | None, Meta(description="Function that receives progress of calls; only from Python.")
        ] = None,
        sampling: Any = None,
        elicitation: Any = None,
        roots: Any = None,
        json_text: Annotated[bool, Meta(description="Parse JSON in text content as a value.")] = False,
        timeout: float | None = 60.0,
        retries: int = 2,
        **settings: Any,
    ) -> None:
        super().__init__(registry, timeout=timeout, retries=retries, **settings)
        reach: dict[str, Any] = {"args": args, "env": env, "cwd": cwd, "headers": headers, "auth": auth}
        reach |= {"transport": transport, "verify": verify, "ca": ca, "cert": cert, "connect_timeout": connect_timeout}
        self.server = _own_server(url, command, reach)
        read = read_arguments(
            MCPToolEngine,
            connection=connection,
            max_session_connections=max_session_connections,
            json_text=json_text,
        )
        if on_progress is not None:
            check_listener(on_progress, "on_progress")
        self.connection: Connection = connection
        self._on_progress = on_progress
        self._json_text = read["json_text"]
        self._links = LinkPool(read_handlers(sampling, elicitation, roots), read["max_session_connections"])
        self._hidden: set[McpServer] = set()
        """Servers whose secrets have been added to the redactor."""
        self._hide_secrets(self.secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets configured for this engine and for the sources of its tools."""
        bindings = [tool.binding for tool in self.tool_registry if type(tool.binding) is McpBinding]
        places = dict.fromkeys(binding.place for binding in bindings if binding.place is not None)
        servers = [*places, *([self.server] if self.server is not None else [])]
        return tuple(dict.fromkeys(secret for server in servers for secret in secrets_of(server)))

    def takes(self, tool: Tool) -> bool:
        """True for tools of MCP servers whose server can be determined."""
        binding = tool.binding
        if type(binding) is not McpBinding:
            return False
        return self._find_server(binding) is not None

    def blocks(self, tool: Tool) -> bool:
        """False: `answer` returns a coroutine on an event loop, and enforces the deadline itself elsewhere."""
        return False

    def answer(self, invocation: Invocation) -> Any:
        """The value; if an event loop is running, a coroutine for it."""
        return drive_or_await(self._call_tool(invocation))

    def _call_tool(self, invocation: Invocation) -> Flow:
        tool, arguments = invocation.tool, invocation.arguments
        binding, server = self._resolve_server(tool)
        reads = tool.effects is Effects.READ
        execution = tool.metadata.get("execution")
        conditions: dict[str, Any] = {
            "deadline": invocation.deadline,
            "notify": self._make_notifier(invocation),
            "mirrored": binding.mirrored,
            "reads": reads,
            "as_task": isinstance(execution, dict) and execution.get("taskSupport") == "required",
        }
        # Without a session there is no later call that could use state kept in the connection.
        per_session = self.connection == "per_session" and invocation.session_id
        with self._links.borrow(server, invocation.session.key if per_session else None) as link:
            try:
                found = yield WaitPair(
                    lambda: link.call(binding.tool_name, arguments, **conditions),
                    lambda: link.acall(binding.tool_name, arguments, **conditions),
                )
                invocation.secrets = link.secrets.credentials
                return read_answer(
                    *(found, server.name, tool.output_parameters),
                    json_text=self._json_text,
                    effect="none" if reads else "unknown",
                )
            except CallError as error:
                # Tokens obtained meanwhile are known only to the link, and they change.
                raise redact_error(error, link.secrets.redactor) from None

    def _make_notifier(self, invocation: Invocation) -> Notify | None:
        on_progress = self._on_progress
        if on_progress is None:
            return invocation.listener
        call = invocation.call

        def notify(notice: Notice) -> None:
            invocation.notify(notice)
            if isinstance(notice, Progress):
                notify_safely(on_progress, call, notice)

        return notify

    def _resolve_server(self, tool: Tool) -> tuple[McpBinding, McpServer]:
        binding = tool.binding
        if type(binding) is not McpBinding:
            raise NoEngine(
                f"{tool.qualified_name} has no MCP server behind it",
                hint="load the tool with MCPToolLoader, or give its source another engine",
            )
        server = self._find_server(binding)
        if server is None:
            raise NoEngine(
                f"the MCP server of {tool.qualified_name}, {show(binding.server)}, is not known here",
                hint="name it by its URL, by 'stdio: ' and its command, or by the namespace of its tools",
            )
        if server not in self._hidden:
            self._root._hide_secrets(secrets_of(server))
            self._hidden.add(server)
        return binding, server

    def _find_server(self, binding: McpBinding) -> McpServer | None:
        """The server of the tool: by name, else by namespace, as known from the bindings of other tools."""
        known = self.server or binding.place
        if known is not None:
            return known
        name = binding.server
        by_namespace: dict[McpServer, None] = {}
        for tool in self._root.tool_registry:
            other = tool.binding
            if type(other) is McpBinding and other.place is not None:
                if other.server == name:
                    return other.place
                if tool.namespace == name:
                    by_namespace[other.place] = None
        return next(iter(by_namespace)) if len(by_namespace) == 1 else None

    def ended(self, session_id: str, owner: str | None = None) -> None:
        """Close the connections of the session."""
        super().ended(session_id, owner)
        self._links.ended(Key(owner or "", session_id))

    def close(self) -> None:
        """Close all connections; one shared with a source stays open until the source is closed, too."""
        self._links.close()
        super().close()

    async def aclose(self) -> None:
        """`close` for async code."""
        import asyncio

        await asyncio.to_thread(self._links.close)
        super().close()


def _own_server(url: Any, command: Any, reach: dict[str, Any]) -> McpServer | None:
    if url is None and command is None:
        given = [name for name in ("args", "env", "cwd", "headers", "auth", "ca", "cert") if reach[name]]
        if given:
            raise ConfigError(f"{given[0]} is for one server: say which by url or command, or give it to the source")
        return None
    return read_server(url, command, **reach)


def redact_error(error: CallError, redactor: Redactor) -> CallError:
    """The same error with secrets replaced."""
    clean = redact_info(error.info, redactor.value)
    if clean != error.info:
        error.args = (clean.message,)
        error.info = clean
        error.__cause__ = None
        error.__suppress_context__ = True
    return error


_CLOSING_SECONDS = 10.0


class _SessionLink(msgspec.Struct, eq=False):
    """The connection of one session, and the number of calls in progress on it."""

    link: McpLink
    calls: int = 0


class LinkPool:
    """Open connections. Sessions have at most `max_sessions` of them; the least recently used one is closed."""

    def __init__(self, handlers: Handlers, max_sessions: int) -> None:
        self._handlers = handlers
        self._max_sessions = max_sessions
        self._lock = threading.Lock()
        self._shared: dict[McpServer, McpLink] = {}
        self._own: OrderedDict[tuple[Key, McpServer], _SessionLink] = OrderedDict()
        self._closing: set[Future[None]] = set()
        self._closed = False
        reset_after_fork(self)

    def reset_in_child(self) -> None:
        """Reset in a forked child, where no call is in progress and no connection is being closed."""
        self._lock = threading.Lock()
        self._closing = set()
        for own in self._own.values():
            own.calls = 0

    @contextmanager
    def borrow(self, server: McpServer, session: Key | None) -> Iterator[McpLink]:
        """A connection for the duration of one call: that of the session, or the shared one if `session` is None."""
        if session is None:
            yield self.shared(server)
            return
        own = self._begin_call(server, session)
        try:
            yield own.link
        finally:
            with self._lock:
                own.calls -= 1

    def shared(self, server: McpServer) -> McpLink:
        """The shared connection to the server."""
        with self._lock:
            self._check_open(server)
            if server not in self._shared:
                self._shared[server] = lease(server, limits=limits_of(server), handlers=self._handlers)
            return self._shared[server]

    def _begin_call(self, server: McpServer, session: Key) -> _SessionLink:
        with self._lock:
            self._check_open(server)
            own = self._own.get((session, server))
            if own is None:
                self._make_room(server)
                own = _SessionLink(McpLink(server, limits=limits_of(server), handlers=self._handlers))
                self._own[session, server] = own
            self._own.move_to_end((session, server))
            own.calls += 1
            return own

    def ended(self, session: Key) -> None:
        """Close the connections of a session that has ended, without waiting."""
        with self._lock:
            for key in [key for key in self._own if key[0] == session]:
                self._close_link(self._own.pop(key))

    def close(self) -> None:
        """Close the connections of sessions, and release the shared ones."""
        with self._lock:
            self._closed = True
            for own in self._own.values():
                self._close_link(own)
            self._own.clear()
            shared, self._shared = list(self._shared.values()), {}
            closing = set(self._closing)
        for link in shared:
            give_back(link)
        wait(closing, timeout=_CLOSING_SECONDS)

    def _check_open(self, server: McpServer) -> None:
        if self._closed:
            raise Unavailable(f"the engine that calls {server.name} is closed", retryable=False)

    def _make_room(self, server: McpServer) -> None:
        if len(self._own) < self._max_sessions:
            return
        idle = next((key for key, own in self._own.items() if own.calls == 0), None)
        if idle is None:
            raise Unavailable(
                f"{self._max_sessions} sessions have their own connection to servers such as {server.name}, all in use",
                hint="try again later, or raise max_session_connections",
            )
        _log.warning("session %s lost its connection to %s to make room for another", idle[0].session_id, idle[1].name)
        self._close_link(self._own.pop(idle))

    def _close_link(self, own: _SessionLink) -> None:
        future = link_loop.submit(own.link.aclose())
        self._closing.add(future)
        future.add_done_callback(self._closing.discard)
