"""The `server.mcp` block: how the tools are served to MCP clients."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolyard.schema.options import Text

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
