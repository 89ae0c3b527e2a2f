"""The blocks of a config: `server` with its `mcp`, `sessions`, and entries of `tools:`; and how to recognise a config.

A config is told from a catalog by its blocks: a misspelt key must not turn one into the other and so lose the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.links.http.addresses import Blocked, read_url
from toolyard.model.errors import ConfigError
from toolyard.model.names import find_similar
from toolyard.schema.options import Text, check_fields
from toolyard.sessions.sessions import MAX_BYTES, MAX_OPEN, MAX_SESSION_BYTES


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin by its registered name, its options, and where the config asks for it."""

    type: str
    options: dict[str, Any]
    where: str
    engine: str | None = None
    """For a loader, the engine of its tools; for an engine, the one that it is a copy of."""


Expose = Literal["all", "search"]
Spelling = Literal["qualified", "bare"]


class McpBlock(msgspec.Struct, frozen=True, kw_only=True):
    """How the tools are served to MCP clients, at /mcp and /sse and by `toolyard mcp`; limits are of one worker."""

    enabled: Annotated[bool, Meta(description="Serve /mcp and /sse.")] = True
    expose: Annotated[
        Expose,
        Meta(description="What clients see: all tools, or only search_tools and call_tool."),
    ] = "all"
    names: Annotated[
        Spelling,
        Meta(description="Names in lists: with the namespace, or bare if no other tool has the name."),
    ] = "qualified"
    sessions: Annotated[bool, Meta(description="Add tools that open, fork and close sessions.")] = False
    instructions: Annotated[Text, Meta(description="Instructions for clients about the server.")] = ""
    page_size: Annotated[int, Meta(ge=1, description="Tools per page of a list.")] = 1000
    session_idle_seconds: Annotated[
        float, Meta(gt=0, description="Seconds of inactivity after which an MCP session is dropped.")
    ] = 1800.0
    max_sessions: Annotated[
        int, Meta(ge=1, description="MCP sessions that are kept; beyond that, the least recently used is dropped.")
    ] = 10_000
    max_streams: Annotated[int, Meta(ge=1, description="Maximum number of open notification streams.")] = 1000


def _check_webhook_url(url: str, where: str) -> str:
    try:
        exposed = read_url(url).is_exposed
    except Blocked as error:
        raise ConfigError(f"{where}: {error}") from None
    if exposed:
        raise ConfigError(f"{where}: must begin with https://; http:// is for a receiver on this machine only")
    return url


class WebhookBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Webhook that receives an event for every held call."""

    # A URL may contain a token, so it is hidden like the secret.
    url: Annotated[
        Text,
        Meta(
            description="URL that receives events: https:// for public addresses, or http:// for this machine.",
            extra={"check": _check_webhook_url, "secret": True},
        ),
    ]
    secret: Annotated[
        Text, Meta(description="Secret for signing events, such as ${WEBHOOK_SECRET}.", extra={"secret": True})
    ]

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return f"WebhookBlock({read_url(self.url).origin!r})"


class ApprovalsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Notifications about held calls."""

    webhook: Annotated[WebhookBlock | None, Meta(description="Webhook that receives an event for every held call.")] = (
        None
    )


LogStyle = Literal["text", "json", "off"]
HIGHEST_PORT = 65535


class ServerBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Address and limits of `toolyard serve`; limits apply to each worker."""

    host: Annotated[Text, Meta(description="Host name or IP address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=HIGHEST_PORT, description="Port to listen on; 0 for any free port.")] = 8000
    auto_port: Annotated[bool, Meta(description="Use the next free port if this one is taken.")] = False
    workers: Annotated[
        int, Meta(ge=1, description="Number of worker processes; more than one needs a shared session store.")
    ] = 1
    # None means not given, which differs from an empty list.
    domains: Annotated[
        tuple[Text, ...] | None,
        Meta(
            description="Domains to serve in addition to the sources: a list, or comma-separated text.",
            extra={"split": ","},
        ),
    ] = None
    strict: Annotated[bool, Meta(description="Refuse to start if anything could not be loaded.")] = False
    allowed_hosts: Annotated[
        tuple[Text, ...], Meta(description="Accepted Host headers, in addition to loopback and the server's own host.")
    ] = ()
    public_url: Annotated[
        str | None,
        Meta(
            pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$",
            description="URL under which clients reach the server, such as https://tools.example.com/yard; its host "
            "and pages are accepted. By default the one in the request.",
        ),
    ] = None
    allowed_origins: Annotated[tuple[Text, ...], Meta(description="Origins of web pages that may send requests.")] = ()
    max_body_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of a request body.")] = 4 * 1024 * 1024
    max_depth: Annotated[int, Meta(ge=1, description="Maximum nesting of a request body.")] = 100
    max_values: Annotated[
        int, Meta(ge=1, description="Maximum number of JSON values in a request body over 64 KiB.")
    ] = 100_000
    header_timeout: Annotated[float, Meta(gt=0, description="Seconds for the headers of a request to arrive.")] = 10.0
    body_timeout: Annotated[
        float, Meta(gt=0, description="Seconds for a body to arrive; large bodies that keep arriving get more.")
    ] = 30.0
    idle_timeout: Annotated[
        float,
        Meta(gt=0, description="Seconds that a connection may be idle, or leave a response unread."),
    ] = 15.0
    shutdown_timeout: Annotated[
        float, Meta(gt=0, description="Seconds for running calls to finish when the server stops.")
    ] = 20.0
    max_connections: Annotated[
        int, Meta(ge=1, description="Maximum number of connections; beyond that, the longest idle one is closed.")
    ] = 4096
    max_requests: Annotated[int, Meta(ge=1, description="Maximum number of concurrent requests.")] = 256
    max_waiting: Annotated[int, Meta(ge=0, description="Maximum number of queued requests.")] = 1024
    call_timeout: Annotated[float, Meta(gt=0, description="Deadline of a call in seconds.")] = 60.0
    rate: Annotated[float, Meta(gt=0, description="Requests per second of one key.")] = 500.0
    burst: Annotated[float, Meta(ge=1, description="Burst of requests of one key.")] = 1000.0
    concurrency: Annotated[int, Meta(ge=1, description="Concurrent requests of one key.")] = 64
    sessions_per_key: Annotated[
        int, Meta(ge=1, description="Maximum number of sessions of one key, across all workers.")
    ] = 1000
    metrics: Annotated[bool, Meta(description="Serve /metrics.")] = True
    page: Annotated[bool, Meta(description="Serve the console.")] = True
    mcp: Annotated[McpBlock, Meta(description="How tools are served to MCP clients.")] = McpBlock()
    approvals: Annotated[ApprovalsBlock, Meta(description="Notifications about held calls.")] = ApprovalsBlock()
    log: Annotated[LogStyle, Meta(description="Format of the request log.")] = "text"


MEMORY = "memory"
"""The store for in-memory sessions, which are lost with the process."""


class SessionsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Where sessions are stored, for how long, and how many."""

    store: Annotated[
        Text,
        Meta(
            description="memory: lost when the process ends. sqlite: a file, for one machine. postgres: "
            "for several machines."
        ),
    ] = MEMORY
    ttl: Annotated[
        float | None, Meta(gt=0, description="Seconds after its last use at which a session ends; by default never.")
    ] = None
    max_open: Annotated[int, Meta(ge=1, description="Maximum number of open sessions.")] = MAX_OPEN
    options: dict[str, Any] = {}
    """Options specific to the store."""
    yard: str = ""
    """Identifies the config in a store that configs without one share, to keep their sessions and approvals apart."""

    def __repr__(self) -> str:
        return f"SessionsBlock(store={self.store!r})"


class MemoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the process's memory sessions may take."""

    max_session_bytes: Annotated[
        int, Meta(ge=1, description="Maximum bytes of one in-memory session; further calls are refused.")
    ] = MAX_SESSION_BYTES
    max_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of all in-memory sessions together.")] = MAX_BYTES


TOP_KEYS = ("tools", "sessions", "policy", "tracing", "server")
TOOLS_KEYS = ("registry", "engines", "enrichments")

_BLOCKS = TOP_KEYS[1:]
_CUTOFF = 0.75
_DEFINITION_KEYS = frozenset(
    {
        *("name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema"),
        *("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns"),
        *("function", "effects", "tags", "aliases", "metadata", "annotations", "strict"),
    }
)
"""Keys of tool definitions that are not blocks of a config."""


def is_config(document: Any) -> bool:
    """True for a config, False for a catalog, judged by its keys (also misspelt ones) and their values."""
    if not isinstance(document, Mapping) or isinstance(document.get("name"), str):
        return False
    return any(_is_tools(key, value) or _is_block(key, value) for key, value in document.items())


def _is_tools(key: Any, value: Any) -> bool:
    """True if `tools` lists sources, as in a config; in a catalog it contains definitions."""
    exact = key == "tools"
    if not exact and not _resembles_key(key, ("tools",)):
        return False
    if isinstance(value, list):
        meant = not value or any(_is_path(item) for item in value) if exact else False
        return (meant or any(map(_is_source, value))) and not any(map(_is_definition, value))
    if not isinstance(value, dict):
        return exact and (value is None or _is_path(value))
    if any(_resembles_key(inner, TOOLS_KEYS) and not _is_definition(item) for inner, item in value.items()):
        return True
    # In a catalog this would map names to definitions.
    return exact and not all(isinstance(item, dict) for item in value.values())


def _is_block(key: Any, value: Any) -> bool:
    """True for a mapping under the name of a block, also misspelt. A list would be the tools of a namespace."""
    if not isinstance(value, dict) or not _resembles_key(key, _BLOCKS) or _is_definition(value):
        return False
    if not value:
        return key in _BLOCKS
    return not all(_is_definition(item) for item in value.values())


def _is_path(item: Any) -> bool:
    return isinstance(item, str) and not item.lstrip().startswith(("[", "{"))  # JSON text, as in rows of datasets


def _is_source(item: Any) -> bool:
    if not isinstance(item, dict) or not {"name", "function"}.isdisjoint(item):
        return False
    return "type" in item or (not _is_definition(item) and any(_resembles_key(key, ("type",)) for key in item))


def _is_definition(value: Any) -> bool:
    return isinstance(value, dict) and not _DEFINITION_KEYS.isdisjoint(value)


def _resembles_key(key: Any, names: Sequence[str]) -> bool:
    return bool(find_similar(str(key).lower(), names, cutoff=_CUTOFF))
