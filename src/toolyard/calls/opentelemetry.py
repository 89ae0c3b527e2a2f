"""`OpenTelemetrySink`: a span and a duration for each call, following the GenAI conventions for tool execution.

It needs only the OpenTelemetry API, which is imported when a sink is created. Without an SDK, spans are dropped at
almost no cost. The SDK exports them outside of the call path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolyard.calls.call_event import CallEvent, json_bytes
from toolyard.constants import TOOL_NAMESPACE_SEP, VERSION
from toolyard.model.bindings import McpBinding, RestBinding
from toolyard.model.call import Mode, ToolCall
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_OPERATION = "execute_tool"
_LONGEST = 1000
_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)


class _Open(NamedTuple):
    span: Span
    before: Context


class OpenTelemetrySink:
    """Keeps a span open and current while the tool runs, so that spans created by the tool become its children.

    `tracer_provider=None` uses the process's global provider, even if that is set later.
    """

    name = "opentelemetry"

    def __init__(
        self, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            raise ConfigError("tracing to OpenTelemetry needs the package opentelemetry-api; install it") from error
        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("toolyard", VERSION, tracer_provider)
        self._duration = metrics.get_meter("toolyard", VERSION, meter_provider).create_histogram(
            "gen_ai.execute_tool.duration",
            unit="s",
            description="How long calls of tools took.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    def begin(self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> object:
        """Start the span and make it current in this thread or task."""
        span = self._start_span(tool, call, session_id, mode)
        before = self._context.get_current()
        self._context.attach(self._trace.set_span_in_context(span, before))
        return _Open(span, before)

    def end(self, token: object, event: CallEvent) -> None:
        """Set the outcome on the span, and end it."""
        if not isinstance(token, _Open):
            raise TypeError(f"not what begin returned: {type(token).__name__}")
        try:
            if self._trace.get_current_span() is token.span:
                # Attach the previous context; `detach` logs an error if this runs in a copy of the context of `begin`.
                self._context.attach(token.before)
        finally:
            self._end_span(token.span, event, None)

    def emit(self, event: CallEvent) -> None:
        """Create a span for a finished call without `begin`; it has no children."""
        tool = None if event.definition_hash is None else _tool_of_name(event.name)
        call = ToolCall(event.name, {}, event.call_id)
        span = self._start_span(tool, call, event.session_id, event.mode, _nanoseconds(event.time))
        self._end_span(span, event, _nanoseconds(event.time + event.latency))

    def close(self) -> None:
        """Do nothing: the provider belongs to the application, which flushes it."""

    def _start_span(
        self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode, start_time: int | None = None
    ) -> Span:
        # An unknown name is only an attribute: models invent names, and span names must have low cardinality.
        name = _OPERATION if tool is None else f"{_OPERATION} {tool.name}"
        attributes = _first_attributes(tool, call, session_id, mode)
        kind = self._trace.SpanKind.INTERNAL
        return self._tracer.start_span(name, kind=kind, attributes=attributes, start_time=start_time)

    def _end_span(self, span: Span, event: CallEvent, end_time: int | None) -> None:
        measured = {"gen_ai.tool.name": _tool_of_name(event.name).name} if event.definition_hash is not None else {}
        self._duration.record(event.latency, measured | ({"error.type": event.code} if event.code else {}))
        try:
            if span.is_recording():
                span.set_attributes(_last_attributes(event))
                if event.code is not None:
                    span.set_status(self._trace.StatusCode.ERROR, event.error and _safe_text(event.error))
        finally:
            span.end(end_time)


def _first_attributes(tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> dict[str, Any]:
    """The attributes known before the call, which samplers can use."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.tool.name": _safe_text(_tool_of_name(call.name).name) if tool is None else tool.name,
        "toolyard.mode": mode,
    }
    if session_id:
        attributes["gen_ai.conversation.id"] = _safe_text(session_id)
    if call.call_id is not None:
        attributes["gen_ai.tool.call.id"] = _safe_text(call.call_id)
    if tool is None:
        return attributes
    attributes["toolyard.namespace"] = tool.namespace
    if tool.description:
        attributes["gen_ai.tool.description"] = tool.description
    if tool.binding is not None:
        outside = isinstance(tool.binding, RestBinding | McpBinding)
        attributes["gen_ai.tool.type"] = "extension" if outside else "function"
    if isinstance(tool.binding, McpBinding):
        attributes["mcp.method.name"] = "tools/call"
        if tool.binding.place is not None:
            attributes["network.transport"] = "tcp" if tool.binding.place.command is None else "pipe"
    return attributes


def _last_attributes(event: CallEvent) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "error.type": event.code,
        "toolyard.version": event.tool_version,
        "toolyard.definition_hash": event.definition_hash,
        "toolyard.engine": event.engine,
        "toolyard.effect": event.effect,
        "toolyard.coercions": event.coercions,
        "toolyard.attempts": event.attempts,
        "toolyard.seq": event.seq,
    }
    for name, text in (("stdout", event.stdout), ("stderr", event.stderr)):
        if text is not None:
            # Keep the end, which is more informative than the beginning.
            attributes[f"toolyard.{name}"] = _safe_text(text[-_LONGEST:])
    if event.notes is not None:
        attributes["toolyard.notes"] = json_bytes(event.notes).decode()
    if event.arguments is not msgspec.UNSET:
        attributes["gen_ai.tool.call.arguments"] = json_bytes(event.arguments).decode()
    if event.result is not msgspec.UNSET and event.code is None:
        attributes["gen_ai.tool.call.result"] = json_bytes(event.result).decode()
    return {key: value for key, value in attributes.items() if value is not None}


def _tool_of_name(name: str) -> Tool:
    """A `Tool` with just the namespace and name of a qualified name."""
    namespace, sep, bare = name.partition(TOOL_NAMESPACE_SEP)
    return Tool(bare, namespace) if sep else Tool(name, "")


def _safe_text(text: str) -> str:
    """A caller's text, shortened and valid UTF-8: an exporter would drop the whole batch for one invalid text."""
    cut = text[:_LONGEST]
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
