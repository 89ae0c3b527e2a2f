"""How a tool is reached: data that a source attaches and the matching engine reads.

Sources and engines never import each other; these types are all they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

Arguments = dict[str, Any]


class PythonBinding(msgspec.Struct, frozen=True, eq=False):
    """An in-process callable.

    `prepare` turns validated JSON arguments into the positional and keyword arguments the callable
    wants (models, dates, enums); None means the JSON values are passed as keywords as they are.
    `finish` turns what the callable returned into plain JSON for a `ToolResult`.
    """

    callable: Callable[..., Any]
    is_async: bool = False
    takes_ctx: bool = False
    prepare: Callable[[Arguments], tuple[tuple[Any, ...], Arguments]] | None = None
    finish: Callable[[Any], Any] | None = None
    integers: tuple[str, ...] = ()
    """Keywords the callable wants as int; JSON Schema lets 3.0 pass for one."""
    returns: type | None = None
    """The class an answer must be an instance of, where the tool promises one."""
    plain: bool = False
    """True when `finish` would leave an answer that is JSON already as it is."""
    blocking: bool = True
    """False for a sync callable that returns at once, so that an event loop may call it itself."""
    simulates: bool = False
    """True if it is called to be simulated, too, and changes nothing then: it looks at `ctx.mode`."""


class ScriptBinding(msgspec.Struct, frozen=True):
    """A handler in a script file, run by a worker process."""

    directory: str
    file: str
    handler: str = "run"
    """The name of a function of the file, or its place in `TOOLS`: `TOOLS[3]`."""
    sha256: str | None = None
    code: bytes = b""
    """What the file said when it was loaded, and what is run: the bytes of that hash."""
    settings: Any = None
    """How the worker process is made; equal for equal options: those who ask for the same share one pool."""
    isolation: Literal["process", "inprocess"] = "process"
    timeout: float | None = None
    """Deadline of a call in seconds."""
    takes_ctx: bool = False
    is_async: bool = False
    simulates: bool = False
    """As of a function: it is called to be simulated, too, and looks at `ctx.mode`."""

    def __repr__(self) -> str:
        # The code may be long, and may hold secrets.
        return f"<ScriptBinding {self.handler} of {self.file} in {self.directory}>"


Location = Literal["path", "query", "header", "cookie"]
Style = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]


class RestParameter(msgspec.Struct, frozen=True, kw_only=True):
    """Where one argument goes, and how it is written there."""

    argument: str
    name: str
    """On the wire."""
    location: Location
    style: Style = "simple"
    explode: bool = False
    media_type: str | None = None
    """The value is written as this, instead of by style and explode."""
    allow_reserved: bool = False


OTHER_PARTS = ""
"""Among parts by name: that of all properties which are not named."""


class RestPart(msgspec.Struct, frozen=True, kw_only=True):
    """How one property of a form or multipart body is written."""

    content_type: str | None = None
    style: Style | None = None
    explode: bool = True
    binary: bool = False
    """The argument is base64 text; what is sent are the bytes."""
    text: bool = False
    """Other text than base64 is allowed, too, and sent as it is."""
    parts: Mapping[str, RestPart] = {}
    """Files inside an object, or inside the objects of an array; each is a part of its own, `name[field]`."""


class RestBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent as the body: one argument as it is, or an object made of several."""

    media_type: str
    argument: str | None = None
    properties: Mapping[str, str] = {}
    """Arguments and the properties of the body they become; only where `argument` is None."""
    parts: Mapping[str, RestPart] = {}
    """By property, or `OTHER_PARTS`; those not named are written as their values ask for."""
    required: bool = False
    binary: bool = False
    """The argument is base64 text; what is sent are the bytes."""


class RestScheme(msgspec.Struct, frozen=True, kw_only=True):
    """One way of saying who asks, as a specification describes it."""

    type: Literal["bearer", "basic", "api_key", "oauth2", "other"]
    location: Location | None = None
    name: str = ""
    """Of the header, query parameter or cookie of an API key."""
    token_url: str | None = None
    scopes: tuple[str, ...] = ()


class RestBinding(msgspec.Struct, frozen=True):
    """One HTTP operation, and where each argument goes."""

    method: str
    path: str
    """The template; `{name}` stands for a path parameter."""
    base_url: str
    parameters: tuple[RestParameter, ...] = ()
    body: RestBody | None = None
    security: tuple[tuple[str, ...], ...] = ()
    """Alternatives, each the schemes it needs together; none at all if nobody need say who asks."""
    schemes: Mapping[str, RestScheme] = {}
    accepts: tuple[str, ...] = ()
    """Media types of the answers that mean success."""
    named: tuple[str, ...] = ()
    """`host` or `host:port` that the operator named in the config as where this goes; it may therefore be private."""
    origins: tuple[str, ...] = ()
    """`scheme://host[:port]` of what the operator named: where credentials without an origin of their own may go."""
    allowed: tuple[str, ...] = ()
    """Further hosts that the operator allows to be reached, private ones too; that makes them nobody to be trusted."""

    @property
    def locations(self) -> dict[str, tuple[str, str]]:
        """Each argument with where it goes and its name there."""
        found = {item.argument: (str(item.location), item.name) for item in self.parameters}
        if self.body is not None and self.body.argument is not None:
            found[self.body.argument] = ("body", "")
        elif self.body is not None:
            found |= {argument: ("body", name) for argument, name in self.body.properties.items()}
        return found


Transport = Literal["auto", "http", "sse", "stdio"]
AuthField = tuple[str, str | tuple[str, ...]]


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """How an MCP server is reached. Equal servers share one connection."""

    name: str
    """What reports and errors call it: its address without a query, or `stdio: ` and its command."""
    url: str | None = None
    transport: Transport = "auto"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    auth: tuple[AuthField, ...] = ()
    """As in a config, `(("type", "bearer"), ("token", ...))`; empty if nobody need say who asks."""
    verify: bool = True
    ca: str | None = None
    cert: tuple[str, ...] = ()
    connect_seconds: float = 10.0
    """For starting or reaching it, and agreeing on a protocol."""

    def __repr__(self) -> str:
        # Arguments, environment, headers and credentials may hold secrets, and so may the query of an address.
        return f"<McpServer {self.name}>"


class McpBinding(msgspec.Struct, frozen=True):
    """A tool of an MCP server, by its name there."""

    server: str
    tool_name: str
    place: McpServer | None = None
    """How the server is reached; None: as any other tool of a server of that name."""
    mirrored: tuple[tuple[str, str], ...] = ()
    """Arguments that are repeated in a header, by their path with dots, and the name of the header."""


Binding = PythonBinding | ScriptBinding | RestBinding | McpBinding
