"""ReplayToolEngine where recordings are refusals, simulations, timeouts, edited by people or cut off by a kill."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Annotated, TypedDict

import pytest
from pydantic import Field

from engines.engine_support import call, registry_of
from toolyard import Content, Denied, PythonToolEngine, ReplayToolEngine, ToolFailed
from toolyard.engines.replay_cassette import Cassette, Recording
from toolyard.engines.replay_drift import drift_of
from toolyard.model.errors import InvalidArguments, NoEngine

MATCHES = ["arguments", "fifo", "strict"]


class Token(TypedDict):
    token: int
    user: str


class Pair(TypedDict):
    a: int
    b: int


@pytest.fixture(params=["tape.jsonl", "tape.yaml"])
def tape(request, tmp_path):
    return tmp_path / request.param


def counting(*failures):
    """A tool that counts its calls and fails the first few as given."""
    made = []

    def look(place: str = "here") -> dict:
        """Look somewhere."""
        made.append(place)
        if len(made) <= len(failures):
            raise failures[len(made) - 1]
        return {"number": len(made)}

    return registry_of(look)


def recorded(tape, registry, calls, mode="record", behind=None, **options):
    inner = PythonToolEngine(registry, **(behind or {}))
    with ReplayToolEngine(registry, cassette=tape, mode=mode, engine=inner, **options) as engine:
        engine.setup("s")
        return engine.execute("s", calls)


def replayed(tape, registry, calls, **options):
    with ReplayToolEngine(registry, cassette=tape, **options) as engine:
        engine.setup("s")
        return engine.execute("s", calls)


def told(results):
    return [result.error or result.result for result in results]


@pytest.mark.parametrize("match", MATCHES)
@pytest.mark.parametrize("kind", [Denied, NoEngine])
def test_a_refusal_that_was_recorded_takes_its_place_in_the_order(tape, match, kind):
    calls = [call("look")] * 3
    live = recorded(tape, counting(kind("no entry")), calls)
    assert told(live) == ["no entry", {"number": 2}, {"number": 3}]
    assert told(replayed(tape, counting(), calls, match=match)) == told(live)


@pytest.mark.parametrize("match", MATCHES)
def test_a_refusal_of_this_side_takes_no_place(tape, match):
    registry = counting()
    live = recorded(tape, registry, [call("look")] * 2)
    refused = call("look", place=["no", "text"])
    results = replayed(tape, registry, [call("look"), refused, call("look")], match=match)
    assert results[1].error_info.code == InvalidArguments.code
    assert [results[0].result, results[2].result] == [result.result for result in live]


@pytest.mark.parametrize("match", MATCHES)
def test_a_simulation_gives_way_to_what_was_executed_after_it(tape, match):
    registry = counting()
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        engine.simulate("s", [call("look")])
        live = engine.execute("s", [call("look")] * 2)
    with ReplayToolEngine(registry, cassette=tape, match=match) as engine:
        engine.setup("s")
        assert told(engine.simulate("s", [call("look")])) == [{"number": 2}]
        assert told(engine.execute("s", [call("look")] * 2)) == told(live) == [{"number": 2}, {"number": 3}]
        assert engine.drift().ok


@pytest.mark.parametrize("match", MATCHES)
def test_a_simulation_is_played_where_nothing_was_executed(tape, match):
    registry = counting()
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        live = engine.simulate("s", [call("look")])
    assert [item.simulated for item in Cassette.load(tape).recordings] == [True]
    with ReplayToolEngine(registry, cassette=tape, match=match) as engine:
        engine.setup("s")
        assert told(engine.simulate("s", [call("look")])) == told(live) == [{"number": 1}]


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

        def simulator(self, tool):
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


def test_what_was_taken_out_of_arguments_is_no_drift(tape):
    def login(user: str, password: Annotated[str, Field(min_length=12)], token: int = 0) -> dict:
        """Log in."""
        return {"user": user}

    registry = registry_of(login)
    recorded(tape, registry, [call("login", user="ann", password="long enough for it", token=7)])
    assert drift_of(Cassette.load(tape), registry).ok

    def login(user: int, password: Annotated[str, Field(min_length=12)], token: int = 0) -> dict:
        """Log in."""
        return {"user": user}

    drift = drift_of(Cassette.load(tape), registry_of(login))
    assert "/user: must be integer" in drift.arguments_changed[0].reason


@pytest.mark.parametrize("match", MATCHES)
def test_a_recording_by_hand_need_not_know_the_definition(tmp_path, match):
    tape, registry = tmp_path / "tape.yaml", counting()
    tape.write_text('- name: "n::look"\n  arguments: {place: here}\n  result: {number: 7}\n')
    with ReplayToolEngine(registry, cassette=tape, match=match) as engine:
        engine.setup("s")
        assert told(engine.execute("s", [call("look")])) == [{"number": 7}]
        assert engine.drift().ok
    assert drift_of(Cassette.load(tape), registry).ok


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


WRITER = """\
import sys
from toolyard.engines.replay_cassette import Cassette, Recording
cassette = Cassette(sys.argv[1])
rows = {"rows": ["%06d" % number for number in range(3000)]}
print("ready", flush=True)
for number in range(100_000):
    cassette.add(Recording(name="n::big", arguments={"number": number}, result=rows, when="now", duration=0.5))
"""


def test_whoever_is_killed_while_it_records_leaves_a_cassette_that_can_be_read_and_added_to(tape):
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(tape)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, env=env) for _ in range(2)]
        for writer in writers:
            writer.stdout.readline()
        time.sleep(0.3)
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
            writer.stdout.close()
    before = len(Cassette.load(tape))
    registry = counting()
    recorded(tape, registry, [call("look")])
    read = Cassette.load(tape)
    assert len(read) == before + 1
    assert all(len(item.result["rows"]) == 3000 for item in read.recordings[:-1])
