"""What travels on the wires of ARP v1; see `wire_types`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from toolyard.serving.wire_types import Count, Extensions, Json, Name, Shape


class ArpResourceRef(Shape):
    """Who or what is meant."""

    type: str
    id: str
    uri: str | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpMetadata(Shape):
    """Labels and notes."""

    labels: dict[str, str] | UnsetType = UNSET
    annotations: dict[str, str] | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpDefinition(Shape):
    """A tool, as ARP v1 spells it."""

    tool_id: str
    name: str
    input_schema: Json
    source: Literal["registry_local", "remote"]
    description: str | UnsetType = UNSET
    output_schema: Json | UnsetType = UNSET
    metadata: ArpMetadata | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpInvocation(Shape):
    """Call one tool; at least one of `tool_id` and `tool_name` says which."""

    invocation_id: Annotated[str, Meta(min_length=1, max_length=512)]
    args: Json
    tool_id: Name | UnsetType = UNSET
    tool_name: Name | UnsetType = UNSET
    context: Json | UnsetType = UNSET
    caller: ArpResourceRef | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.tool_id is UNSET and self.tool_name is UNSET:
            raise ValueError("at least one of `tool_id` and `tool_name` is needed")


class ArpErrorCause(Shape):
    """What was behind an error."""

    message: str
    code: str | UnsetType = UNSET
    details: Json | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpError(Shape):
    """What went wrong, as ARP v1 spells it."""

    code: str
    message: str
    details: Json | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    cause: ArpErrorCause | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class ArpErrorEnvelope(Shape):
    """A request that was refused, as ARP v1 spells it."""

    error: ArpError
    extensions: Extensions | UnsetType = UNSET


class ArpResult(Shape):
    """What came of a call, as ARP v1 spells it."""

    invocation_id: str
    ok: bool
    result: Json | UnsetType = UNSET
    error: ArpError | UnsetType = UNSET
    duration_ms: Count | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET
