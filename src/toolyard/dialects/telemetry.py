"""Which trace a request over HTTP or MCP belongs to, and what is told OpenTelemetry about requests of MCP.

Names and buckets are those of the semantic conventions. Without a provider of traces or metrics, nothing happens.
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
"""Characters; what is longer is ignored here, since the propagator would log each one."""
# Whatever is configured: baggage stays here, since a server may be a stranger's.
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
    """The `_meta`, or the headers, of a request with the trace that it is made in, if there is one."""
    carrier: dict[str, str] = {}
    _trace_context.inject(carrier)
    return {**meta, **carrier} if carrier else meta


def follow_trace(meta: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Let what is done within belong to the trace that a request names, in its `_meta` or its headers.

    What is no trace changes nothing.
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


class measure_request:  # noqa: N801 - it stands behind `with`, like the functions of contextlib, and costs a third of them
    """Note how long a request takes, with the attributes that are handed out and may be added to."""

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
    """What is said of a request that calls a tool; never a name that somebody made up, since each makes a series."""
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}


def describe_result(result: Mapping[str, Any]) -> dict[str, str]:
    """What is said of a request that was answered, by a tool that failed."""
    return {"error.type": "tool_error"} if result.get("isError") is True else {}
