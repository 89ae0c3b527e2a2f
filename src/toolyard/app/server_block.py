"""The `server` block: where the service listens, and how much it takes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from toolyard.app.mcp_block import MCP_SCHEMA, McpBlock, read_mcp
from toolyard.calls.blocks import read_choice, read_count, read_flag, read_list, read_mapping, read_text
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type

LogStyle = Literal["text", "json", "off"]
LOG_STYLES: tuple[LogStyle, ...] = ("text", "json", "off")
HIGHEST_PORT = 65535


class ServerBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The block, checked. Limits are those of one worker process."""

    host: str = "127.0.0.1"
    port: int = 8000
    auto_port: bool = False
    workers: int = 1
    domains: tuple[str, ...] | None = None
    """None: not given, which is not the same as none."""
    strict: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: int = 4 * 1024 * 1024
    max_depth: int = 100
    max_values: int = 100_000
    header_timeout: float = 10.0
    body_timeout: float = 30.0
    idle_timeout: float = 15.0
    shutdown_timeout: float = 20.0
    max_connections: int = 4096
    max_requests: int = 256
    max_waiting: int = 1024
    call_timeout: float = 60.0
    rate: float = 500.0
    burst: float = 1000.0
    concurrency: int = 64
    sessions_per_key: int = 1000
    metrics: bool = True
    page: bool = True
    mcp: McpBlock = McpBlock()
    log: LogStyle = "text"


_DEFAULTS = ServerBlock()
_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}}


def _about(kind: dict[str, Any], key: str, text: str) -> dict[str, Any]:
    default = getattr(_DEFAULTS, key)
    shown = "" if isinstance(default, tuple | bool) else f"; {_shown(default)} if not given"
    return {**kind, "description": f"{text}{shown}."}


def _shown(default: str | float) -> str:
    return f"{default:g}" if isinstance(default, float) else str(default)


def _seconds(key: str, text: str) -> dict[str, Any]:
    return _about({"type": "number", "exclusiveMinimum": 0}, key, f"Seconds {text}")


def _whole(key: str, text: str, least: int = 1) -> dict[str, Any]:
    return _about({"type": "integer", "minimum": least}, key, text)


def _flag(key: str, text: str) -> dict[str, Any]:
    return _about({"type": "boolean"}, key, text)


SERVER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "Where `toolyard serve` listens, and how much it takes on; limits are those of one worker.",
    "properties": {
        "host": _about({"type": "string", "minLength": 1}, "host", "Name or address to listen at"),
        "port": _about(
            {"type": "integer", "minimum": 0, "maximum": HIGHEST_PORT}, "port", "Port to listen at, 0 for any"
        ),
        "auto_port": _flag("auto_port", "Take the next free port if that one is in use"),
        "workers": _whole("workers", "Processes that answer; more than one needs a shared session store"),
        "domains": {
            "anyOf": [{"type": "string"}, _TEXTS],
            "description": "Domains of tools to serve beside the sources: a list, or text with commas.",
        },
        "strict": _flag("strict", "Refuse to start if anything could not be loaded"),
        "allowed_hosts": _about(_TEXTS, "allowed_hosts", "Host names to answer to, beside loopback's and its own"),
        "allowed_origins": _about(_TEXTS, "allowed_origins", "Origins of web pages that may send requests"),
        "max_body_bytes": _whole("max_body_bytes", "Size of the largest request"),
        "max_depth": _whole("max_depth", "Deepest nesting of a request"),
        "max_values": _whole("max_values", "Numbers, texts, lists and objects in a request over 64 KiB"),
        "header_timeout": _seconds("header_timeout", "for the head of a request to arrive"),
        "body_timeout": _seconds("body_timeout", "for a body to arrive, with more for a large one that keeps coming"),
        "idle_timeout": _seconds("idle_timeout", "a connection may rest between requests, or leave its answer unread"),
        "shutdown_timeout": _seconds("shutdown_timeout", "that running calls have to end when the server is stopped"),
        "max_connections": _whole("max_connections", "Most connections; beyond, the longest idle one is closed"),
        "max_requests": _whole("max_requests", "Most requests that run at once"),
        "max_waiting": _whole("max_waiting", "Most requests that wait for their turn", least=0),
        "call_timeout": _seconds("call_timeout", "that one call may take"),
        "rate": _about({"type": "number", "exclusiveMinimum": 0}, "rate", "Requests a second of one key"),
        "burst": _about({"type": "number", "minimum": 1}, "burst", "Requests of one key that may come at once"),
        "concurrency": _whole("concurrency", "Requests of one key that run at once"),
        "sessions_per_key": _whole("sessions_per_key", "Sessions that one key may have, in all workers together"),
        "metrics": _flag("metrics", "Whether /metrics is there"),
        "page": _flag("page", "Whether the web pages are there"),
        "mcp": MCP_SCHEMA,
        "log": _about({"enum": list(LOG_STYLES)}, "log", "How requests are logged"),
    },
}
"""JSON Schema of the block; `read_server` accepts exactly what it accepts."""


def read_server(block: dict[str, Any], where: str) -> ServerBlock:
    """Check a `server` block."""
    read_mapping(block, tuple(_READERS), where)
    return ServerBlock(**{key: _READERS[key](value, f"{where}.{key}") for key, value in block.items()})


def read_port(value: Any, where: str) -> int:
    """The number of a port; 0 stands for any that is free."""
    port = read_count(value, where, least=0)
    if port > HIGHEST_PORT:
        raise ConfigError(f"{where}: must be {HIGHEST_PORT} or less, not {port}")
    return port


def read_domains(value: Any, where: str) -> tuple[str, ...]:
    """A list of domains, or text with commas between them; empty is no domain at all."""
    if isinstance(value, str):
        return tuple(name for name in map(str.strip, value.split(",")) if name)
    return _texts(value, where)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    return tuple(read_text(item, f"{where}[{index}]") for index, item in enumerate(read_list(value, where)))


def _number(value: Any, where: str, *, least: float | None = None) -> float:
    """A number above 0, or of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where}: must be a number, not {json_type(value)}")
    enough = value > 0 if least is None else value >= least
    if not enough or not value < float("inf"):
        raise ConfigError(f"{where}: must be {'above 0' if least is None else f'{least:g} or more'}, not {value}")
    return float(value)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "host": read_text,
    "port": read_port,
    "auto_port": read_flag,
    "workers": partial(read_count, least=1),
    "domains": read_domains,
    "strict": read_flag,
    "allowed_hosts": _texts,
    "allowed_origins": _texts,
    "max_body_bytes": partial(read_count, least=1),
    "max_depth": partial(read_count, least=1),
    "max_values": partial(read_count, least=1),
    "header_timeout": _number,
    "body_timeout": _number,
    "idle_timeout": _number,
    "shutdown_timeout": _number,
    "max_connections": partial(read_count, least=1),
    "max_requests": partial(read_count, least=1),
    "max_waiting": partial(read_count, least=0),
    "call_timeout": _number,
    "rate": _number,
    "burst": partial(_number, least=1),
    "concurrency": partial(read_count, least=1),
    "sessions_per_key": partial(read_count, least=1),
    "metrics": read_flag,
    "page": read_flag,
    "mcp": read_mcp,
    "log": lambda value, where: read_choice(value, LOG_STYLES, where),
}
