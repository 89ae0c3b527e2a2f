"""Spans by the GenAI conventions, current while the tool runs."""

import asyncio
import contextvars
import json
import subprocess
import sys
import threading

import pytest
from call_support import make_event
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from toolyard.calls.sinks import OpenTelemetrySink
from toolyard.calls.tracer import Tracer
from toolyard.model import McpBinding, PythonBinding, RestBinding, ScriptBinding, Tool, ToolCall
from toolyard.words.redactor import Redactor

TOOL = Tool("get", "weather", "Weather of a place", binding=PythonBinding(print), version="2.1")
CALL = ToolCall("weather::get", {"q": 1}, "c1")


class Spans:
    """A provider of its own per test: the global one can be set only once in a process."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.own = self.provider.get_tracer("a tool")

    def tracer(self, **options):
        return Tracer([OpenTelemetrySink(self.provider)], **options)

    @property
    def finished(self):
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def spans():
    return Spans()


def test_a_call_is_a_span_with_the_conventional_names(spans):
    tracer = spans.tracer()
    token = tracer.begin(TOOL, CALL, "s1", "execute")
    tracer.end(token, make_event(seq=3, engine="python", tool_version="2.1", coercions=1, attempts=2, call_id="c1"))
    (span,) = spans.exporter.get_finished_spans()
    assert span.name == "execute_tool get"
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Weather of a place",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "s1",
        "toolyard.namespace": "weather",
        "toolyard.mode": "execute",
        "toolyard.version": "2.1",
        "toolyard.definition_hash": "h",
        "toolyard.engine": "python",
        "toolyard.coercions": 1,
        "toolyard.attempts": 2,
        "toolyard.seq": 3,
    }
    assert span.instrumentation_scope.name == "toolyard"
    assert tracer.failures == {}


@pytest.mark.parametrize(
    ("binding", "kind", "method"),
    [
        (ScriptBinding("d", "f.py"), "function", None),
        (RestBinding("GET", "/x", "http://h"), "extension", None),
        (McpBinding("server", "get"), "extension", "tools/call"),
        (None, None, None),
    ],
)
def test_the_binding_says_what_type_of_tool_it_is(spans, binding, kind, method):
    tracer = spans.tracer()
    tracer.end(tracer.begin(TOOL.replace(binding=binding), CALL, "s1", "execute"), make_event())
    attributes = spans.finished["execute_tool get"].attributes
    assert attributes.get("gen_ai.tool.type") == kind
    assert attributes.get("mcp.method.name") == method


def test_a_failed_call_is_an_error_span_with_its_code_and_redacted_text(spans):
    tracer = spans.tracer(redactor=Redactor(["hunter22"]))
    token = tracer.begin(TOOL, CALL, "s1", "simulate")
    tracer.end(token, make_event(mode="simulate", code="tool.timeout", error="no hunter22", effect="unknown"))
    span = spans.finished["execute_tool get"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "no [redacted]"
    assert span.attributes["error.type"] == "tool.timeout"
    assert span.attributes["toolyard.effect"] == "unknown"
    assert span.attributes["toolyard.mode"] == "simulate"


def test_arguments_and_result_are_json_text_only_when_switched_on(spans):
    told = make_event(arguments={"q": "hunter22", "n": 2**70}, result={"t": [1, None]})
    for options in ({}, {"arguments": True, "results": True}):
        tracer = spans.tracer(redactor=Redactor(["hunter22"]), **options)
        tracer.end(tracer.begin(TOOL, CALL, "s1", "execute"), told)
    without, with_them = (span.attributes for span in spans.exporter.get_finished_spans())
    assert not [key for key in without if key.startswith("gen_ai.tool.call.") and key != "gen_ai.tool.call.id"]
    assert json.loads(with_them["gen_ai.tool.call.arguments"]) == {"q": "[redacted]", "n": 2**70}
    assert json.loads(with_them["gen_ai.tool.call.result"]) == {"t": [1, None]}


def test_an_unknown_name_is_an_attribute_and_never_a_span_name(spans):
    tracer = spans.tracer()
    for name in ("weather::gte", "gte" * 500):
        token = tracer.begin(None, ToolCall(name), "s1", "execute")
        tracer.end(token, make_event(name=name, definition_hash=None, code="tool.not_found"))
    first, second = spans.exporter.get_finished_spans()
    assert first.name == second.name == "execute_tool"
    assert first.attributes["gen_ai.tool.name"] == "gte"
    assert len(second.attributes["gen_ai.tool.name"]) <= 1000
    assert first.attributes["error.type"] == "tool.not_found"


def is_child(child, parent):
    return child.parent is not None and child.parent.span_id == parent.context.span_id


def test_what_a_tool_does_is_a_child_of_its_call_and_the_caller_s_span_comes_back(spans):
    tracer = spans.tracer()
    with spans.own.start_as_current_span("caller") as caller:
        token = tracer.begin(TOOL, CALL, "s1", "execute")
        with spans.own.start_as_current_span("inside"):
            pass
        tracer.end(token, make_event())
        assert trace.get_current_span() is caller
    finished = spans.finished
    assert is_child(finished["inside"], finished["execute_tool get"])
    assert is_child(finished["execute_tool get"], finished["caller"])


def test_calls_that_nest_are_spans_that_nest(spans):
    tracer = spans.tracer()
    outer = tracer.begin(TOOL, CALL, "s1", "execute")
    inner = tracer.begin(TOOL.replace(name="part"), CALL, "s1", "execute")
    tracer.end(inner, make_event())
    tracer.end(outer, make_event())
    finished = spans.finished
    assert is_child(finished["execute_tool part"], finished["execute_tool get"])
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_concurrent_tasks_do_not_see_each_other_s_spans(spans):
    tracer = spans.tracer()
    ready = asyncio.Event()

    async def call(number):
        token = tracer.begin(TOOL.replace(name=f"t{number}"), CALL, "s1", "execute")
        await ready.wait()

        async def inside():
            with spans.own.start_as_current_span(f"inside{number}"):
                await asyncio.sleep(0)

        await asyncio.create_task(inside())
        tracer.end(token, make_event())

    tasks = [asyncio.create_task(call(number)) for number in range(3)]
    await asyncio.sleep(0)
    ready.set()
    await asyncio.gather(*tasks)
    finished = spans.finished
    for number in range(3):
        assert is_child(finished[f"inside{number}"], finished[f"execute_tool t{number}"])
        assert finished[f"execute_tool t{number}"].parent is None


async def test_a_cancelled_call_ends_its_span(spans):
    tracer = spans.tracer()

    async def call():
        token = tracer.begin(TOOL, CALL, "s1", "execute")
        try:
            await asyncio.sleep(60)
        finally:
            tracer.end(token, make_event(code="tool.execution_error", error="cancelled", effect="unknown"))

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert spans.finished["execute_tool get"].attributes["toolyard.effect"] == "unknown"


def test_a_thread_that_runs_in_a_copy_of_the_context_makes_children(spans):
    tracer = spans.tracer()
    token = tracer.begin(TOOL, CALL, "s1", "execute")

    def inside():
        with spans.own.start_as_current_span("inside"):
            pass

    thread = threading.Thread(target=contextvars.copy_context().run, args=(inside,))
    thread.start()
    thread.join()
    tracer.end(token, make_event())
    assert is_child(spans.finished["inside"], spans.finished["execute_tool get"])


def test_an_end_in_another_thread_still_ends_the_span_and_logs_no_error(spans, caplog):
    tracer = spans.tracer()
    tokens = []
    for target in (
        lambda: tokens.append(tracer.begin(TOOL, CALL, "s1", "execute")),
        lambda: tracer.end(tokens[0], make_event()),
    ):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert "execute_tool get" in spans.finished
    assert caplog.records == []
    assert tracer.failures == {}


def test_an_end_in_a_copied_context_logs_no_error(spans, caplog):
    tracer = spans.tracer()

    def both():
        token = tracer.begin(TOOL, CALL, "s1", "execute")
        contextvars.copy_context().run(tracer.end, token, make_event())

    contextvars.copy_context().run(both)
    assert "execute_tool get" in spans.finished
    assert caplog.records == []


def test_an_event_that_was_not_begun_is_a_span_with_the_times_of_the_call(spans):
    spans.tracer().end(None, make_event(time=1000.0, latency=0.5))
    (span,) = spans.exporter.get_finished_spans()
    assert span.start_time == 1000 * 10**9
    assert span.end_time - span.start_time == 5 * 10**8
    assert span.name == "execute_tool get"
    assert span.attributes["gen_ai.tool.name"] == "get"
    assert span.attributes["toolyard.namespace"] == "weather"


def test_broken_text_from_a_caller_is_made_fit_for_an_exporter(spans):
    tracer = spans.tracer()
    token = tracer.begin(None, ToolCall("a::\ud800", {}, "c\udfff"), "s\ud800", "execute")
    tracer.end(token, make_event(name="a::\ud800", definition_hash=None, code="tool.not_found", error="no \ud800"))
    (span,) = spans.exporter.get_finished_spans()
    for text in [*span.attributes.values(), span.status.description]:
        assert str(text).encode("utf-8")


def test_without_an_sdk_nothing_is_recorded_and_nothing_fails():
    tracer = Tracer([OpenTelemetrySink(trace.NoOpTracerProvider())], arguments=True)
    token = tracer.begin(TOOL, CALL, "s1", "execute")
    tracer.end(token, make_event(arguments={}))
    tracer.end(None, make_event(code="tool.denied"))
    tracer.close()
    assert tracer.failures == {}


@pytest.mark.process
def test_opentelemetry_is_imported_only_when_a_sink_is_made():
    code = (
        "import sys, toolyard.calls.policy, toolyard.calls.sinks as t\n"
        "from toolyard.calls.tracer import Tracer\n"
        "heavy = {'opentelemetry', 'pydantic', 'asyncio'} & set(sys.modules)\n"
        "Tracer.from_config({'opentelemetry': True})\n"
        "print(sorted(heavy), 'opentelemetry.trace' in sys.modules, 'opentelemetry.sdk' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[] True False"


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ValueError, match="opentelemetry-api"):
        OpenTelemetrySink()


def test_what_a_script_printed_is_told_from_its_end(spans):
    for told in (make_event(stdout="x" * 5000 + "end\n", stderr="hunter22\n"), make_event()):
        tracer = spans.tracer(redactor=Redactor(["hunter22"]))
        tracer.end(tracer.begin(TOOL, CALL, "s1", "execute"), told)
    with_them, without = (span.attributes for span in spans.exporter.get_finished_spans())
    assert with_them["toolyard.stdout"].endswith("xend\n")
    assert len(with_them["toolyard.stdout"]) == 1000
    assert with_them["toolyard.stderr"] == "[redacted]\n"
    assert not {"toolyard.stdout", "toolyard.stderr"} & set(without)
