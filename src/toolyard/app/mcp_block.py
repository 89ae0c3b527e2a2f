"""The `server.mcp` block: how the tools are served to MCP clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from toolyard.calls.blocks import read_choice, read_count, read_flag, read_mapping, read_text
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type

Expose = Literal["all", "search"]
EXPOSE: tuple[Expose, ...] = ("all", "search")
Spelling = Literal["qualified", "bare"]
SPELLINGS: tuple[Spelling, ...] = ("qualified", "bare")


class McpBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The block, checked. Limits are those of one worker process."""

    enabled: bool = True
    expose: Expose = "all"
    """`search`: clients see two tools, one that finds tools and one that calls them."""
    names: Spelling = "qualified"
    """`bare`: lists show a tool's name without its namespace where no other tool has it."""
    sessions: bool = False
    """Whether there are tools to begin sessions with, branch them, and call in them."""
    instructions: str = ""
    page_size: int = 1000
    session_idle_seconds: float = 1800.0
    max_sessions: int = 10_000
    max_streams: int = 1000


MCP_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "How the tools are served to MCP clients, at /mcp and /sse and by `toolyard mcp`.",
    "properties": {
        "enabled": {"type": "boolean", "description": "Whether `toolyard serve` has /mcp and /sse."},
        "expose": {
            "enum": list(EXPOSE),
            "description": "What clients see: all tools, or search_tools and call_tool to find and call them with.",
        },
        "names": {
            "enum": list(SPELLINGS),
            "description": "How lists spell names: with the namespace, or bare where no other tool has that name.",
        },
        "sessions": {"type": "boolean", "description": "Whether there are tools to begin and branch sessions with."},
        "instructions": {"type": "string", "minLength": 1, "description": "What clients are told about the server."},
        "page_size": {"type": "integer", "minimum": 1, "description": "Tools on a page of a list; 1000 if not given."},
        "session_idle_seconds": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Seconds after which a client that sent nothing is forgotten; 1800 if not given.",
        },
        "max_sessions": {
            "type": "integer",
            "minimum": 1,
            "description": "Clients that are remembered; beyond, the longest unused is forgotten; 10000 if not given.",
        },
        "max_streams": {
            "type": "integer",
            "minimum": 1,
            "description": "Streams that are open at once, on which clients wait for news; 1000 if not given.",
        },
    },
}


def read_mcp(block: Any, where: str) -> McpBlock:
    """Check a `server.mcp` block."""
    if not isinstance(block, dict):
        raise ConfigError(f"{where}: must be an object, not {json_type(block)}")
    read_mapping(block, tuple(_READERS), where)
    return McpBlock(**{key: _READERS[key](value, f"{where}.{key}") for key, value in block.items()})


def _seconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where}: must be a number, not {json_type(value)}")
    if not 0 < value < float("inf"):
        raise ConfigError(f"{where}: must be above 0, not {value}")
    return float(value)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "enabled": read_flag,
    "expose": lambda value, where: read_choice(value, EXPOSE, where),
    "names": lambda value, where: read_choice(value, SPELLINGS, where),
    "sessions": read_flag,
    "instructions": read_text,
    "page_size": partial(read_count, least=1),
    "session_idle_seconds": _seconds,
    "max_sessions": partial(read_count, least=1),
    "max_streams": partial(read_count, least=1),
}
