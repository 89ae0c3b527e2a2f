"""One event per call to every sink: cleaned in one place, and never at the cost of the call."""

import json
import logging
import sys

import jsonschema_rs
import msgspec
import pytest
from call_support import make_event
from hypothesis import given, strategies as st

from toolyard.calls.sinks import JsonlSink, LoggingSink
from toolyard.calls.tracer import SpanSink, Tracer, TracingOptions
from toolyard.model import Tool, ToolCall
from toolyard.model.errors import ConfigError
from toolyard.schema.options_schema import options_schema
from toolyard.words.redactor import REDACTED, Redactor

TRACING_SCHEMA = options_schema(TracingOptions)

TOOL = Tool("get", "weather")
CALL = ToolCall("weather::get", {"q": "hunter22"}, "c1")


class Listener:
    """Keeps what it is told, or raises."""

    def __init__(self, *, fails=False):
        self.events = []
        self.fails = fails
        self.closed = 0

    def emit(self, event):
        self._maybe()
        self.events.append(event)

    def close(self):
        self.closed += 1
        self._maybe()

    def _maybe(self):
        if self.fails:
            raise RuntimeError("sink broke on hunter22")


class Spans(Listener):
    """A sink that wants to know when a call begins."""

    def __init__(self, log, name, *, fails=False):
        super().__init__(fails=fails)
        self.log = log
        self.name = name

    def begin(self, tool, call, session_id, mode):
        self.log.append(("begin", self.name, call))
        self._maybe()
        return self.name

    def end(self, token, event):
        assert token == self.name
        self.log.append(("end", self.name, event))


def test_without_sinks_a_tracer_is_not_active_and_does_nothing():
    tracer = Tracer()
    assert not tracer.active
    assert tracer.begin(TOOL, CALL, "s1", "execute") is None
    tracer.end(None, make_event())
    tracer.close()


def test_every_sink_gets_one_event():
    sinks = [Listener(), Listener()]
    tracer = Tracer(sinks)
    assert tracer.active
    tracer.end(tracer.begin(TOOL, CALL, "s1", "execute"), make_event(seq=3))
    assert [sink.events for sink in sinks] == [[make_event(seq=3)]] * 2


@pytest.mark.parametrize("arguments", [False, True])
@pytest.mark.parametrize("results", [False, True])
def test_arguments_and_results_leave_only_if_switched_on_and_redacted(arguments, results):
    sink = Listener()
    tracer = Tracer([sink], arguments=arguments, results=results, redactor=Redactor(["hunter22"]))
    tracer.end(None, make_event(arguments={"q": "hunter22", "password": "x"}, result=["hunter22"]))
    told = sink.events[0]
    assert told.arguments == ({"q": REDACTED, "password": REDACTED} if arguments else msgspec.UNSET)
    assert told.result == ([REDACTED] if results else msgspec.UNSET)


def test_an_error_text_and_a_made_up_name_are_redacted_a_tool_s_own_name_is_not_touched():
    sink = Listener()
    tracer = Tracer([sink], redactor=Redactor(["hunter22", "weather"]))
    tracer.end(None, make_event(error="no hunter22", code="tool.execution_error"))
    tracer.end(None, make_event(name="hunter22::x", definition_hash=None, code="tool.not_found"))
    assert [told.error for told in sink.events] == [f"no {REDACTED}", None]
    assert [told.name for told in sink.events] == ["weather::get", f"{REDACTED}::x"]


def test_without_a_redactor_the_built_in_shapes_still_apply():
    sink = Listener()
    Tracer([sink]).end(None, make_event(error="Bearer abcdef123"))
    assert sink.events[0].error == f"Bearer {REDACTED}"


def test_what_cannot_be_cleaned_does_not_leave_and_is_counted():
    class Broken(Redactor):
        def value(self, value):
            raise RecursionError

    sink = Listener()
    tracer = Tracer([sink], arguments=True, redactor=Broken())
    tracer.end(None, make_event(arguments={"q": 1}))
    assert sink.events[0].arguments == REDACTED
    assert tracer.failures == {"redactor": 1}


def test_span_sinks_begin_in_order_end_in_reverse_and_see_no_arguments():
    log = []
    sinks = [Spans(log, "a"), Listener(), Spans(log, "b")]
    assert isinstance(sinks[0], SpanSink)
    assert not isinstance(sinks[1], SpanSink)
    tracer = Tracer(sinks)
    token = tracer.begin(TOOL, CALL, "s1", "execute")
    assert [entry[:2] for entry in log] == [("begin", "a"), ("begin", "b")]
    assert all(entry[2] == ToolCall("weather::get", {}, "c1") for entry in log)
    tracer.end(token, make_event())
    assert [entry[:2] for entry in log[2:]] == [("end", "b"), ("end", "a")]
    assert sinks[0].events == []
    assert len(sinks[1].events) == 1


def test_a_made_up_name_is_redacted_before_a_span_begins():
    log = []
    Tracer([Spans(log, "a")], redactor=Redactor(["hunter22"])).begin(None, ToolCall("hunter22"), "s1", "execute")
    assert log[0][2].name == REDACTED


def test_an_event_that_was_never_begun_is_emitted_to_span_sinks():
    log = []
    sink = Spans(log, "a")
    Tracer([sink]).end(None, make_event())
    assert sink.events == [make_event()]
    assert log == []


def test_a_sink_that_raises_is_counted_said_once_and_hides_nothing_from_the_others(caplog):
    log = []
    sinks = [Listener(fails=True), Spans(log, "spans", fails=True), Listener(fails=True), Listener()]
    tracer = Tracer(sinks, redactor=Redactor(["hunter22"]))
    for _ in range(3):
        tracer.end(tracer.begin(TOOL, CALL, "s1", "execute"), make_event())
    assert tracer.failures == {"Listener": 3, "spans": 3, "Listener#2": 3}
    assert len(sinks[3].events) == 3
    assert [entry[0] for entry in log] == ["begin"] * 3, "what did not begin must not end"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert "hunter22" not in caplog.text


def test_close_reaches_every_sink_whatever_one_raises(caplog):
    sinks = [Listener(fails=True), Listener()]
    tracer = Tracer(sinks)
    tracer.close()
    assert [sink.closed for sink in sinks] == [1, 1]
    assert tracer.failures == {"Listener": 1}


def test_an_interrupt_is_not_swallowed():
    class Interrupted(Listener):
        def emit(self, event):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tracer([Interrupted()]).end(None, make_event())


def test_the_config_block_makes_sinks_and_takes_paths_from_the_base(tmp_path):
    block = {
        "logging": {"logger": "mine", "level": "debug"},
        "jsonl": {"path": "logs/calls.jsonl", "max_bytes": 1000},
        "opentelemetry": True,
        "arguments": True,
        "results": False,
    }
    tracer = Tracer.from_config(block, "yard.yaml: tracing", Redactor(["hunter22"]), base=tmp_path)
    assert {type(sink).__name__ for sink in tracer.sinks} == {"LoggingSink", "JsonlSink", "OpenTelemetrySink"}
    tracer.end(None, make_event(arguments={"q": "hunter22"}, result=1))
    tracer.close()
    line = json.loads((tmp_path / "logs" / "calls.jsonl").read_text())
    assert line["arguments"] == {"q": REDACTED}
    assert "result" not in line
    assert tracer.failures == {}


@pytest.mark.parametrize("block", [{}, {"logging": False, "opentelemetry": False}])
def test_a_block_that_names_no_sink_gives_an_inactive_tracer(block):
    assert not Tracer.from_config(block, "tracing").active


def test_logging_true_is_the_usual_logger():
    (sink,) = Tracer.from_config({"logging": True}).sinks
    assert isinstance(sink, LoggingSink)
    assert sink.name == "logging:toolyard.calls"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"logigng": True}, "yard.yaml: tracing: unknown key 'logigng'; did you mean 'logging'?"),
        ({"logging": "yes"}, "tracing.logging: must be true or false, or a mapping, not text"),
        ({"logging": {"level": "warn"}}, "tracing.logging.level: no such choice 'warn'; did you mean 'warning'?"),
        ({"logging": {"leve": "info"}}, "tracing.logging: unknown key 'leve'; did you mean 'level'?"),
        ({"jsonl": {}}, "tracing.jsonl: needs 'path'"),
        ({"jsonl": "a.jsonl"}, "tracing.jsonl: must be a mapping, not text"),
        ({"jsonl": {"path": "a", "max_bytes": True}}, "jsonl.max_bytes: must be a whole number, not boolean"),
        ({"jsonl": {"path": "a", "max_bytes": 0}}, "jsonl.max_bytes: must be 1 or more"),
        ({"arguments": 1}, "tracing.arguments: must be true or false, not integer"),
        ([], "tracing: must be a mapping, not list"),
    ],
)
def test_a_mistake_in_the_block_is_told_with_its_place_and_opens_nothing(block, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        Tracer.from_config(block, "yard.yaml: tracing", base=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_told_with_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"yard.yaml: tracing.opentelemetry: .*opentelemetry-api"):
        Tracer.from_config({"opentelemetry": True}, "yard.yaml: tracing")


def test_a_file_that_cannot_be_opened_is_a_config_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"tracing.jsonl.path: cannot append to 'file/x'"):
        Tracer.from_config({"jsonl": {"path": "file/x"}}, base=tmp_path)


TEXT = st.sampled_from(["info", "warning", "calls.jsonl", ""])
ANY = TEXT | st.sampled_from([None, True, False, 0, 1, 2.0, 2.5, [], {}])
BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "logging": ANY | st.fixed_dictionaries({}, optional={"logger": ANY, "level": ANY}),
        "jsonl": st.fixed_dictionaries({"path": st.just("calls.jsonl")}, optional={"max_bytes": ANY})
        | st.fixed_dictionaries({}, optional={"path": TEXT, "paht": ANY}),
        "opentelemetry": st.booleans() | ANY,
        "arguments": st.booleans(),
        "results": st.booleans() | ANY,
    },
) | st.fixed_dictionaries({}, optional={"argument": ANY, "logging": st.booleans()})


@given(BLOCKS | ANY)
def test_the_schema_accepts_what_the_reader_accepts_and_nothing_else(tmp_path_factory, block):
    base = tmp_path_factory.getbasetemp()
    try:
        Tracer.from_config(block, base=base).close()
    except ConfigError:
        read = False
    else:
        read = True
    assert jsonschema_rs.is_valid(TRACING_SCHEMA, block) == read


def test_the_schema_describes_every_key():
    jsonschema_rs.meta.validate(TRACING_SCHEMA)
    assert all(len(part["description"]) > 10 for part in TRACING_SCHEMA["properties"].values())


def test_a_sink_whose_error_has_no_text_fails_no_call(caplog):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    class Bad(Listener):
        def emit(self, event):
            raise Mute

    tracer = Tracer([Bad()])
    tracer.end(None, make_event())
    assert tracer.failures == {"Bad": 1}
    assert "Mute" in caplog.text


def test_jsonl_sinks_of_one_name_are_told_apart(tmp_path):
    sinks = [JsonlSink(tmp_path / "a" / "x.jsonl"), JsonlSink(tmp_path / "b" / "x.jsonl")]
    tracer = Tracer(sinks)
    tracer.close()
    tracer.end(None, make_event())
    assert tracer.failures == {"jsonl:x.jsonl": 1, "jsonl:x.jsonl#2": 1}


def test_a_sink_without_a_method_is_counted_and_the_others_are_closed():
    class OnlyEmit:
        def emit(self, event):
            pass

    class Last(OnlyEmit):
        closed = False

        def close(self):
            self.closed = True

    last = Last()
    tracer = Tracer([OnlyEmit(), last])
    tracer.close()
    assert last.closed and tracer.failures == {"OnlyEmit": 1}
