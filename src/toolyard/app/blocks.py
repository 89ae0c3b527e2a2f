"""The blocks of a config: `server` with its `mcp`, `sessions`, and the plugins of `tools:` with their options."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.calls.plan import Settings
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.links.http.addresses import Blocked
from toolyard.links.http.url import read_url
from toolyard.model.errors import ConfigError, PluginError
from toolyard.model.names import nearest, suggest
from toolyard.plugins import LOADERS, SESSION_STORES, PluginTable, check_options, parameters_of
from toolyard.schema.options import (
    ConfigOption,
    Text,
    check_fields,
    option_schema,
    option_type,
    options_of,
    options_schema,
    read_given,
    read_option,
    read_value,
)
from toolyard.sessions.memory_quota import MAX_BYTES, MAX_SESSION_BYTES
from toolyard.sessions.sessions import MAX_OPEN, Sessions
from toolyard.sources.base import ToolLoader

WIRED = ("registry", "name", "sessions", "policy", "tracer", "redactor")
"""Options of engines that come from the rest of the config."""
_ROUTES = ("engines", "sources", "bindings", "default")


def wired_options(cls: type) -> tuple[str, ...]:
    """What a config cannot set of this plugin, because it is made of other parts."""
    if not issubclass(cls, ToolEngine):
        return ()
    return (*WIRED, *_ROUTES) if issubclass(cls, MultiToolEngine) else WIRED


class PluginEntry(msgspec.Struct, frozen=True):
    """A plugin by its registered name, its options, and where the config asks for it."""

    type: str
    options: dict[str, Any]
    where: str
    engine: str | None = None
    """Of a loader: the engine that answers its tools."""


@lru_cache(maxsize=256)
def plugin_options(cls: Any) -> Mapping[str, ConfigOption]:
    """Each option a config may give, by its name.

    What it is for and its limits are said by the field of the same name in a struct of the class's `option_structs`, or
    else by its annotation: `Annotated[int, Meta(ge=1, description="...")]`.
    """
    hints, hidden = _hints_of(cls), wired_options(cls)
    shared = {key: option for struct in _structs_of(cls) for key, option in options_of(struct).items()}
    found: dict[str, ConfigOption] = {}
    for name, parameter in parameters_of(cls).items():
        if name in hidden or parameter.kind is parameter.VAR_KEYWORD:
            continue
        wanted = shared[name].type if name in shared else option_type(hints.get(name, Any))
        if parameter.default is None and all(branch.kind not in ("null", "any") for branch in wanted.all):
            wanted = msgspec.structs.replace(wanted, others=(*wanted.others, option_type(None)))
        needed = parameter.default is parameter.empty
        found[name] = ConfigOption(name, wanted, msgspec.NODEFAULT if needed else parameter.default, needed)
    return found


def read_plugin_options(cls: type, given: Mapping[str, Any], where: str, base: Path | None = None) -> dict[str, Any]:
    """The options as the class wants them; what it does not know is handed on, for the plugin's table to refuse."""
    known = plugin_options(cls)
    return {
        name: read_value(known[name].type if name in known else option_type(Any), value, f"{where}.{name}", base=base)
        for name, value in given.items()
    }


def make_plugin(
    table: PluginTable[Any],
    entry: PluginEntry,
    base: Path,
    *,
    given: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> Any:
    """What an entry of a config asks for. `given` are its options, if they are others; `made` are parts of ours."""
    options = dict(entry.options if given is None else given)
    try:
        cls = table.get(entry.type)
        if table is LOADERS:
            _check_engine_is_spelt(cls, entry)
        check_options(cls, {**(made or {}), **options}, f"{table.kind} {entry.type!r}")
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None
    read = read_plugin_options(cls, options, entry.where, base)
    try:
        return cls(**(made or {}), **read)
    except (ConfigError, PluginError) as error:
        raise ConfigError(f"{entry.where}: {error}") from None


def _check_engine_is_spelt(cls: type, entry: PluginEntry) -> None:
    """`engine` is a key of every source and no option of its loader, which could not hint at it."""
    known = parameters_of(cls)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for option in entry.options:
        if option not in known and nearest(option, [*known, "engine"]) == ["engine"]:
            raise ConfigError(f"tool loader {entry.type!r} has no option {option!r}; did you mean 'engine'?")


def _structs_of(cls: type) -> tuple[type[msgspec.Struct], ...]:
    own: tuple[type[msgspec.Struct], ...] = getattr(cls, "option_structs", ())
    return (Settings, *own) if issubclass(cls, ToolEngine) else own


def _hints_of(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        try:
            found.update(typing.get_type_hints(init, include_extras=True))
        except (NameError, TypeError):
            continue  # an annotation that only type checkers can resolve says nothing here
    if issubclass(cls, ToolLoader):
        # Their `__init__` takes any text and refuses the wrong one; the attribute says which are right.
        declared = typing.get_type_hints(ToolLoader, include_extras=True)
        found |= {name: declared[name] for name in ("on_error", "on_duplicate") if found.get(name) is str}
    return found


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

    def open(self) -> Sessions:
        """Connect to the store and give out sessions from it."""
        if self.store == MEMORY:
            return Sessions(ttl=self.ttl, max_open=self.max_open, **self.options)
        store = SESSION_STORES.create(self.store, **self.options)
        sessions = Sessions(store, ttl=self.ttl, max_open=self.max_open)
        sessions.yard = self.yard
        return sessions


class MemoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the process's memory sessions may take."""

    max_session_bytes: Annotated[
        int, Meta(ge=1, description="Most bytes that one session in memory may hold; its next call is then refused.")
    ] = MAX_SESSION_BYTES
    max_bytes: Annotated[int, Meta(ge=1, description="Most bytes that all sessions in memory may hold.")] = MAX_BYTES


def _store_names() -> list[str]:
    return [MEMORY, *SESSION_STORES.names()]


def _store_class(store: str) -> type:
    return SESSION_STORES.get(store)


def _options_of_store(store: str) -> Mapping[str, ConfigOption]:
    return options_of(MemoryOptions) if store == MEMORY else plugin_options(_store_class(store))


def _common_options() -> dict[str, ConfigOption]:
    known = options_of(SessionsBlock)
    return {key: known[key] for key in ("store", "ttl", "max_open")}


def read_sessions(block: Mapping[str, Any], where: str, base: Path) -> SessionsBlock:
    """Check a `sessions` block; a relative path is taken from `base`."""
    store = str(read_option(SessionsBlock, "store", block.get("store", MEMORY), f"{where}.store"))
    if store not in _store_names():
        raise ConfigError(
            f"{where}.store: no such choice {store[:80]!r}; {suggest(store, _store_names(), 'write one of ')}"
        )
    own, common = _options_of_store(store), _common_options()
    for key in block:
        owner = None if key in own or key in common else _owner_of(key)
        if owner is not None:
            raise ConfigError(f"{where}.{key}: is for store: {owner}, and the store is {store}")
    given = read_given({**common, **own}, {"store": store, **_located_defaults(own), **block}, where, base=base)
    for key, option in own.items():
        if option.required and key not in given:
            raise ConfigError(f"{where}: store: {store} needs a {key}: {option.description}")
    options = {key: given.pop(key) for key in list(given) if key in own}
    return SessionsBlock(options=options, **given)


def _located_defaults(options: Mapping[str, ConfigOption]) -> dict[str, Any]:
    """Files that nobody named are in the config's folder, too."""
    return {
        key: option.default for key, option in options.items() if option.type.noted("locate") and not option.required
    }


def _owner_of(key: str) -> str | None:
    return next((store for store in _store_names() if key in _options_of_store(store)), None)


def sessions_schema() -> dict[str, Any]:
    """JSON Schema of the block; `read_sessions` accepts exactly what it accepts."""
    common = {key: option_schema(option) for key, option in _common_options().items()}
    common["store"] = {**common["store"], "enum": _store_names()}
    of_stores = {store: _options_of_store(store) for store in _store_names()}
    keys = {key: option_schema(option) for options in of_stores.values() for key, option in options.items()}
    rules = []
    for store, options in of_stores.items():
        # Each about the store it names: one that is still a variable is none of them.
        chosen: dict[str, Any] = {"properties": {"store": {"const": store}}}
        if store != MEMORY:
            chosen["required"] = ["store"]
        needed = [key for key, option in options.items() if option.required]
        foreign = {key: False for key in keys if key not in options}
        rules.append({"if": chosen, "then": {"properties": foreign, "required": needed}})
    return {**options_schema(SessionsBlock), "properties": {**common, **keys}, "allOf": rules}
