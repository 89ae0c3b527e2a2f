"""What the types of request and response bodies share; the types are next to their routes.

Requests are parsed by these types, and the OpenAPI document is generated from them. Optional fields are `UNSET`, never
null: absent fields are omitted from responses, and null in a request is refused.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.model import tool

SCHEMA_VERSION = "0.1.0"

Json = dict[str, Any]
Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(min_length=1, max_length=512)]
Extensions = dict[Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\.[A-Za-z0-9_.-]+(?!\n)$")], Any]
Version = Annotated[str, Meta(pattern=r"^0\.1\.[0-9]+(?!\n)$", description="Version of the wire format: 0.1.x.")]
SessionId = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\u0000]+$")]
Seconds = Annotated[float, Meta(gt=0, le=86_400, description="Timeout of each call in seconds.")]
Count = Annotated[int, Meta(ge=0)]
DateTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Score = Annotated[float, Meta(ge=0, le=1, description="Estimated probability that the tool fits the query.")]
Fit = Annotated[tool.Fit, Meta(description="The score in words; a `nearest` tool may not fit.")]


class Shape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base class: unknown fields are an error, not ignored."""


class Error(Shape):
    """An error, and whether a retry may help."""

    code: Text
    message: str
    retryable: bool | UnsetType = UNSET
    details: Json | UnsetType = UNSET
    schema_version: Version | UnsetType = UNSET


class ErrorEnvelope(Shape):
    """The body of every error response."""

    error: Error


class NativeTool(Shape):
    """The complete definition of a tool, with its hashes and metadata."""

    qualified_name: str
    name: str
    namespace: str
    description: str
    parameters: Json
    output_parameters: Json
    metadata: Json
    fingerprint: str
    definition_hash: str
    version: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    aliases: list[str] | UnsetType = UNSET
    effects: tool.EffectsName | UnsetType = UNSET
    source: str | UnsetType = UNSET
    score: Score | UnsetType = UNSET
    fit: Fit | UnsetType = UNSET


class WireCall(Shape):
    """A call of one tool. Arguments may be JSON text from a model; invalid text is a `tool.invalid_args` error."""

    name: Name
    arguments: Json | str = {}
    call_id: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType = UNSET
    overload: Text | UnsetType = UNSET


Calls = Annotated[list[WireCall], Meta(min_length=1, max_length=1000)]
