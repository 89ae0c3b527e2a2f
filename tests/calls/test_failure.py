"""What callers from outside are told of a tool's own exception."""

import logging

import pytest
from call_support import call, engine_of

from toolyard.model.errors import Denied, ToolFailed

SECRET = "/home/someone password=hunter2"


def crash() -> str:
    """Has a bug."""
    raise RuntimeError(SECRET)


def explain() -> str:
    """Fails, and tells its caller why."""
    raise ToolFailed("there is no more milk", hint="buy some")


def wrap() -> str:
    """Tells its caller, with its own cause behind it."""
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise ToolFailed("the shelf is empty") from error


def deny() -> str:
    """Refuses."""
    raise Denied("not you")


def bare_key() -> str:
    """A KeyError is a bug like any other."""
    raise KeyError(SECRET)


def odd() -> str:
    """Not even an Exception that can be shown."""

    class Odd(Exception):
        def __str__(self):
            raise ValueError(SECRET)

    raise Odd


@pytest.fixture
def engine():
    with engine_of(crash, explain, wrap, deny, bare_key, odd) as made:
        made.discreet = True
        yield made


@pytest.mark.parametrize("name", ["crash", "bare_key", "odd"])
def test_the_text_of_a_bug_goes_to_the_log_and_its_number_to_the_caller(engine, caplog, name):
    with caplog.at_level(logging.ERROR):
        [result] = engine.execute("s", [call(name)])
    info = result.error_info
    assert info.code == "tool.execution_error"
    assert SECRET not in str(result.to_dict()) and SECRET not in str(engine.get_session_state("s"))
    assert info.details["error_id"] in info.message
    assert info.details["error_id"] in caplog.text


def test_two_failures_have_two_numbers(engine):
    one, two = engine.execute("s", [call("crash"), call("crash")])
    assert one.error_info.details["error_id"] != two.error_info.details["error_id"]


@pytest.mark.parametrize(
    ("name", "message"), [("explain", "there is no more milk"), ("wrap", "the shelf is empty"), ("deny", "not you")]
)
def test_what_a_tool_says_on_purpose_is_passed_on(engine, name, message):
    [result] = engine.execute("s", [call(name)])
    assert message in result.error_info.message
    assert SECRET not in str(result.to_dict())


def test_in_process_the_text_is_shown(engine):
    engine.discreet = False
    [result] = engine.execute("s", [call("crash")])
    assert "hunter2" in result.error or "RuntimeError" in result.error
    assert "error_id" not in result.error_info.details


async def test_async_callers_are_told_no_more(engine):
    [result] = await engine.aexecute("s", [call("crash")])
    assert SECRET not in str(result.to_dict()) and result.error_info.details["error_id"]


FORGED = "x\n2026-11-15T09:00:00.000Z request status=200 key=admin\r\n\x1b[2J\u202epassword=hunter2"


def forge(text: str) -> str:
    """Fails with what it was given."""
    raise type(text[:40], (RuntimeError,), {})(text)


def sink(depth: int) -> str:
    """Fails far down."""
    return sink(depth - 1) if depth else forge("deep")


@pytest.mark.parametrize("text", [FORGED, "y" * 100_000, "é\x07\x9b", ""])
def test_the_log_has_one_safe_line_whatever_the_text(text, caplog):
    with engine_of(forge) as made, caplog.at_level(logging.ERROR):
        made.discreet = True
        [result] = made.execute("s", [call("forge", text=text)])
    [record] = [record for record in caplog.records if record.name == "toolyard.calls.failure"]
    line = record.getMessage()
    assert line.isascii() and line.isprintable() and len(line) < 5000
    assert record.exc_info is None, "Python would write that raw, in many lines"
    assert "hunter2" not in line and result.error_info.details["error_id"] in line
    assert "test_failure.py:" in line and line.count(" forge") == 1


def test_the_log_has_the_last_frames_innermost_first(caplog):
    with engine_of(sink) as made, caplog.at_level(logging.ERROR):
        made.discreet = True
        made.execute("s", [call("sink", depth=200)])
    line = caplog.records[-1].getMessage()
    where = line.rpartition(" at ")[2].split(" < ")
    assert len(where) == 20 and where[0].endswith(" forge") and where[1].endswith(" sink")
    assert "deep: 'deep' at " in line


def test_known_secrets_are_not_in_the_log(caplog):
    from toolyard.words.redactor import Redactor

    with engine_of(crash, redactor=Redactor(["/home/someone"])) as made, caplog.at_level(logging.ERROR):
        made.discreet = True
        made.execute("s", [call("crash")])
    assert "/home/someone" not in caplog.text and "RuntimeError: '[redacted]" in caplog.text
