"""The logger and the file: one line per call, whole, private, and in order."""

import json
import logging
import os
import stat
import threading

import pytest
from call_support import make_event
from warm_python import warm_toolyard

from toolyard.calls.sinks import JsonlSink, LoggingSink
from toolyard.calls.tracer import Tracer
from toolyard.model.errors import ConfigError


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
        "from toolyard.calls.sinks import CallEvent\n"
        "from toolyard.calls.sinks import JsonlSink\n"
        "sink = JsonlSink(sys.argv[1], max_bytes=20_000)\n"
        "for seq in range(50):\n"
        "    sink.emit(CallEvent(time=1.0, latency=0.1, mode='execute', session_id=sys.argv[2], name='a::b', seq=seq))\n"
    )
    # Together more than one file and less than two: nothing may be lost.
    running = [warm_toolyard().start(["-c", code, path, n]) for n in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    old = tmp_path / "calls.jsonl.1"
    found = [*(lines(old) if old.exists() else []), *lines(path)]
    assert sorted((line["session_id"], line["seq"]) for line in found) == sorted(
        (str(n), seq) for n in range(6) for seq in range(50)
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
