"""One line for each request, that nobody can forge and nothing leaks into."""

import io
import json
import logging
import threading

import pytest
from hypothesis import given, strategies as st
from waiting import SOON

from toolyard.serving.request_log import MAX_QUEUED, LogHandler, RequestLog, capture_logs, json_line, text_line

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
    assert "error=ValueError" in line and "test_request_log.py" in line and "hunter2" not in line


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
        assert "test_request_log.py" in read[1]["where"] and forged not in lines[1]
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
