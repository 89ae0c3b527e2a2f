"""Bindings: how a tool is reached, attached by a source and read by the matching engine.

Sources and engines never import each other; these types are their only interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

Arguments = dict[str, Any]


class PythonBinding(msgspec.Struct, frozen=True, eq=False):
    """An in-process callable.

    `prepare` converts validated JSON arguments to the callable's positional and keyword arguments (models, dates,
    enums); None passes the JSON values as keywords unchanged. `finish` converts the return value to plain JSON.
    """

    callable: Callable[..., Any]
    is_async: bool = False
    takes_ctx: bool = False
    prepare: Callable[[Arguments], tuple[tuple[Any, ...], Arguments]] | None = None
    finish: Callable[[Any], Any] | None = None
    integers: tuple[str, ...] = ()
    """Keywords that the callable needs as int; JSON Schema accepts 3.0 as an integer."""
    returns: type | None = None
    """The class that a return value must be an instance of, if the tool declares one."""
    plain: bool = False
    """True if `finish` returns values that are already JSON unchanged."""
    blocking: bool = True
    """False for a sync callable that returns at once, so that it may run on an event loop."""
    simulates: bool = False
    """True if the callable also handles simulation: it reads `ctx.mode` and changes nothing when simulated."""
    left_out: tuple[str, ...] = ()
    """Parameters that are not in the schema and keep their default, since no JSON value fits their type."""


class ScriptBinding(msgspec.Struct, frozen=True):
    """A handler in a script file, run by a worker process."""

    directory: str
    file: str
    handler: str = "run"
    """The name of a function in the file, or its place in `TOOLS`, as `TOOLS[3]`."""
    sha256: str | None = None
    code: bytes = b""
    """The file's content when it was loaded, whose hash is `sha256`. Workers run these bytes, not the file."""
    settings: Any = None
    """Options of the worker process. Bindings with equal settings share one pool."""
    isolation: Literal["process", "inprocess"] = "process"
    timeout: float | None = None
    """Deadline of a call in seconds."""
    takes_ctx: bool = False
    is_async: bool = False
    simulates: bool = False
    """As `PythonBinding.simulates`."""

    def __repr__(self) -> str:
        # The code may be long and may contain secrets.
        return f"<ScriptBinding {self.handler} of {self.file} in {self.directory}>"


Location = Literal["path", "query", "header", "cookie"]
Style = Literal["simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"]


class RestParameter(msgspec.Struct, frozen=True, kw_only=True):
    """Where one argument is sent, and how it is serialised."""

    argument: str
    name: str
    """The parameter's name on the wire."""
    location: Location
    style: Style = "simple"
    explode: bool = False
    media_type: str | None = None
    """If set, the value is serialised as this instead of by `style` and `explode`."""
    allow_reserved: bool = False


OTHER_PARTS = ""
"""Key in `parts` for all properties that have no key."""


class RestPart(msgspec.Struct, frozen=True, kw_only=True):
    """How one property of a form or multipart body is serialised."""

    content_type: str | None = None
    style: Style | None = None
    explode: bool = True
    binary: bool = False
    """The argument is base64 text; the decoded bytes are sent."""
    text: bool = False
    """Text that is not base64 is allowed as well, and sent unchanged."""
    parts: Mapping[str, RestPart] = {}
    """Files inside an object, or inside the objects of an array; each is sent as a separate part, `name[field]`."""


class RestBody(msgspec.Struct, frozen=True, kw_only=True):
    """The request body: one argument unchanged, or an object assembled from several."""

    media_type: str
    argument: str | None = None
    properties: Mapping[str, str] = {}
    """Arguments to the body properties they fill; only if `argument` is None."""
    parts: Mapping[str, RestPart] = {}
    """Encodings by property, or `OTHER_PARTS`; properties without one are serialised by the type of their value."""
    required: bool = False
    binary: bool = False
    """The argument is base64 text; the decoded bytes are sent."""


class RestScheme(msgspec.Struct, frozen=True, kw_only=True):
    """One security scheme, as an API specification describes it."""

    type: Literal["bearer", "basic", "api_key", "oauth2", "other"]
    location: Location | None = None
    name: str = ""
    """The header, query parameter or cookie of an API key."""
    token_url: str | None = None
    scopes: tuple[str, ...] = ()


class RestBinding(msgspec.Struct, frozen=True):
    """One HTTP operation, and where each argument is sent."""

    method: str
    path: str
    """The path template; `{name}` is a path parameter."""
    base_url: str
    parameters: tuple[RestParameter, ...] = ()
    body: RestBody | None = None
    security: tuple[tuple[str, ...], ...] = ()
    """Alternatives, each a set of schemes that are required together; empty if no authentication is needed."""
    schemes: Mapping[str, RestScheme] = {}
    accepts: tuple[str, ...] = ()
    """Media types of successful responses."""
    named: tuple[str, ...] = ()
    """`host` or `host:port` that the operator configured as this API's address; it may be on a private network."""
    origins: tuple[str, ...] = ()
    """`scheme://host[:port]` that the operator configured; credentials without an explicit origin go nowhere else."""
    allowed: tuple[str, ...] = ()
    """Further hosts, private ones included, that requests may reach; this does not entitle them to credentials."""

    @property
    def locations(self) -> dict[str, tuple[str, str]]:
        """Arguments to their location and their name there."""
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
    """Its name in reports and errors: its address without a query, or `stdio: ` and its command."""
    url: str | None = None
    transport: Transport = "auto"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    auth: tuple[AuthField, ...] = ()
    """Auth options as in a config, `(("type", "bearer"), ("token", ...))`; empty for no authentication."""
    verify: bool = True
    ca: str | None = None
    cert: tuple[str, ...] = ()
    connect_seconds: float = 10.0
    """Time limit for starting or reaching the server, including the protocol handshake."""

    def __repr__(self) -> str:
        # Arguments, environment, headers, credentials and the query of an address may contain secrets.
        return f"<McpServer {self.name}>"


class McpBinding(msgspec.Struct, frozen=True):
    """A tool of an MCP server, by its name there."""

    server: str
    tool_name: str
    place: McpServer | None = None
    """How the server is reached; None to use the address of another tool with the same `server`."""
    mirrored: tuple[tuple[str, str], ...] = ()
    """Pairs of argument path (dotted) and header: the argument is also sent in this header."""


Binding = PythonBinding | ScriptBinding | RestBinding | McpBinding
