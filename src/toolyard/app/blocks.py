"""What a config may say: `server` with its `mcp`, `sessions`, and an entry of `tools:`; and what makes it one.

A config is told from a catalog by its blocks: a misspelt key must not turn the one into the other and lose the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.links.http.addresses import Blocked
from toolyard.links.http.url import read_url
from toolyard.model.errors import ConfigError
from toolyard.model.names import nearest
from toolyard.schema.options import Text, check_fields
from toolyard.sessions.sessions import MAX_BYTES, MAX_OPEN, MAX_SESSION_BYTES


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin by its registered name, its options, and where the config asks for it."""

    type: str
    options: dict[str, Any]
    where: str
    engine: str | None = None
    """Of a loader: the engine that answers its tools."""


Expose = Literal["all", "search"]
Spelling = Literal["qualified", "bare"]


class McpBlock(msgspec.Struct, frozen=True, kw_only=True):
    """How the tools are served to MCP clients, at /mcp and /sse and by `toolyard mcp`; limits are of one worker."""

    enabled: Annotated[bool, Meta(description="Whether `toolyard serve` has /mcp and /sse.")] = True
    expose: Annotated[
        Expose,
        Meta(description="What clients see: all tools, or search_tools and call_tool to find and call them with."),
    ] = "all"
    names: Annotated[
        Spelling,
        Meta(description="How lists spell names: with the namespace, or bare where no other tool has that name."),
    ] = "qualified"
    sessions: Annotated[bool, Meta(description="Whether there are tools to begin and branch sessions with.")] = False
    instructions: Annotated[Text, Meta(description="What clients are told about the server.")] = ""
    page_size: Annotated[int, Meta(ge=1, description="Tools on a page of a list.")] = 1000
    session_idle_seconds: Annotated[
        float, Meta(gt=0, description="Seconds after which a client that sent nothing is forgotten.")
    ] = 1800.0
    max_sessions: Annotated[
        int, Meta(ge=1, description="Clients that are remembered; beyond, the longest unused is forgotten.")
    ] = 10_000
    max_streams: Annotated[
        int, Meta(ge=1, description="Streams that are open at once, on which clients wait for news.")
    ] = 1000


def _check_webhook_url(url: str, where: str) -> str:
    try:
        exposed = read_url(url).is_exposed
    except Blocked as error:
        raise ConfigError(f"{where}: {error}") from None
    if exposed:
        raise ConfigError(f"{where}: must begin with https://; http:// is for a receiver on this machine only")
    return url


class WebhookBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver that is told of every call that is held."""

    # An address may hold a token, so it is shown no more than the secret.
    url: Annotated[
        Text,
        Meta(
            description="Address that events are sent to: https:// to public addresses, or http:// to this machine.",
            extra={"check": _check_webhook_url, "secret": True},
        ),
    ]
    secret: Annotated[
        Text, Meta(description="What events are signed with, such as ${WEBHOOK_SECRET}.", extra={"secret": True})
    ]

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return f"WebhookBlock({read_url(self.url).origin!r})"


class ApprovalsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told of calls that wait for somebody's word."""

    webhook: Annotated[WebhookBlock | None, Meta(description="A receiver that is told of every call that is held.")] = (
        None
    )


LogStyle = Literal["text", "json", "off"]
HIGHEST_PORT = 65535


class ServerBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Where `toolyard serve` listens, and how much it takes on; limits are those of one worker."""

    host: Annotated[Text, Meta(description="Name or address to listen at.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=HIGHEST_PORT, description="Port to listen at, 0 for any.")] = 8000
    auto_port: Annotated[bool, Meta(description="Take the next free port if that one is in use.")] = False
    workers: Annotated[
        int, Meta(ge=1, description="Processes that answer; more than one needs a shared session store.")
    ] = 1
    # None: not given, which is not the same as none.
    domains: Annotated[
        tuple[Text, ...] | None,
        Meta(
            description="Domains of tools to serve beside the sources: a list, or text with commas.",
            extra={"split": ","},
        ),
    ] = None
    strict: Annotated[bool, Meta(description="Refuse to start if anything could not be loaded.")] = False
    allowed_hosts: Annotated[
        tuple[Text, ...], Meta(description="Host names to answer to, beside loopback's and its own.")
    ] = ()
    public_url: Annotated[
        str | None,
        Meta(
            pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$",
            description="Address that clients know the server by, such as https://tools.example.com; "
            "not given: the one that a request names.",
        ),
    ] = None
    allowed_origins: Annotated[tuple[Text, ...], Meta(description="Origins of web pages that may send requests.")] = ()
    max_body_bytes: Annotated[int, Meta(ge=1, description="Size of the largest request.")] = 4 * 1024 * 1024
    max_depth: Annotated[int, Meta(ge=1, description="Deepest nesting of a request.")] = 100
    max_values: Annotated[
        int, Meta(ge=1, description="Numbers, texts, lists and objects in a request over 64 KiB.")
    ] = 100_000
    header_timeout: Annotated[float, Meta(gt=0, description="Seconds for the head of a request to arrive.")] = 10.0
    body_timeout: Annotated[
        float, Meta(gt=0, description="Seconds for a body to arrive, with more for a large one that keeps coming.")
    ] = 30.0
    idle_timeout: Annotated[
        float,
        Meta(gt=0, description="Seconds a connection may rest between requests, or leave its answer unread."),
    ] = 15.0
    shutdown_timeout: Annotated[
        float, Meta(gt=0, description="Seconds that running calls have to end when the server is stopped.")
    ] = 20.0
    max_connections: Annotated[
        int, Meta(ge=1, description="Most connections; beyond, the longest idle one is closed.")
    ] = 4096
    max_requests: Annotated[int, Meta(ge=1, description="Most requests that run at once.")] = 256
    max_waiting: Annotated[int, Meta(ge=0, description="Most requests that wait for their turn.")] = 1024
    call_timeout: Annotated[float, Meta(gt=0, description="Seconds that one call may take.")] = 60.0
    rate: Annotated[float, Meta(gt=0, description="Requests a second of one key.")] = 500.0
    burst: Annotated[float, Meta(ge=1, description="Requests of one key that may come at once.")] = 1000.0
    concurrency: Annotated[int, Meta(ge=1, description="Requests of one key that run at once.")] = 64
    sessions_per_key: Annotated[
        int, Meta(ge=1, description="Sessions that one key may have, in all workers together.")
    ] = 1000
    metrics: Annotated[bool, Meta(description="Whether /metrics is there.")] = True
    page: Annotated[bool, Meta(description="Whether the console is there.")] = True
    mcp: Annotated[McpBlock, Meta(description="How the tools are served to MCP clients.")] = McpBlock()
    approvals: Annotated[ApprovalsBlock, Meta(description="Who is told of calls that wait for somebody's word.")] = (
        ApprovalsBlock()
    )
    log: Annotated[LogStyle, Meta(description="How requests are logged.")] = "text"


MEMORY = "memory"
"""The store that is none: its sessions are gone with the process."""


class SessionsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Where sessions live, for how long, and how many there may be."""

    store: Annotated[
        Text,
        Meta(
            description="memory: gone with the process. sqlite: a file, for one machine. postgres: for several nodes."
        ),
    ] = MEMORY
    ttl: Annotated[
        float | None, Meta(gt=0, description="Seconds after its last use that a session ends; never, if not given.")
    ] = None
    max_open: Annotated[int, Meta(ge=1, description="Most sessions at once.")] = MAX_OPEN
    options: dict[str, Any] = {}
    """Of the store."""
    yard: str = ""
    """Of a store that is not the config's own: whose approvals are told apart by this."""

    def __repr__(self) -> str:
        return f"SessionsBlock(store={self.store!r})"


class MemoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the process's memory sessions may take."""

    max_session_bytes: Annotated[
        int, Meta(ge=1, description="Most bytes that one session in memory may hold; its next call is then refused.")
    ] = MAX_SESSION_BYTES
    max_bytes: Annotated[int, Meta(ge=1, description="Most bytes that all sessions in memory may hold.")] = MAX_BYTES


TOP_KEYS = ("tools", "sessions", "policy", "tracing", "server")
TOOLS_KEYS = ("registry", "engines", "enrichments")

_BLOCKS = TOP_KEYS[1:]
_CUTOFF = 0.75
_DEFINES = frozenset(
    {
        *("name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema"),
        *("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns"),
        *("function", "effects", "tags", "aliases", "metadata", "annotations", "strict"),
    }
)
"""Keys that a tool definition has and no block of a config."""


def is_config(document: Any) -> bool:
    """True for a config, False for a catalog, judged by keys as meant and by what stands under them."""
    if not isinstance(document, Mapping) or isinstance(document.get("name"), str):
        return False
    return any(_is_tools(key, value) or _is_block(key, value) for key, value in document.items())


def _is_tools(key: Any, value: Any) -> bool:
    """A config's `tools` says where tools come from; a catalog's holds them."""
    exact = key == "tools"
    if not exact and not _resembles_key(key, ("tools",)):
        return False
    if isinstance(value, list):
        meant = not value or any(_is_path(item) for item in value) if exact else False
        return (meant or any(map(_is_source, value))) and not any(map(_is_definition, value))
    if not isinstance(value, dict):
        return exact and _is_path(value)
    if any(_resembles_key(inner, TOOLS_KEYS) and not _is_definition(item) for inner, item in value.items()):
        return True
    # As a catalog this would map names to definitions.
    return exact and not all(isinstance(item, dict) for item in value.values())


def _is_block(key: Any, value: Any) -> bool:
    """A mapping under a block's name, or nearly its name. Lists there are tools of a namespace of that name."""
    if not isinstance(value, dict) or not _resembles_key(key, _BLOCKS) or _is_definition(value):
        return False
    if not value:
        return key in _BLOCKS
    return not all(_is_definition(item) for item in value.values())


def _is_path(item: Any) -> bool:
    return isinstance(item, str) and not item.lstrip().startswith(("[", "{"))  # as in a dataset's row: JSON text


def _is_source(item: Any) -> bool:
    if not isinstance(item, dict) or not {"name", "function"}.isdisjoint(item):
        return False
    return "type" in item or (not _is_definition(item) and any(_resembles_key(key, ("type",)) for key in item))


def _is_definition(value: Any) -> bool:
    return isinstance(value, dict) and not _DEFINES.isdisjoint(value)


def _resembles_key(key: Any, names: Sequence[str]) -> bool:
    return bool(nearest(str(key).lower(), names, cutoff=_CUTOFF))
