"""What a recording gives back where it was a timeout, a fault, a secret or an exception of the tool's own."""

import asyncio
import time
from typing import TypedDict

import pytest

from engines.engine_support import call, registry_of
from engines.replay.support import counting, recorded, replayed
from toolyard import Content, PythonToolEngine, ReplayToolEngine, ToolFailed
from toolyard.engines.cassette import Cassette, Recording


class Token(TypedDict):
    token: int
    user: str


class Pair(TypedDict):
    a: int
    b: int


def slow_tools():
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(30)
        return "late"

    def blocking() -> str:
        """Take long, in a thread."""
        time.sleep(0.5)
        return "late"

    return registry_of(slow, blocking)


@pytest.mark.parametrize("name", ["slow", "blocking"])
async def test_a_timeout_is_recorded_for_async_callers_too(tape, name):
    registry = slow_tools()
    inner = PythonToolEngine(registry, timeout=0.1)
    async with ReplayToolEngine(registry, cassette=tape, mode="record", engine=inner) as engine:
        await engine.asetup("s")
        (live,) = await engine.aexecute("s", [call(name)])
    (played,) = replayed(tape, registry, [call(name)])
    assert (played.error_info.code, played.error) == (live.error_info.code, live.error)
    assert "did not answer before its deadline" in played.error


def test_simulate_meets_the_faults_that_execute_would_meet_behind_a_cassette(tape):
    registry = counting()
    plan = {"rules": [{"type": "auth", "every": 2}]}

    class Standing(PythonToolEngine):
        """Has another engine simulate."""

        def simulator(self, tool, may_execute=True):
            return PythonToolEngine(registry)

    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=Standing(registry, faults=plan)) as engine:
        engine.setup("s")
        simulated = engine.simulate("s", [call("look")] * 4)
        executed = engine.execute("s", [call("look")] * 4)
    faults = [result.metadata.get("fault") for result in executed]
    assert faults == [None, {"type": "auth", "rule": 0}] * 2
    assert [result.metadata.get("fault") for result in simulated] == faults


@pytest.mark.parametrize("kind", ["latency", "stale_read"])
def test_a_recorded_fault_stays_known_where_another_changes_nothing(tape, kind):
    def pair() -> Pair:
        """Give two."""
        return {"a": 1, "b": 2}

    registry = registry_of(pair)
    garble = {"faults": {"rules": [{"type": "unparseable_result"}]}}
    recorded(tape, registry, [call("pair")], behind=garble)
    plan = {"rules": [{"type": kind, "seconds": 0}]}
    (result,) = replayed(tape, registry, [call("pair")], faults=plan, output_check="strict")
    assert result.error is None
    assert result.result.startswith("<garbled: ")
    assert result.metadata["fault"] == {"type": "unparseable_result", "rule": 0}


def test_what_was_taken_out_of_a_result_is_not_held_against_it(tape):
    def login(user: str) -> Token:
        """Log in."""
        return {"token": 123456, "user": user}

    registry = registry_of(login)
    recorded(tape, registry, [call("login", user="ann")])
    (result,) = replayed(tape, registry, [call("login", user="ann")], output_check="strict")
    assert result.result == {"token": "[redacted]", "user": "ann"}
    assert result.metadata == {}
    Cassette(tape).add(Recording(name="n::login", arguments={"user": "eve"}, result={"token": "[redacted]", "user": 5}))
    (result,) = replayed(tape, registry, [call("login", user="eve")], output_check="strict")
    assert "/user: must be string" in result.error
    assert "/token" not in result.error


def test_an_exception_of_the_tools_own_is_as_discreet_in_replay_as_it_was(tape):
    registry = counting(ValueError("/home/ann/secrets.txt"), ToolFailed("closed today"))
    recorded(tape, registry, [call("look")] * 2)
    with ReplayToolEngine(registry, cassette=tape) as engine:
        engine._path.discreet = True
        engine.setup("s")
        own, meant = engine.execute("s", [call("look")] * 2)
    assert "ann" not in own.error
    assert own.error_info.details["error_id"] in own.error
    assert meant.error == "closed today"


def test_what_a_caller_does_with_a_played_answer_does_not_reach_the_next(tape):
    def picture() -> Content:
        """Draw."""
        return Content([{"type": "text", "text": "hello"}, {"type": "text", "text": "you"}], {"list": [1]})

    registry = registry_of(picture)
    recorded(tape, registry, [call("picture")])
    with ReplayToolEngine(registry, cassette=tape) as engine:
        engine.setup("s")
        (first,) = engine.execute("s", [call("picture")])
        first.result["list"].append(2)
        first.metadata["content"].clear()
        (second,) = engine.execute("s", [call("picture")])
    assert second.result == {"list": [1]}
    assert len(second.metadata["content"]) == 2
