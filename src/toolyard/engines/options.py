"""What a config may say of each engine beside `Settings`, and its limits. Defaults are the constructors'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.links.lm.config import LMOptions
from toolyard.schema.common_options import McpServerOptions, TlsOptions


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Of engines whose calls may have an effect."""

    simulate: Annotated[
        Literal["read", "live"],
        Meta(
            description="What a simulation may really call: what changes nothing, or, for callers who may also "
            "execute, everything."
        ),
    ]
    simulate_with: Annotated[Any, Meta(description="The engine that answers what a simulation may not call.")]


class RestEngineOptions(TlsOptions, frozen=True, kw_only=True):
    """Of the engine that calls HTTP services."""

    auth: Annotated[
        Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        Meta(description="One credential or several: mappings with a type, one of bearer, basic, api_key, oauth2."),
    ]
    base_url: Annotated[
        str | None, Meta(description="Where the service of every tool is, in place of what its source says.")
    ]
    allow_hosts: Annotated[
        Sequence[str], Meta(description="Hosts that may be asked though they are private: name, or name:port.")
    ]
    allow_networks: Annotated[
        Sequence[str], Meta(description="Networks that may be asked though they are private, such as 10.0.0.0/8.")
    ]
    user_agent: Annotated[str | None, Meta(description="What the engine calls itself.")]
    max_response_bytes: Annotated[int, Meta(ge=1, description="Size of the largest answer that is read.")]
    max_connections: Annotated[int, Meta(ge=1, description="Connections that are open at once.")]
    http2: Annotated[bool, Meta(description="Whether HTTP/2 is offered.")]
    idempotency_header: Annotated[
        str | None, Meta(description="Header that carries the id of a call, so that it may be sent again.")
    ]
    breaker_failures: Annotated[int, Meta(ge=1, description="Failures in a row after which a server is left alone.")]
    breaker_pause: Annotated[float, Meta(ge=0, description="Seconds that it is left alone.")]


class McpEngineOptions(McpServerOptions, frozen=True, kw_only=True):
    """Of the engine that calls tools of MCP servers."""

    connection: Annotated[
        Literal["shared", "per_session"], Meta(description="Whether sessions share a connection, or have one each.")
    ]
    max_session_connections: Annotated[
        int, Meta(ge=1, description="Connections of sessions that are kept; beyond, the longest unused is closed.")
    ]
    on_progress: Annotated[Any, Meta(description="A function that is told how far calls have got; from Python alone.")]
    json_text: Annotated[bool, Meta(description="Whether JSON in a text is meant as a value.")]


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Of the engine that records calls and answers from the recording."""

    cassette: Annotated[str | Path, Meta(description="The file that holds the recorded calls.")]
    mode: Annotated[
        Literal["replay", "record", "auto", "passthrough"],
        Meta(description="Answer from the cassette, record, record what is missing, or pass everything on."),
    ]
    engine: Annotated[Any, Meta(description="The engine that answers what is recorded.")]
    match: Annotated[
        Literal["arguments", "strict", "fifo"],
        Meta(description="When a recorded call is the same: by its arguments, by everything, or by its turn."),
    ]
    repeat: Annotated[bool, Meta(description="Whether a recorded answer may be given more than once.")]


class LMEngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Of the engine that has a model, or the schemas alone, make answers up."""

    lm_config: Annotated[
        LMOptions | None,
        Meta(description="The model that is asked; without one, answers are made of the schemas alone."),
    ]
    error_categories: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Meta(description="Failures to simulate: type, probability and message of each."),
    ]
    instruction: Annotated[str | None, Meta(description="What the model is told, in place of the usual words.")]
    max_history_tokens: Annotated[
        int | None, Meta(ge=0, description="Most of the session's history that the model is shown.")
    ]
    repairs: Annotated[
        int, Meta(ge=0, le=2, description="Times that a model may mend an answer that its schema does not allow.")
    ]
    max_string_length: Annotated[int, Meta(ge=1, description="Longest text that is made up.")]
    max_items: Annotated[int, Meta(ge=1, description="Longest list that is made up.")]
