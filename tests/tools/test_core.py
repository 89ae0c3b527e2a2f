"""The core domain as callers meet it: definitions, answers, and errors through an engine."""

import asyncio
import json
import threading
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from toolyard import DomainToolLoader, Effects, PythonToolEngine, ToolCall, ToolFailed, ToolRegistry
from toolyard.tools.core import load_tools

SUMMER = datetime(2026, 7, 1, 12, 0, 0, 5, UTC)
WINTER = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def registry():
    return ToolRegistry.from_loaders([DomainToolLoader()])


@pytest.fixture
def engine(registry):
    with PythonToolEngine(registry, output_check="strict") as made:
        made.setup("s")
        yield made


def ask(engine, name, **arguments):
    return engine.execute("s", [ToolCall(f"core::{name}", arguments)])[0]


def at(moment):
    return ToolRegistry(load_tools(clock=lambda: moment))


def test_the_definitions_are_the_published_ones(registry):
    shapes = {tool.name: tool.parameters for tool in registry}
    assert {name: sorted(schema["properties"]) for name, schema in shapes.items()} == {
        "echo": ["text"],
        "calc": ["expression"],
        "time_now": ["tz"],
    }
    assert {name: schema["required"] for name, schema in shapes.items()} == {
        "echo": ["text"],
        "calc": ["expression"],
        "time_now": [],
    }
    tz = shapes["time_now"]["properties"]["tz"]
    assert (tz["type"], tz["default"]) == (["string", "null"], "UTC")
    assert shapes["calc"]["properties"]["expression"]["minLength"] == 1
    for tool in registry:
        assert tool.parameters["additionalProperties"] is False
        assert tool.output_parameters["additionalProperties"] is False
        assert (tool.version, tool.effects) == ("0.1.0", Effects.READ)
        assert tool.description and all(part["description"] for part in tool.parameters["properties"].values())
        assert tool.binding.blocking is False


def test_every_load_gives_tools_of_its_own():
    first, second = load_tools(), load_tools()
    assert first == second and [tool.definition_hash for tool in first] == [tool.definition_hash for tool in second]


@given(text=st.text())
def test_echo_says_back_exactly_what_it_was_told(registry, text):
    assert registry.dispatch("echo", {"text": text}) == {"text": text}


def test_calc_answers_with_the_expression_and_its_value(engine):
    assert ask(engine, "calc", expression=" 19*23").result == {"expression": " 19*23", "value": 437}
    large = ask(engine, "calc", expression="10**999 + 1")
    assert large.result["value"] == 10**999 + 1
    assert json.loads(json.dumps(large.to_dict()))["result"]["value"] == 10**999 + 1
    history = engine.get_session_state("s")["tool_executions"]
    assert history[-1]["tool_output"]["result"]["value"] == 10**999 + 1


@pytest.mark.parametrize("expression", ["1e308*10", "-" * 5_000 + "1", "9**9**9", "1/0", "(-8)**.5", "x", "\ud800"])
def test_calc_fails_cleanly_and_nothing_has_happened(engine, expression):
    result = ask(engine, "calc", expression=expression)
    if result.error_info.code == "tool.invalid_args":
        assert expression == "\ud800"  # no JSON text, so it never gets there
        return
    assert (result.error_info.code, result.error_info.effect) == ("tool.execution_error", "none")
    assert "Error" not in result.error and "Traceback" not in result.error


def test_arguments_are_checked_before_a_tool_sees_them(engine):
    wrong = [("echo", {}), ("echo", {"text": "a", "x": 1}), ("calc", {"expression": ""}), ("time_now", {"tz": []})]
    for name, arguments in wrong:
        assert ask(engine, name, **arguments).error_info.code == "tool.invalid_args"


def test_time_now_needs_no_zone_and_takes_null_for_none(engine):
    for arguments in ({}, {"tz": None}, {"tz": "UTC"}):
        result = ask(engine, "time_now", **arguments).result
        assert result["tz"] == "UTC"
        told = datetime.fromisoformat(result["iso"])
        assert told.utcoffset() == timedelta(0)
        assert abs(told - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("moment", "tz", "iso"),
    [
        (SUMMER, "UTC", "2026-07-01T12:00:00.000005+00:00"),
        (SUMMER, "Europe/Berlin", "2026-07-01T14:00:00.000005+02:00"),
        (WINTER, "Europe/Berlin", "2026-01-02T00:30:00.000000+01:00"),
        (WINTER, "America/New_York", "2026-01-01T18:30:00.000000-05:00"),
        (WINTER, "Asia/Kolkata", "2026-01-02T05:00:00.000000+05:30"),
        (WINTER, "America/Argentina/Buenos_Aires", "2026-01-01T20:30:00.000000-03:00"),
        (WINTER, "Etc/GMT+5", "2026-01-01T18:30:00.000000-05:00"),
        (WINTER, "Etc/UTC", "2026-01-01T23:30:00.000000+00:00"),
    ],
)
def test_time_now_tells_the_time_of_the_zone_always_in_one_form(moment, tz, iso):
    assert at(moment).dispatch("time_now", {"tz": tz}) == {"tz": tz, "iso": iso}


@pytest.mark.parametrize(
    "tz",
    [
        *(
            "",
            " ",
            "Mars/Olympus",
            "Europe",
            "Europe/",
            "europe/../UTC",
            "../etc/passwd",
            "/etc/localtime",
            "UTC ",
            "a\x00b",
        ),
        *(
            "localtime",
            "posixrules",
            "right/UTC",
            "posix/UTC",
            "zone.tab",
            "tzdata.zi",
            "leapseconds",
            "+01:00",
            "x" * 5_000,
        ),
    ],
)
def test_what_is_no_iana_zone_is_refused_with_a_hint(tz):
    with pytest.raises(ToolFailed, match="no time zone is called") as raised:
        at(WINTER).dispatch("time_now", {"tz": tz})
    assert "Europe/Berlin" in raised.value.info.hint
    assert raised.value.info.effect == "none"
    assert len(raised.value.info.message) < 400


@given(tz=st.text(max_size=80))
def test_no_name_of_a_zone_does_anything_else(tz):
    try:
        assert at(WINTER).dispatch("time_now", {"tz": tz})["tz"] == tz
    except ToolFailed as error:
        assert error.info.effect == "none"


def test_utc_is_known_where_no_zones_are_installed():
    zoneinfo.reset_tzpath(to=[])
    try:
        assert at(SUMMER).dispatch("time_now", {}) == {"tz": "UTC", "iso": "2026-07-01T12:00:00.000005+00:00"}
    finally:
        zoneinfo.reset_tzpath()


async def test_from_async_code_they_run_on_the_loop_and_start_no_thread(registry):
    before = set(threading.enumerate())
    async with PythonToolEngine(registry) as engine:
        await engine.asetup("s")
        calls = [
            ToolCall("core::echo", {"text": "a"}),
            ToolCall("core::calc", {"expression": "2*3"}),
            ToolCall("core::time_now"),
        ]
        results = await asyncio.gather(*(engine.aexecute("s", calls) for _ in range(5)))
        assert all(not result.is_error for batch in results for result in batch)
        assert engine.threads.alive == 0
        started = set(threading.enumerate()) - before
        assert not [thread for thread in started if thread.name.startswith("toolyard-python")]


def test_they_may_be_simulated(engine):
    before = engine.state_hash("s")
    assert engine.simulate("s", [ToolCall("core::calc", {"expression": "1+1"})])[0].result["value"] == 2
    assert engine.state_hash("s") == before
