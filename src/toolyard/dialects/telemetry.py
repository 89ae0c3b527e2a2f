"""Trace propagation for requests over HTTP and MCP, and OpenTelemetry metrics of MCP requests.

Names and buckets follow the semantic conventions. Without a configured trace or metrics provider, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import Any, Literal

from opentelemetry import context, metrics
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolyard.constants import VERSION

_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
TRACE_KEYS = ("traceparent", "tracestate")
_LONGEST = 512
"""Characters of a header value; longer ones are ignored here, since the propagator would log each one."""
# Regardless of the configured propagator: baggage must not reach servers that may be untrusted.
_trace_context = TraceContextTextMapPropagator()
_meter = metrics.get_meter("toolyard", VERSION)
_durations = {
    side: _meter.create_histogram(
        f"mcp.{side}.operation.duration",
        unit="s",
        description=f"How long requests of MCP took, as the {side} sees it.",
        explicit_bucket_boundaries_advisory=_BUCKETS,
    )
    for side in ("client", "server")
}


def carry_trace(meta: dict[str, Any]) -> dict[str, Any]:
    """Return a request's `_meta` or headers with the current trace context added, if there is one."""
    carrier: dict[str, str] = {}
    _trace_context.inject(carrier)
    return {**meta, **carrier} if carrier else meta


def follow_trace(meta: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Attach the trace context named in a request's `_meta` or headers for the duration of the block.

    Invalid trace headers are ignored.
    """
    return _enter_trace(meta) if TRACE_KEYS[0] in meta else _NO_TRACE


_NO_TRACE = nullcontext()


@contextmanager
def _enter_trace(meta: Mapping[str, Any]) -> Iterator[None]:
    carrier = {key: meta[key] for key in TRACE_KEYS if isinstance(meta.get(key), str) and len(meta[key]) <= _LONGEST}
    if TRACE_KEYS[0] not in carrier:
        yield
        return
    token = context.attach(_trace_context.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


class measure_request:  # noqa: N801 - used in `with` like the functions of contextlib, at a third of their cost
    """Record how long the block takes; `with` yields the attributes, which the block may add to."""

    __slots__ = ("_attributes", "_began", "_side")

    def __init__(self, side: Literal["client", "server"], method: str) -> None:
        self._side = side
        self._attributes: dict[str, Any] = {"mcp.method.name": method}
        self._began = perf_counter()

    def __enter__(self) -> dict[str, Any]:
        return self._attributes

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            self._attributes["error.type"] = str(getattr(error, "code", None) or type(error).__name__)
        _durations[self._side].record(perf_counter() - self._began, self._attributes)


def describe_tool(name: str) -> dict[str, str]:
    """Attributes of a request that calls a tool.

    Pass only names of existing tools, since each name creates a time series.
    """
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}


def describe_result(result: Mapping[str, Any]) -> dict[str, str]:
    """Attributes of a completed request: `error.type` if the tool failed, else none."""
    return {"error.type": "tool_error"} if result.get("isError") is True else {}
