"""Run as a program by test_telemetry: providers are set once a process, and both sides are in this one."""

import asyncio
import json
import sys

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serving.service_support import add, refuse, served

from toolyard import ToolCall, Toolyard, function_tool


def main():
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    traced = {"tracing": {"opentelemetry": True}}
    tools = [function_tool(add, namespace="desk"), function_tool(refuse, namespace="desk")]
    served_yard = {"tools": [], **traced}
    with served(served_yard, tools=tools) as far:
        near = {"tools": [{"type": "mcp", "url": f"{far.url}/mcp", "namespace": "far"}], **traced}
        with Toolyard.from_config(near) as yard, trace.get_tracer("me").start_as_current_span("mine"):
            engine = yard.tool_engine
            engine.setup("s")
            engine.execute("s", [ToolCall("far::desk__add", {"a": 1, "b": 2})])
            asyncio.run(engine.aexecute("s", [ToolCall("far::desk__add", {"a": 1, "b": 2})]))
            engine.execute("s", [ToolCall("far::desk__refuse", {"reason": "no"})])
    points = [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "bounds": len(point.explicit_bounds),
            "count": point.count,
            **point.attributes,
        }
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    told = [
        {
            "name": span.name,
            "trace": span.context.trace_id,
            "id": span.context.span_id,
            "parent": span.parent and span.parent.span_id,
            "remote": bool(span.parent and span.parent.is_remote),
            **span.attributes,
        }
        for span in spans.get_finished_spans()
    ]
    sys.stdout.write(json.dumps({"points": points, "spans": told}, default=str))


main()
