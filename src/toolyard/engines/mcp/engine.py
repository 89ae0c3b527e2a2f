"""`MCPToolEngine`: real calls of MCP tools, over connections that are kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.engines.options import McpEngineOptions, OutwardOptions
from toolyard.engines.outward import OutwardEngine
from toolyard.model.bindings import McpBinding, McpServer
from toolyard.model.call import ToolCall
from toolyard.model.context import Notice, Notify, Progress
from toolyard.model.errors import CallError, ConfigError, NoEngine
from toolyard.model.names import show
from toolyard.model.tool import Effects, Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.options import option_type, read_value
from toolyard.sessions.store import Key
from toolyard.words.redactor import Redactor

if TYPE_CHECKING:
    from toolyard.engines.mcp.connections import Borrowed, Links
    from toolyard.links.mcp import McpLink

Connection = Literal["shared", "per_session"]
OnProgress = Callable[[ToolCall, Progress], None]

_WAYS = ("shared", "per_session")
_MAX_ROUTES = 8192
_log = logging.getLogger(__name__)


class _Route:
    """Where a tool is, and how its answers are read."""

    __slots__ = ("binding", "redactor", "server", "shared", "tool", "wrapped")

    def __init__(self, tool: Tool, binding: McpBinding, server: McpServer, redactor: Redactor, wrapped: bool) -> None:
        self.tool = tool
        self.binding = binding
        self.server = server
        self.redactor = redactor
        self.wrapped = wrapped
        self.shared: Borrowed | None = None


@register_tool_engine("mcp")
class MCPToolEngine(OutwardEngine):
    """Calls tools of MCP servers, each over the connection that its source keeps.

    `url` or `command` and what goes with them, as for `MCPToolLoader`, stand for the server of every tool. With
    `connection="per_session"` each session has a connection of its own, for servers that remember what was said;
    it ends with the session.

    `on_progress` is told how far calls have got. `sampling`, `elicitation` and `roots` answer what a server asks for,
    each given the request's params; roots may be a list of folders. Without them a server is refused.

    Structured content is a call's value; text stays text, unless `json_text` says that JSON in it is meant. Pictures,
    sound and resources are kept as blocks beside it.
    """

    option_structs: ClassVar[tuple[type, ...]] = (
        McpEngineOptions,
        OutwardOptions,
    )

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
        connect_timeout: float = 10.0,
        connection: Connection = "shared",
        max_session_connections: int = 100,
        on_progress: OnProgress | None = None,
        sampling: Any = None,
        elicitation: Any = None,
        roots: Any = None,
        json_text: bool = False,
        timeout: float | None = 60.0,
        retries: int = 2,
        **settings: Any,
    ) -> None:
        super().__init__(registry, timeout=timeout, retries=retries, **settings)
        reach: dict[str, Any] = {"args": args, "env": env, "cwd": cwd, "headers": headers, "auth": auth}
        reach |= {"transport": transport, "verify": verify, "ca": ca, "cert": cert, "connect_timeout": connect_timeout}
        self.server = _own_server(url, command, reach)
        if connection not in _WAYS:
            raise ConfigError(f"connection must be one of {', '.join(_WAYS)}; not {connection!r}")
        if on_progress is not None and not callable(on_progress):
            raise ConfigError("on_progress must be a function")
        self.connection: Connection = connection
        self._on_progress = on_progress
        self._json_text = read_value(option_type(bool), json_text, "json_text")
        self._links = _links(sampling, elicitation, roots, max_session_connections)
        self._routes: dict[int, _Route] = {}
        self._redactors: dict[McpServer, Redactor] = {}
        self._lock = threading.Lock()
        self._root: ToolEngine = self
        for secret in self.secrets:
            self._path.redactor.add(secret)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the config gave that must be shown nowhere, here and at the sources of its tools."""
        bindings = [tool.binding for tool in self.tool_registry if type(tool.binding) is McpBinding]
        places = dict.fromkeys(binding.place for binding in bindings if binding.place is not None)
        servers = [*places, *([self.server] if self.server is not None else [])]
        if not servers:
            return ()
        from toolyard.links.mcp.options import secrets_of

        return tuple(dict.fromkeys(secret for server in servers for secret in secrets_of(server)))

    def takes(self, tool: Tool) -> bool:
        """Only tools of MCP servers, and of those it knows how to reach."""
        binding = tool.binding
        if type(binding) is not McpBinding:
            return False
        return self._place(binding) is not None

    def blocks(self, tool: Tool) -> bool:
        """Never: `answer` gives a coroutine where a loop runs, and elsewhere keeps the deadline by itself."""
        return False

    def joined(self, root: ToolEngine) -> None:
        """From then on, that one's tools are meant."""
        self._root = root

    def answer(self, invocation: Invocation) -> Any:
        """The answer's value; where an event loop runs, a coroutine for it."""
        import asyncio

        route = self._route(invocation.tool)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            looping = False
        else:
            looping = True
        # Outside of the handler, whose exception would pass for the cause of whatever goes wrong now.
        return self._aanswer(invocation, route) if looping else self._answer(invocation, route)

    def _answer(self, invocation: Invocation, route: _Route) -> Any:
        borrowed = self._borrowed(invocation, route)
        try:
            found = borrowed.link.call(
                route.binding.tool_name, invocation.arguments, **self._conditions(invocation, route)
            )
            return self._read(found, route)
        except CallError as error:
            raise self._clean(error, route, borrowed.link) from None
        finally:
            borrowed.done()

    async def _aanswer(self, invocation: Invocation, route: _Route) -> Any:
        borrowed = self._borrowed(invocation, route)
        try:
            found = await borrowed.link.acall(
                route.binding.tool_name, invocation.arguments, **self._conditions(invocation, route)
            )
            return self._read(found, route)
        except CallError as error:
            raise self._clean(error, route, borrowed.link) from None
        finally:
            borrowed.done()

    def _read(self, answer: Any, route: _Route) -> Any:
        from toolyard.engines.mcp.answer import read_answer

        tool = route.tool
        return read_answer(
            answer,
            route.server.name,
            tool.output_parameters,
            wrapped=route.wrapped,
            json_text=self._json_text,
            effect="none" if tool.effects is Effects.READ else "unknown",
        )

    def _clean(self, error: CallError, route: _Route, link: McpLink) -> CallError:
        from toolyard.engines.mcp.answer import cleaned

        # Tokens that were got meanwhile are known to the link alone, and come and go.
        return cleaned(cleaned(error, route.redactor), Redactor(link.passing_secrets))

    def _conditions(self, invocation: Invocation, route: _Route) -> dict[str, Any]:
        return {
            "deadline": invocation.deadline,
            "notify": self._notify(invocation),
            "mirrored": route.binding.mirrored,
            "reads": route.tool.effects is Effects.READ,
        }

    def _borrowed(self, invocation: Invocation, route: _Route) -> Borrowed:
        if self.connection == "per_session" and invocation.session_id:
            return self._links.own(route.server, invocation.session.key)
        # A call in no session has nothing that a later one could find again.
        if route.shared is None:
            route.shared = self._links.shared(route.server)
        return route.shared

    def _notify(self, invocation: Invocation) -> Notify | None:
        told = self._on_progress
        if told is None:
            return invocation.listener
        call = invocation.call

        def notify(notice: Notice) -> None:
            invocation.notify(notice)
            if isinstance(notice, Progress):
                try:
                    told(call, notice)
                except Exception:  # noqa: BLE001 - somebody else's code, and the call goes on
                    _log.exception("on_progress of engine %r failed", self.name)

        return notify

    def _route(self, tool: Tool) -> _Route:
        known = self._routes.get(id(tool))
        if known is not None and known.tool is tool:
            return known
        from toolyard.dialects.mcp_wrapping import is_wrapped

        binding = tool.binding
        if type(binding) is not McpBinding:
            raise NoEngine(
                f"{tool.qualified_name} has no MCP server behind it",
                hint="load the tool with MCPToolLoader, or give its source another engine",
            )
        server = self._place(binding)
        if server is None:
            raise NoEngine(
                f"no MCP server is known here as {show(binding.server)}, where {tool.qualified_name} is said to be",
                hint="it is called by its address, by 'stdio: ' and its command, or by the namespace of its tools",
            )
        route = _Route(tool, binding, server, self._hiding(server), is_wrapped(tool.output_parameters))
        if self.server is None and binding.place is None:
            return route  # where it is may be another place after the next change of the registry
        with self._lock:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            # The tool stays with it, so that its id is not given to another.
            self._routes[id(tool)] = route
        return route

    def _hiding(self, server: McpServer) -> Redactor:
        """Hides what the server was given; traces and logs are told, too, before it is first called."""
        from toolyard.links.mcp.options import secrets_of

        with self._lock:
            if server not in self._redactors:
                secrets = secrets_of(server)
                for secret in secrets:
                    self._root._path.redactor.add(secret)
                self._redactors[server] = Redactor(secrets)
            return self._redactors[server]

    def _place(self, binding: McpBinding) -> McpServer | None:
        """Where the tool is: the server of that name, or behind a namespace of that name, as other tools know it."""
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
        """Hang up what was the session's own."""
        super().ended(session_id, owner)
        self._links.ended(Key(owner or "", session_id))

    def close(self) -> None:
        """Hang up; a connection that a source shares stays until that is closed too."""
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
    from toolyard.links.mcp.options import read_server

    return read_server(url, command, **reach)


def _links(sampling: Any, elicitation: Any, roots: Any, most: Any) -> Links:
    from toolyard.engines.mcp.connections import Links

    if type(most) is not int or most < 1:
        raise ConfigError(f"max_session_connections must be a whole number of at least 1, not {most!r}")
    if sampling is None and elicitation is None and roots is None:
        return Links(None, most)
    from toolyard.links.mcp.options import read_handlers

    return Links(read_handlers(sampling, elicitation, roots), most)
