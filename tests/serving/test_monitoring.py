"""What the service logs and counts, and that clients cannot make the count grow without bounds."""

import io
import json
import logging
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from prometheus_client.parser import text_string_to_metric_families
from waiting import SOON

from toolyard.serving.monitoring import (
    MAX_CODES,
    MAX_QUEUED,
    MAX_ROUTES,
    MAX_TOOLS,
    SHARED_VARIABLE,
    LogHandler,
    Metrics,
    RequestLog,
    capture_logs,
    json_line,
    text_line,
)

AT = 1_794_730_602.958


def lines(style, *writes):
    stream = io.StringIO()
    log = RequestLog(style, stream=stream, clock=lambda: AT)
    for write in writes:
        write(log)
    log.close()
    return stream.getvalue().splitlines()


def one_request(log):
    fields = {"method": "POST", "route": "/v1/tools/{name}:invoke", "status": 200, "ms": 1.2}
    log.log_event("request", **fields, request_id="abc", key="ci", tool="core::echo", code=None)


def test_a_request_is_one_line_of_text():
    assert lines("text", one_request) == [
        "2026-11-15T08:16:42.958Z request method=POST route=/v1/tools/{name}:invoke status=200 ms=1.2 "
        "request_id=abc key=ci tool=core::echo"
    ]


def test_a_request_is_one_json_object():
    [line] = lines("json", one_request)
    assert json.loads(line) == {
        "time": "2026-11-15T08:16:42.958Z",
        "event": "request",
        "method": "POST",
        "route": "/v1/tools/{name}:invoke",
        "status": 200,
        "ms": 1.2,
        "request_id": "abc",
        "key": "ci",
        "tool": "core::echo",
    }


def test_the_style_off_writes_nothing():
    before = threading.active_count()
    log = RequestLog("off")
    assert not log.enabled
    one_request(log)
    log.log_event("started", port=1)
    log.log_failure("abc", ValueError())
    assert threading.active_count() == before
    log.close()


@given(st.text(), st.text())
def test_no_value_can_pose_as_another_field_or_another_line(tool, method):
    fields = {"method": method, "status": 200, "tool": tool, "key": "ci"}
    text = text_line(AT, "request", fields)
    assert text.count("\n") == 1 and text.endswith("\n") and text.isascii()
    rest = text.strip().partition(" request ")[2]
    found = {}
    while rest:
        name, _, rest = rest.partition("=")
        if rest.startswith('"'):
            value, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].lstrip(" ")
        else:
            value, _, rest = rest.partition(" ")
        found[name] = value
    assert found == {"method": method, "status": "200", "tool": tool, "key": "ci"}
    line = json_line(AT, "request", fields)
    assert line.count("\n") == 1 and line.isascii() and json.loads(line)["tool"] == tool


def test_a_failure_names_its_place_but_does_not_quote_what_the_exception_says():
    def fail(log):
        try:
            raise ValueError("the password is hunter2")
        except ValueError as error:
            log.log_failure("abc", error)

    [line] = lines("text", fail)
    assert "error=ValueError" in line and "test_monitoring.py" in line and "hunter2" not in line


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_event_is_one_line_as_well(style):
    [line] = lines(style, lambda log: log.log_event("reloaded", tools=3, source="a b"))
    assert "reloaded" in line and "a b" in line


class Stuck(io.StringIO):
    """A reader that does not read until it is told to."""

    def __init__(self):
        super().__init__()
        self.free = threading.Event()

    def write(self, text):
        assert self.free.wait(SOON)
        return super().write(text)


def test_whoever_does_not_read_the_log_holds_nobody_up_and_is_told_what_is_missing():
    stream = Stuck()
    log = RequestLog("text", stream=stream)
    for _ in range(2 * MAX_QUEUED + 5):
        one_request(log)
    stream.free.set()
    log.close()
    written = stream.getvalue().splitlines()
    requests = sum(" request " in line for line in written)
    dropped = sum(int(line.partition("lines=")[2]) for line in written if " dropped " in line)
    assert requests + dropped == 2 * MAX_QUEUED + 5
    assert dropped > 0


def test_a_closed_stream_disables_the_log_and_nothing_else():
    stream = io.StringIO()
    log = RequestLog("text", stream=stream)
    stream.close()
    one_request(log)
    log.close()
    assert not log.enabled


def test_lines_are_written_without_waiting_for_the_end(capsys):
    from waiting import until

    stream = io.StringIO()
    log = RequestLog("text", stream=stream)
    one_request(log)
    until(lambda: stream.getvalue().endswith("\n"))
    one_request(log)
    assert until(lambda: stream.getvalue().count("\n") == 2)
    log.close()


class Unsayable:
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("style", ["text", "json", "off"])
def test_what_the_service_logs_is_one_safe_line_too(style, capsys):
    forged = "x\n2026-11-15T08:16:42.958Z request status=200\x1b[2J\u2028"
    with capture_logs(style):
        log = logging.getLogger("toolyard.some.part")
        log.warning("cannot read %s", forged)
        try:
            raise RuntimeError(forged)
        except RuntimeError:
            log.exception("it failed")
        logging.getLogger("uvicorn").error("so did %s", "this")
        logging.getLogger("asyncio").error("a" * 9_000)
        log.info("nobody needs to know")
    written = capsys.readouterr().err
    assert written.isascii() and "\x1b" not in written
    lines = written.splitlines()
    assert len(lines) == 4 and max(map(len, lines)) < 10_000
    if style == "json":
        read = [json.loads(line) for line in lines]
        assert read[0] | {"time": ""} == {
            "time": "",
            "event": "log",
            "level": "warning",
            "logger": "toolyard.some.part",
            "message": f"cannot read {forged}",
        }
        assert (read[1]["error"], read[1]["message"]) == ("RuntimeError", "it failed")
        assert "test_monitoring.py" in read[1]["where"] and forged not in lines[1]
    else:
        assert all(" log level=" in line for line in lines)


@pytest.mark.parametrize(
    ("message", "values", "shown"),
    [("%d", ("no number",), "%d"), (Unsayable(), (), "(a message that cannot be shown)"), ("%s", (Unsayable(),), "%s")],
)
def test_a_record_that_cannot_be_formatted_is_still_logged(message, values, shown):
    def write(log):
        LogHandler(log).handle(logging.LogRecord("toolyard", logging.ERROR, "", 1, message, values, None))

    [line] = lines("json", write)
    assert json.loads(line)["message"] == shown


def test_afterwards_python_logging_is_as_before():
    before = {name: list(logging.getLogger(name).handlers) for name in ("toolyard", "uvicorn", "asyncio")}
    with pytest.raises(ValueError, match="wrong"), capture_logs("text"):
        assert {name: len(logging.getLogger(name).handlers) for name in before} != {
            name: len(found) for name, found in before.items()
        }
        raise ValueError("wrong")
    assert {name: logging.getLogger(name).handlers for name in before} == before


def samples(metrics):
    """Every sample by name and labels, as a Prometheus server would read them."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def every_name(name):
    return True


def test_requests_are_counted_by_route_and_status_and_timed_by_route():
    metrics = Metrics(every_name)
    metrics.count_request("/v1/tools", 200, 0.002)
    metrics.count_request("/v1/tools", 200, 0.2)
    metrics.count_request("/v1/tools", 429, 0.0001)
    seen = samples(metrics)
    assert seen["toolyard_requests_total", ("route", "/v1/tools"), ("status", "200")] == 2
    assert seen["toolyard_requests_total", ("route", "/v1/tools"), ("status", "429")] == 1
    assert seen["toolyard_request_seconds_count", ("route", "/v1/tools")] == 3
    assert seen["toolyard_request_seconds_sum", ("route", "/v1/tools")] == pytest.approx(0.2021)
    assert seen["toolyard_request_seconds_bucket", ("le", "0.001"), ("route", "/v1/tools")] == 1
    assert seen["toolyard_request_seconds_bucket", ("le", "0.0025"), ("route", "/v1/tools")] == 2
    assert seen["toolyard_request_seconds_bucket", ("le", "+Inf"), ("route", "/v1/tools")] == 3


def test_calls_are_counted_by_tool_mode_and_code():
    metrics = Metrics(every_name)
    metrics.count_call("core::echo", "execute", "ok", 0.01)
    metrics.count_call("core::echo", "simulate", "tool.denied", 100)
    seen = samples(metrics)
    assert seen["toolyard_calls_total", ("code", "ok"), ("mode", "execute"), ("tool", "core::echo")] == 1
    assert seen["toolyard_calls_total", ("code", "tool.denied"), ("mode", "simulate"), ("tool", "core::echo")] == 1
    assert seen["toolyard_call_seconds_count", ("tool", "core::echo")] == 2


def test_a_tool_that_does_not_exist_has_no_label_of_its_own():
    metrics = Metrics({"core::echo"}.__contains__)
    for number in range(50):
        metrics.count_call(f"made::up{number}", "execute", "tool.not_found", 0.01)
    tools = {labels for name, *labels in samples(metrics) if name == "toolyard_calls_total" for labels in [labels[-1]]}
    assert tools == {("tool", "other")}


def test_labels_are_bounded_whatever_is_counted():
    metrics = Metrics(every_name)
    for number in range(MAX_TOOLS + 500):
        metrics.count_call(f"a::{number}", "execute", f"code.{number}", 0.01)
        metrics.count_request(f"/{number}", 200, 0.01)
    seen = samples(metrics)
    labels = {(name, *pair) for name, *pairs in seen for pair in pairs}
    assert sum(name == "toolyard_calls_total" and key == "tool" for name, key, _ in labels) == MAX_TOOLS + 1
    assert sum(name == "toolyard_calls_total" and key == "code" for name, key, _ in labels) == MAX_CODES + 1
    assert sum(name == "toolyard_requests_total" and key == "route" for name, key, _ in labels) == MAX_ROUTES + 1
    assert sum(value for (name, *_), value in seen.items() if name == "toolyard_calls_total") == MAX_TOOLS + 500


@given(st.lists(st.tuples(st.text(max_size=20), st.floats(0, 100)), max_size=20))
def test_any_tool_name_can_be_read_back_and_no_call_is_lost(calls):
    metrics = Metrics(every_name)
    for tool, seconds in calls:
        metrics.count_call(tool, "execute", "ok", seconds)
    seen = {key: value for key, value in samples(metrics).items() if key[0] == "toolyard_calls_total"}
    assert {dict(labels)["tool"] for _, *labels in seen} == {tool for tool, _ in calls}
    assert sum(seen.values()) == len(calls)


def test_gauges_say_what_is_so_when_they_are_read():
    metrics = Metrics(every_name)
    running = [1]
    metrics.watch_gauge("running", lambda: running[0])
    assert samples(metrics)["toolyard_requests_running",] == 1
    running[0] = 5
    assert samples(metrics)["toolyard_requests_running",] == 5
    with pytest.raises(ValueError, match="no gauge is called 'runing'; there are running"):
        metrics.watch_gauge("runing", lambda: 0)


def test_the_process_and_the_version_are_exported_too():
    names = {name for name, *_ in samples(Metrics(every_name))}
    assert {"toolyard_info", "process_resident_memory_bytes"} <= names


@pytest.mark.process
def test_a_server_that_counts_does_not_load_prometheus_until_somebody_reads():
    code = "import sys, toolyard.serving.monitoring as m; x = m.Metrics(bool); x.count_request('/', 200, 1); "
    code += "assert 'prometheus_client' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.process
def test_processes_that_share_a_folder_are_added_up(tmp_path, monkeypatch):
    code = (
        "from toolyard.serving.monitoring import Metrics\n"
        "metrics = Metrics(bool)\n"
        "metrics.count_request('/', 200, 0.5)\n"
        "metrics.count_call('core::echo', 'execute', 'ok', 0.5)\n"
        "metrics.watch_gauge('running', lambda: 3)\n"
        "metrics.watch_gauge('tools', lambda: 7)\n"
        "metrics.write_shared()\n"
    )
    monkeypatch.setenv(SHARED_VARIABLE, str(tmp_path))
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], check=True)
    metrics = Metrics(every_name)
    metrics.count_request("/", 200, 0.5)
    metrics.watch_gauge("running", lambda: 1)
    metrics.watch_gauge("tools", lambda: 7)
    seen = samples(metrics)
    assert seen["toolyard_requests_total", ("route", "/"), ("status", "200")] == 3
    assert seen["toolyard_calls_total", ("code", "ok"), ("mode", "execute"), ("tool", "core::echo")] == 2
    assert seen["toolyard_requests_running",] == 7
    assert seen["toolyard_tools",] == 7


def test_of_a_process_that_is_gone_the_counts_stay_and_the_gauges_do_not(tmp_path, monkeypatch):
    now = [1000.0]
    gone = Metrics(every_name, shared=tmp_path, clock=lambda: now[0])
    gone.count_request("/", 200, 0.5)
    gone.watch_gauge("running", lambda: 3)
    monkeypatch.setattr("toolyard.serving.monitoring.os.getpid", lambda: 1)
    gone.write_shared()
    monkeypatch.undo()
    now[0] += 60
    metrics = Metrics(every_name, shared=tmp_path, clock=lambda: now[0])
    metrics.watch_gauge("running", lambda: 1)
    seen = samples(metrics)
    assert seen["toolyard_requests_total", ("route", "/"), ("status", "200")] == 1
    assert seen["toolyard_requests_running",] == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["count", "scrape", "restart"])), max_size=30))
def test_no_counter_goes_down_whichever_process_is_asked(steps):
    with tempfile.TemporaryDirectory() as folder:
        processes = [Metrics(every_name, shared=Path(folder)) for _ in range(3)]
        before = {}
        for which, step in steps:
            if step == "restart":
                # A process that is killed leaves what it wrote last; the next may have its number.
                processes[which] = Metrics(every_name, shared=Path(folder))
            elif step == "count":
                processes[which].count_request("/", 200, 0.1)
                processes[which].count_call("core::echo", "execute", "ok", 0.7)
            else:
                seen = samples(processes[which])
                assert all(seen[key] >= value for key, value in before.items())
                before = {key: value for key, value in seen.items() if key[0].endswith(("_total", "_bucket", "_sum"))}


def test_a_single_process_shares_no_metrics():
    assert Metrics(every_name).shared is None
