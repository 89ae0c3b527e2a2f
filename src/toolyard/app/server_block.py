"""The `server` block: where the service listens, and how much it takes on."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from toolyard.app.mcp_block import McpBlock
from toolyard.schema.options import Text

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
    page: Annotated[bool, Meta(description="Whether the web pages are there.")] = True
    mcp: Annotated[McpBlock, Meta(description="How the tools are served to MCP clients.")] = McpBlock()
    log: Annotated[LogStyle, Meta(description="How requests are logged.")] = "text"
