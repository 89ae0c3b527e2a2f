"""Types of request and response bodies. Requests are parsed by them, and the OpenAPI document is generated from them.

Optional fields are `UNSET`, never null: absent fields are omitted from responses, and null in a request is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.calls.approval import Outcome, Preview
from toolyard.model.bindings import RestBody, RestParameter
from toolyard.model.call import ToolResult

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
Fit = Annotated[
    Literal["sure", "likely", "nearest"], Meta(description="The score in words; a `nearest` tool may not fit.")
]


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


class V0Listed(Shape):
    """A tool in the short listing."""

    name: Text
    description: str


class V0Definition(Shape):
    """The complete definition of a tool."""

    schema_version: Version
    name: Text
    description: str
    version: str
    parameters: Json
    returns: Json | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    source: Json | UnsetType = UNSET


class V0Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's correlation ids. Tools find them, and any other keys, in `ctx.trace`."""

    flow_id: str | UnsetType = UNSET
    step_id: str | UnsetType = UNSET


class V0Invocation(Shape):
    """Call one tool; its arguments go into `args`."""

    args: Json
    schema_version: Version | UnsetType = UNSET
    context: Json = {}
    trace: V0Trace | UnsetType = UNSET


class V0Metrics(Shape):
    """The metrics of a call."""

    latency_ms: Count


class V0Result(Shape):
    """The result of a call."""

    schema_version: Version
    ok: bool
    metrics: V0Metrics
    result: Json | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class HealthCheck(Shape):
    """The state of one source of tools or another part of the server."""

    name: str
    status: Literal["ok", "degraded", "down"]
    message: str | UnsetType = UNSET
    details: Json | UnsetType = UNSET


class Health(Shape):
    """The state of the server."""

    status: Literal["ok", "degraded", "down"]
    time: DateTime
    checks: list[HealthCheck] | UnsetType = UNSET
    extensions: Extensions | UnsetType = UNSET


class Probe(Shape):
    """The server can be used."""

    status: Literal["ok"]


class VersionInfo(Shape):
    """The version of the server."""

    service_name: str
    service_version: str
    supported_api_versions: Annotated[list[str], Meta(min_length=1)]


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
    effects: Literal["read", "write", "unknown"] | UnsetType = UNSET
    source: str | UnsetType = UNSET
    score: Score | UnsetType = UNSET
    fit: Fit | UnsetType = UNSET


class NativeListing(Shape):
    """A page of the catalog."""

    tools: list[NativeTool]
    generation: Count
    search: Literal["hybrid", "lexical"] | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET


class ProviderListing(Shape):
    """A page of the catalog in a provider's format, and the changes that the format required."""

    tools: list[Json]
    generation: Count
    changes: list[Json]
    names: dict[str, str]
    """The qualified name of each tool, by its name in this listing. Calls may use either."""
    search: Literal["hybrid", "lexical"] | UnsetType = UNSET
    scores: list[Score] | UnsetType = UNSET
    fits: list[Fit] | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET


class WireCall(Shape):
    """A call of one tool. Arguments may be JSON text from a model; invalid text is a `tool.invalid_args` error."""

    name: Name
    arguments: Json | str = {}
    call_id: Annotated[str, Meta(min_length=1, max_length=512)] | UnsetType = UNSET
    overload: Text | UnsetType = UNSET


Calls = Annotated[list[WireCall], Meta(min_length=1, max_length=1000)]
Hashes = Annotated[list[str], Meta(max_length=10_000)]


class CallsBody(Shape):
    """Calls to run in order, each with a `name` and its `arguments`."""

    calls: Calls
    timeout: Seconds | UnsetType = UNSET
    context: Json = {}
    trace: Json = {}
    definitions: Hashes | UnsetType = UNSET


class LooseCallsBody(CallsBody):
    """Calls outside any session, each with a `name` and its `arguments`."""

    mode: Literal["execute", "simulate"] = "execute"


class Results(Shape):
    """The results, in the order of the calls."""

    results: list[ToolResult]


class DecisionBody(Shape):
    """A decision on an approval; the `reason` is shown to the caller."""

    reason: Annotated[str, Meta(max_length=2000)] | UnsetType = UNSET


class ApprovalShape(Shape):
    """The approval of a held call. Secrets in its arguments are redacted."""

    id: str
    state: Literal["pending", "approved", "denied", "expired", "used"]
    state_words: str
    tool: str
    definition_hash: str
    digest: str
    arguments: Json
    mode: Literal["execute", "simulate"]
    caller: str
    session_id: str
    rule: str
    rule_number: int
    approvers: list[str]
    self: bool
    created: DateTime
    expires: DateTime
    may_decide: bool
    """Whether this key may approve or deny it."""
    call_id: str | UnsetType = UNSET
    decided_at: DateTime | UnsetType = UNSET
    decided_by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    used_at: DateTime | UnsetType = UNSET
    obstacle: str | UnsetType = UNSET
    """Why the call could not run even if approved."""
    preview: Preview | UnsetType = UNSET
    outcome: Outcome | UnsetType = UNSET


class ApprovalListing(Shape):
    """A page of the approvals that this key may see, newest first."""

    approvals: list[ApprovalShape]
    next_cursor: str | UnsetType = UNSET


class CallLine(Shape):
    """A call in the call log. Its arguments and result are in the history of its session, at `seq`."""

    id: str
    time: Annotated[DateTime, Meta(description="When the call began.")]
    duration_ms: Annotated[float, Meta(ge=0)]
    tool: str
    mode: Literal["execute", "simulate"]
    session_id: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    code: str | UnsetType = UNSET
    effect: Literal["none", "done", "unknown"] | UnsetType = UNSET
    effects: Literal["read", "write", "unknown"] | UnsetType = UNSET
    definition_hash: str | UnsetType = UNSET
    approval: str | UnsetType = UNSET
    argument_bytes: Count | UnsetType = UNSET
    result_bytes: Count | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    seq: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    steps_ms: dict[Literal["bind", "policy", "run", "check"], float] | UnsetType = UNSET


class CallListing(Shape):
    """A page of the call log, newest first. A page may be short or empty even if there is a `next_cursor`."""

    calls: list[CallLine]
    next_cursor: str | UnsetType = UNSET


class RestTarget(Shape, tag_field="type", tag="rest"):
    """A tool that is one HTTP operation.

    `locations` maps an argument to its location and its name there, with the default serialization of that location;
    `parameters` and `body` describe arguments in full.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Annotated[str, Meta(pattern="^/")]
    base_url: Annotated[str, Meta(pattern="^https?://[^/]")]
    locations: dict[str, tuple[Literal["path", "query", "header", "cookie", "body"], str]] = {}
    parameters: list[RestParameter] = []
    body: RestBody | UnsetType = UNSET


class McpTarget(Shape, tag_field="type", tag="mcp"):
    """A tool of an MCP server in the yard's config."""

    server: Text
    tool_name: Text


class SimulatorTarget(Shape, tag_field="type", tag="simulator"):
    """A tool that is only simulated: it has no binding."""


Target = RestTarget | McpTarget | SimulatorTarget


class Registration(Shape):
    """A tool to register at run time. Its binding is data, never code."""

    description: str = ""
    parameters: Json = {}
    output_parameters: Json = {}
    metadata: Json = {}
    version: str | UnsetType = UNSET
    tags: list[str] = []
    aliases: list[str] = []
    effects: Literal["read", "write", "unknown"] = "unknown"
    binding: Target | UnsetType = UNSET


class Registered(Shape):
    """The registered tool, and the engine that runs it; without an engine, calls fail with `tool.no_engine`."""

    tool: NativeTool
    generation: Count
    engine: str | UnsetType = UNSET
    rewrites: list[str] | UnsetType = UNSET
    """The changes made to a definition that was in a provider's format."""


class ReportView(msgspec.Struct, frozen=True, kw_only=True):
    """What each source loaded, rewrote and rejected, with reasons."""

    ok: bool
    loaded: Count
    sources: list[Json]
