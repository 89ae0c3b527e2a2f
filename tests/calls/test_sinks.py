"""The logger and the file: one line per call, whole, private, and in order."""

import asyncio
import json
import logging
import os
import stat
import threading

import pytest
from call_support import SOON, Hung, Listener, Spans, call, engine_of, make_event, registry_of
from msgspec import UNSET
from warm_python import warm_toolyard

from toolyard.calls.policy import Policy, Rule
from toolyard.calls.sinks import JsonlSink, LoggingSink, json_bytes
from toolyard.calls.tracer import Tracer
from toolyard.engines.base import ToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError
from toolyard.words.redactor import Redactor


def add(x: int) -> int:
    return x + 1


def fail():
    raise ValueError("no")


def stop():
    raise KeyboardInterrupt


def traced(*functions, **options):
    listener = Listener()
    return listener, engine_of(*functions, tracer=Tracer([listener], **options.pop("tracing", {})), **options)


def test_every_call_is_told_once_with_its_facts():
    listener, engine = traced(add, fail, policy=Policy([Rule("deny", tools="n::gone")]))
    engine.execute("s", [call("add", "id", x="1"), call("fail"), call("none"), call("add", x="no")])
    tool = engine.tool_registry.snapshot.names["n::add"][0].tool
    first, second, third, fourth = listener.events
    assert (first.name, first.call_id, first.session_id, first.mode) == ("n::add", "id", "s", "execute")
    assert (first.seq, first.engine, first.coercions, first.attempts) == (1, "python", 1, 1)
    assert (first.definition_hash, first.code, first.effect) == (tool.definition_hash, None, None)
    assert (second.code, second.effect, second.seq) == ("tool.execution_error", "unknown", 2)
    assert (third.name, third.code, third.engine, third.definition_hash) == ("n::none", "tool.not_found", None, None)
    assert fourth.code == "tool.invalid_args"
    assert all(event.latency >= 0 and event.owner is None for event in listener.events)
    assert all(event.arguments is UNSET and event.result is UNSET for event in listener.events)


def test_a_simulation_says_that_it_is_one_and_an_owner_is_named():
    listener, engine = traced(add)
    engine.setup("mine", owner="ann")
    engine.simulate("s", [call("add", x=1)])
    engine.execute("mine", [call("add", x=1)], owner="ann")
    assert [(event.mode, event.owner) for event in listener.events] == [("simulate", None), ("execute", "ann")]


def test_a_bare_name_is_told_in_full():
    listener, engine = traced(add)
    engine.execute("s", [ToolCall("add", {"x": 1})])
    assert listener.events[0].name == "n::add"


def test_an_interrupted_call_is_told_too_and_no_span_stays_open():
    spans = Spans()
    engine = engine_of(add, stop, tracer=Tracer([spans]))
    with pytest.raises(KeyboardInterrupt):
        engine.execute("s", [call("add", x=1), call("stop")])
    assert [event.code for event in spans.events] == [None, "tool.interrupted"]
    assert spans.open == []


async def test_a_cancelled_call_is_told_too():
    began = asyncio.Event()

    async def wait():
        began.set()
        await asyncio.sleep(SOON)

    spans = Spans()
    engine = engine_of(wait, tracer=Tracer([spans]))
    task = asyncio.ensure_future(engine.aexecute("s", [call("wait")]))
    await began.wait()
    assert spans.open == ["n::wait"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [event.code for event in spans.events] == ["tool.interrupted"]
    assert spans.open == []


async def test_a_call_cancelled_while_it_waits_for_a_place_leaves_no_span_open():
    hung, spans = Hung(), Spans()

    def hang():
        return hung()

    engine = engine_of(hang, max_concurrent_calls=1, tracer=Tracer([spans]))
    engine.setup("t")
    first = asyncio.ensure_future(engine.aexecute("s", [call("hang")]))
    await asyncio.to_thread(hung.began.wait, SOON)
    second = asyncio.ensure_future(engine.aexecute("t", [call("hang")]))
    await asyncio.sleep(0.01)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    hung.end.set()
    await first
    assert spans.open == []
    assert [(event.code, event.effect) for event in spans.events] == [("tool.interrupted", "none"), (None, None)]


def test_what_an_engine_notes_is_told_without_secrets():
    class Noting(ToolEngine):
        def answer(self, invocation):
            invocation.notes = {"history": {"dropped": 3}, "server": "of hidden-key"}
            return 1

    listener, redactor = Listener(), Redactor(["hidden-key"])
    engine = Noting(registry_of(add), tracer=Tracer([listener], redactor=redactor))
    engine.setup("s")
    engine.execute("s", [call("add", x=1), call("none")])
    assert listener.events[0].notes == {"history": {"dropped": 3}, "server": "of [redacted]"}
    assert listener.events[1].notes is None


@pytest.mark.parametrize("value", ["\ud800", 2**64, -(2**64), 10**30, {"a": ["\udfff"]}, float("nan"), [1.5, None]])
def test_json_is_made_of_any_value(value):
    assert json_bytes(value).isascii()
    json.loads(json_bytes(make_event(arguments=value)))


def test_json_of_an_event_has_a_form_for_every_value_a_call_can_carry():
    odd = make_event(arguments={"n": 2**80, "half": "\ud800", "neg": -(2**70)}, error="\udfff")
    line = json_bytes(odd)
    assert b"\n" not in line
    back = json.loads(line)
    assert back["arguments"] == {"n": 2**80, "half": "\ud800", "neg": -(2**70)}
    assert back["error"] == "\udfff"
    assert "result" not in back


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_call_is_one_readable_line_and_carries_the_event(caplog):
    caplog.set_level(logging.DEBUG, "toolyard.calls")
    LoggingSink().emit(make_event(seq=3, engine="python", call_id="c1", attempts=2))
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "execute weather::get session=s1 seq=3 call_id=c1 engine=python attempts=2 250.0ms ok"
    )
    assert record.toolyard["name"] == "weather::get"
    assert record.toolyard["seq"] == 3
    assert "arguments" not in record.toolyard


def test_a_failed_call_is_a_warning_that_says_code_and_effect(caplog):
    caplog.set_level(logging.DEBUG, "mine")
    LoggingSink("mine", "debug").emit(make_event(code="tool.timeout", error="too slow", effect="unknown"))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("250.0ms tool.timeout effect=unknown too slow")


def test_a_sink_at_error_level_does_not_lower_failures_to_warnings(caplog):
    sink = LoggingSink(logging.getLogger("mine"), "error")
    sink.emit(make_event(code="tool.timeout"))
    assert caplog.records[0].levelno == logging.ERROR
    sink.close()


def test_no_text_of_a_call_can_forge_a_log_line_or_fill_the_log(caplog):
    caplog.set_level(logging.INFO)
    LoggingSink().emit(
        make_event(name="a\nb", session_id="s\r\u2028", code="tool.not_found", error="\x1b[2J" + "x" * 100_000)
    )
    message = caplog.records[0].getMessage()
    assert message.isprintable()
    assert len(message) < 1000
    assert r"a\nb session=s\r\u2028" in message


def test_nothing_is_formatted_when_the_logger_does_not_listen(caplog):
    caplog.set_level(logging.ERROR)
    LoggingSink().emit(make_event())
    assert caplog.records == []


def test_an_unknown_level_is_told():
    with pytest.raises(ConfigError, match="did you mean 'warning'"):
        LoggingSink(level="warn")


def test_each_event_is_a_json_line_in_a_private_file_in_a_new_folder(tmp_path):
    path = tmp_path / "a" / "b" / "calls.jsonl"
    sink = JsonlSink(path)
    sink.emit(make_event(arguments={"q": "zwei\nZeilen"}))
    sink.emit(make_event(code="tool.denied", error="no", effect="none"))
    sink.close()
    first, second = lines(path)
    assert first["arguments"] == {"q": "zwei\nZeilen"}
    assert (second["code"], second["error"], second["effect"]) == ("tool.denied", "no", "none")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_there_is_appended_to(tmp_path):
    path = tmp_path / "calls.jsonl"
    for seq in range(3):
        sink = JsonlSink(path)
        sink.emit(make_event(seq=seq))
        sink.close()
    assert [line["seq"] for line in lines(path)] == [0, 1, 2]


def test_the_file_is_not_inherited_by_other_programs(tmp_path):
    sink = JsonlSink(tmp_path / "calls.jsonl")
    assert not os.get_inheritable(sink._fd)
    sink.close()


def test_many_threads_write_whole_lines_and_lose_none(tmp_path):
    path = tmp_path / "calls.jsonl"
    sink = JsonlSink(path)
    threads = [
        threading.Thread(target=lambda n: [sink.emit(make_event(seq=n * 100 + m)) for m in range(100)], args=(n,))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    assert sorted(line["seq"] for line in lines(path)) == list(range(800))


def test_after_close_an_event_is_counted_as_lost_and_the_call_goes_on(tmp_path):
    sink = JsonlSink(tmp_path / "calls.jsonl")
    tracer = Tracer([sink])
    tracer.close()
    tracer.close()
    tracer.end(None, make_event())
    assert tracer.failures == {"jsonl:calls.jsonl": 1}
    assert lines(tmp_path / "calls.jsonl") == []


def test_a_full_file_is_moved_aside_once_and_no_line_is_cut(tmp_path):
    path = tmp_path / "calls.jsonl"
    sink = JsonlSink(path, max_bytes=500)
    for seq in range(20):
        sink.emit(make_event(seq=seq))
    sink.close()
    old = lines(tmp_path / "calls.jsonl.1")
    new = lines(path)
    assert 0 < path.stat().st_size <= 500
    assert 0 < (tmp_path / "calls.jsonl.1").stat().st_size <= 500
    kept = [line["seq"] for line in [*old, *new]]
    assert kept == list(range(kept[0], 20)), "the newest lines are there, in order, without a gap"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["calls.jsonl", "calls.jsonl.1"]


def test_a_line_longer_than_the_limit_goes_in_whole(tmp_path):
    path = tmp_path / "calls.jsonl"
    sink = JsonlSink(path, max_bytes=10)
    sink.emit(make_event(seq=1))
    sink.emit(make_event(seq=2))
    sink.close()
    assert [line["seq"] for line in lines(path)] == [2]
    assert [line["seq"] for line in lines(tmp_path / "calls.jsonl.1")] == [1]


def test_a_sink_follows_when_another_has_moved_the_file(tmp_path):
    path = tmp_path / "calls.jsonl"
    mine, other = JsonlSink(path, max_bytes=10_000), JsonlSink(path, max_bytes=10_000)
    mine.emit(make_event(seq=1))
    os.replace(path, f"{path}.1")
    other.emit(make_event(seq=2))
    mine.emit(make_event(seq=3))
    assert [line["seq"] for line in lines(path)] == [2, 3]
    mine.close()
    other.close()


@pytest.mark.process
def test_several_processes_share_a_file_and_move_it_without_losing_more_than_the_oldest(tmp_path):
    path = tmp_path / "calls.jsonl"
    code = (
        "import sys\n"
        "from toolyard.calls.sinks import CallEvent, JsonlSink\n"
        "sink = JsonlSink(sys.argv[1], max_bytes=20_000)\n"
        "for seq in range(100):\n"
        "    sink.emit(CallEvent(time=1.0, latency=0.1, mode='execute', session_id=sys.argv[2], name='a::b', seq=seq))\n"
    )
    # Together more than one file and less than two: nothing may be lost.
    running = [warm_toolyard().start(["-c", code, path, n]) for n in range(3)]
    assert [process.wait() for process in running] == [0] * 3
    old = tmp_path / "calls.jsonl.1"
    found = [*(lines(old) if old.exists() else []), *lines(path)]
    assert sorted((line["session_id"], line["seq"]) for line in found) == sorted(
        (str(n), seq) for n in range(3) for seq in range(100)
    )
    assert old.exists()


def test_a_full_disk_is_a_counted_failure_and_no_error_of_the_call():
    tracer = Tracer([JsonlSink("/dev/full")])
    tracer.end(None, make_event())
    assert sum(tracer.failures.values()) == 1
    tracer.close()


def test_after_half_a_line_the_next_begins_on_a_new_one(tmp_path, monkeypatch):
    path = tmp_path / "calls.jsonl"
    sink = JsonlSink(path)
    real = os.write
    monkeypatch.setattr("os.write", lambda fd, data: real(fd, data[:7]))
    with pytest.raises(OSError, match="only 7 of"):
        sink.emit(make_event(seq=1))
    monkeypatch.setattr("os.write", real)
    sink.emit(make_event(seq=2))
    sink.close()
    half, whole = path.read_text().splitlines()
    assert len(half) == 7
    assert json.loads(whole)["seq"] == 2
