"""ReplayToolEngine: what was recorded comes back, call by call, without whoever answered it."""

import json
import threading

import pytest
from hypothesis import given, strategies as st

from engines.engine_support import call, registry_of
from toolyard import (
    CallError,
    ConfigError,
    Content,
    Denied,
    Effects,
    MultiToolEngine,
    PythonToolEngine,
    ReplayToolEngine,
    SqliteStore,
    Tool,
    ToolEngine,
    ToolFailed,
    ToolRegistry,
    Unavailable,
)
from toolyard.calls.batch import CallRequest
from toolyard.engines.effectful import OutwardEngine
from toolyard.model.call import text
from toolyard.sessions.sessions import Sessions


class World:
    """A service that answers otherwise each time."""

    def __init__(self):
        self.asked = []

    def look(self, place: str = "here", secret: str | None = None) -> dict:
        """Look somewhere."""
        self.asked.append(place)
        if place == "nowhere":
            raise ToolFailed("nothing there", effect="none", details={"place": place})
        return {"place": place, "number": len(self.asked)}

    async def wait(self, place: str) -> str:
        """Look, in a while."""
        self.asked.append(place)
        return place

    def tools(self):
        def look(place: str = "here", secret: str | None = None) -> dict:
            """Look somewhere."""
            return self.look(place, secret)

        async def wait(place: str) -> str:
            """Look, in a while."""
            return await self.wait(place)

        return look, wait


@pytest.fixture
def world():
    return World()


@pytest.fixture
def registry(world):
    return registry_of(*world.tools())


def recorded(tape, registry, calls, mode="record", **options):
    with ReplayToolEngine(registry, cassette=tape, mode=mode, engine=PythonToolEngine(registry), **options) as engine:
        engine.setup("s")
        return engine.execute("s", calls)


def replayed(tape, registry, calls, session="s", **options):
    with ReplayToolEngine(registry, cassette=tape, **options) as engine:
        engine.setup(session)
        return engine.execute(session, calls), engine.drift()


def test_what_was_recorded_comes_back_without_the_engine(tape, registry, world):
    calls = [call("look", place="a"), call("look", place="nowhere"), call("wait", place="b"), call("look")]
    first = recorded(tape, registry, calls)
    asked = len(world.asked)
    second, drift = replayed(tape, registry, calls)
    assert second == first
    assert len(world.asked) == asked
    assert drift.ok and drift.recordings == 4


async def test_async_callers_record_and_replay_alike(tape, registry, world):
    calls = [call("look", place="a"), call("look", place="nowhere"), call("wait", place="b")]
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:
        await engine.asetup("s")
        first = await engine.aexecute("s", calls, timeout=30)
    with ReplayToolEngine(registry, cassette=tape) as engine:
        await engine.asetup("s")
        assert await engine.aexecute("s", calls) == first
    assert world.asked == ["a", "nowhere", "b"]


def test_a_recording_is_one_readable_entry(tmp_path, registry):
    recorded(tmp_path / "tape.jsonl", registry, [call("look", place="a"), call("look", place="nowhere")])
    one, two = map(json.loads, (tmp_path / "tape.jsonl").read_text().splitlines())
    assert list(one) == ["name", "arguments", "result", "definition_hash", "when", "duration"]
    assert (one["name"], one["arguments"], one["result"]) == (
        "n::look",
        {"place": "a", "secret": "[redacted]"},
        {"place": "a", "number": 1},
    )
    assert two["error"]["message"] == "nothing there" and "result" not in two
    assert one["definition_hash"] == registry.get("n::look")[0].definition_hash
    recorded(tmp_path / "tape.yaml", registry, [call("look", place="a: 1e3")])
    assert 'place: "a: 1e3"' in (tmp_path / "tape.yaml").read_text()


def test_several_recordings_of_a_call_play_in_order_and_the_last_repeats(tape, registry):
    recorded(tape, registry, [call("look"), call("look", place="b"), call("look")])
    results, _ = replayed(tape, registry, [call("look")] * 2 + [call("look", place="b")] + [call("look")] * 2)
    assert [result.result["number"] for result in results] == [1, 3, 2, 3, 3]
    results, drift = replayed(tape, registry, [call("look")] * 3, repeat=False)
    assert [result.is_error for result in results] == [False, False, True]
    assert "not recorded that often" in results[2].error and results[2].error_info.code == "tool.no_engine"
    assert [item.arguments["place"] for item in drift.never_played] == ["b"]


def test_an_error_takes_its_place_in_the_order(tape, registry):
    state = {"count": 0}

    def flaky() -> int:
        """Fails first."""
        state["count"] += 1
        if state["count"] == 1:
            raise Unavailable("later", retry_after=3)
        return state["count"]

    flaky_registry = registry_of(flaky)
    recorded(tape, flaky_registry, [call("flaky"), call("flaky")])
    results, _ = replayed(tape, flaky_registry, [call("flaky")] * 2)
    assert (results[0].error_info.retry_after, results[1].result) == (3, 2)


def test_arguments_are_matched_in_canonical_form(tape, registry):
    recorded(tape, registry, [call("look", place="here")])
    (result,), _ = replayed(tape, registry, [call("look")])
    assert result.result["number"] == 1


def test_every_session_begins_at_the_start_and_simulate_takes_nothing(tape, registry):
    recorded(tape, registry, [call("look")] * 3)
    with ReplayToolEngine(registry, cassette=tape) as engine:
        engine.setup("a")
        engine.setup("b")

        def numbers(session, do, count=1):
            return [result.result["number"] for result in getattr(engine, do)(session, [call("look")] * count)]

        assert numbers("a", "simulate", 3) == [1, 2, 3]
        before = engine.get_session_state("a")
        assert numbers("a", "execute") == [1]
        assert numbers("a", "simulate", 2) == [2, 3]
        engine.setup("fork", fork_of="a")
        assert numbers("a", "execute", 2) == [2, 3]
        assert numbers("fork", "execute", 2) == [2, 3]
        assert numbers("b", "execute", 2) == [1, 2]
        assert before == {"tool_executions": []}


async def test_calls_without_a_session_play_in_the_order_they_come(tape, registry):
    recorded(tape, registry, [call("look")] * 2)
    with ReplayToolEngine(registry, cassette=tape) as engine:
        numbers = []
        for mode in ("execute", "simulate", "execute", "execute"):
            (result,) = await engine.arun(CallRequest(calls=[call("look")], mode=mode))
            numbers.append(result.result["number"])
        assert numbers == [1, 2, 2, 2]


def test_a_session_that_a_store_kept_goes_on_where_it_was(tape, registry, tmp_path):
    recorded(tape, registry, [call("look")] * 4)
    seen = []
    for first in (True, False):
        with ReplayToolEngine(registry, cassette=tape, sessions=Sessions(SqliteStore(tmp_path / "s.db"))) as engine:
            if first:
                engine.setup("s")
            seen += [result.result["number"] for result in engine.execute("s", [call("look")] * 2)]
    assert seen == [1, 2, 3, 4]


def test_fifo_plays_a_tools_recordings_whatever_the_arguments(tape, registry):
    recorded(tape, registry, [call("look", place="a"), call("wait", place="x"), call("look", place="b")])
    calls = [call("look", place="z"), call("look", place="y"), call("wait", place="q"), call("look")]
    results, _ = replayed(tape, registry, calls, match="fifo")
    assert [getattr(result, "result", None) for result in results] == [
        {"place": "a", "number": 1},
        {"place": "b", "number": 3},
        "x",
        {"place": "b", "number": 3},
    ]


def test_strict_wants_the_calls_in_their_order_and_the_tools_as_they_were(tape, registry, world):
    calls = [call("look", place="a"), call("look", place="b"), call("look", place="a")]
    first = recorded(tape, registry, calls)
    assert replayed(tape, registry, calls, match="strict")[0] == first
    results, _ = replayed(tape, registry, [calls[1], calls[0], calls[1]], match="strict")
    assert "recorded, but not as the next call" in results[0].error
    assert [result.is_error for result in results] == [True, False, False]
    longer, _ = replayed(tape, registry, [*calls, calls[0]], match="strict")
    assert longer[3].is_error
    changed = registry_of(*world.tools(), description="Another.")
    assert replayed(tape, changed, calls[:1], match="strict")[0][0].is_error


def test_a_call_that_is_not_there_says_what_is(tape, registry):
    recorded(tape, registry, [call("look", place="a"), call("look", place="b", secret="x")])
    results, drift = replayed(tape, registry, [call("look", place="c"), call("wait", place="c")])
    assert [result.error_info.code for result in results] == ["tool.no_engine", "tool.no_engine"]
    assert "not recorded with these arguments" in results[0].error
    assert results[0].error_info.details["recorded_arguments"]["place"] == "a"
    assert "mode auto" in results[0].error_info.hint
    assert [(item.name, item.nearest is None) for item in drift.arguments_changed] == [
        ("n::look", False),
        ("n::wait", True),
    ]
    assert len(drift.never_played) == 2 and not drift.ok and len(drift.lines()) == 4


def test_a_changed_definition_is_played_and_reported(tape, registry, world):
    recorded(tape, registry, [call("look")])
    changed = registry_of(*world.tools(), description="Another.")
    (result,), drift = replayed(tape, changed, [call("look")])
    assert not result.is_error
    (one,) = drift.definitions_changed
    assert (one.recorded, one.now) == (
        registry.get("n::look")[0].definition_hash,
        changed.get("n::look")[0].definition_hash,
    )
    assert drift.to_dict()["ok"] is False


def test_auto_plays_what_is_there_and_records_the_rest(tape, registry, world):
    recorded(tape, registry, [call("look", place="a")])
    recorded(tape, registry, [call("look", place="a"), call("look", place="b"), call("look", place="b")], mode="auto")
    assert world.asked == ["a", "b"]
    results, drift = replayed(tape, registry, [call("look", place="a"), call("look", place="b")])
    assert [result.result["number"] for result in results] == [1, 2] and drift.ok


@pytest.mark.parametrize("failure", [Unavailable("connection refused"), Denied("it may not be called")])
def test_auto_does_not_keep_a_failure_that_may_pass(tape, failure):
    answers = [failure, "here again"]

    def look() -> str:
        answer = answers.pop(0)
        if isinstance(answer, CallError):
            raise answer
        return answer

    registry = registry_of(look)
    [failed] = recorded(tape, registry, [call("look")], mode="auto")
    [well] = recorded(tape, registry, [call("look")], mode="auto")
    assert (failed.error_info.code, well.result) == (failure.code, "here again")
    assert replayed(tape, registry, [call("look")])[0][0].result == "here again"


def test_passthrough_leaves_the_cassette_alone(tape, registry, world):
    recorded(tape, registry, [call("look")], mode="passthrough")
    assert world.asked == ["here"] and not tape.exists()


def test_secrets_are_taken_out_before_they_are_written(tape, registry, tmp_path):
    from toolyard import Redactor

    hidden = Redactor(["hunter22"])
    calls = [call("look", place="my hunter22 place", secret="s3cr3t!"), call("look", place="Bearer abcdef123456")]
    results = recorded(tape, registry, calls, redactor=hidden)
    assert results[0].result["place"] == "my hunter22 place"
    written = tape.read_text()
    assert "hunter22" not in written and "s3cr3t" not in written and "abcdef123456" not in written
    again, drift = replayed(tape, registry, calls, redactor=Redactor(["hunter22"]))
    assert again[0].result["place"] == "my [redacted] place" and drift.ok


def test_content_comes_back_as_content(tape):
    def plain() -> Content:
        """Two blocks and a value."""
        return Content([text("a"), text("b")], {"n": 1})

    def blocks() -> Content:
        """Blocks alone."""
        return Content([text("a"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}])

    registry = registry_of(plain, blocks)
    first = recorded(tape, registry, [call("plain"), call("blocks")])
    assert replayed(tape, registry, [call("plain"), call("blocks")])[0] == first


def test_the_fault_plan_of_the_recorded_engine_is_recorded_with_its_results(tape, registry, world):
    faults = {"rules": [{"type": "partial_result", "every": 2}, {"type": "auth", "every": 3}]}
    inner = PythonToolEngine(registry, faults=faults)
    calls = [call("look", place=str(number)) for number in range(6)]
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=inner) as engine:
        engine.setup("s")
        first = engine.execute("s", calls)
    assert {result.metadata.get("fault", {}).get("type") for result in first} == {None, "partial_result", "auth"}
    assert replayed(tape, registry, calls)[0] == first


def test_a_plan_of_its_own_makes_a_recording_unreliable(tape, registry):
    recorded(tape, registry, [call("look")])
    (result,), _ = replayed(tape, registry, [call("look")], faults={"rules": [{"type": "rate_limit"}]})
    assert result.metadata["fault"]["type"] == "rate_limit"


def test_limits_of_the_recorded_engine_hold(tape):
    tries = []

    def flaky() -> int:
        """Fails twice."""
        tries.append(1)
        if len(tries) < 3:
            raise Unavailable("later")
        return 7

    registry = registry_of(flaky, effects="read")
    inner = PythonToolEngine(registry, retries=3, retry_delay=0, timeout=30)
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=inner) as engine:
        assert engine.settings.timeout == 30
        engine.setup("s")
        assert engine.execute("s", [call("flaky")])[0].metadata["attempts"] == 3
    assert replayed(tape, registry, [call("flaky")])[0][0].result == 7


class Live(OutwardEngine):
    """Reaches outside, and says how often."""

    count = 0

    def answer(self, invocation):
        self.count += 1
        return self.count


def live_tools():
    return ToolRegistry([Tool("read", "n", effects=Effects.READ), Tool("write", "n", effects=Effects.WRITE)])


def test_simulate_never_reaches_further_than_the_recorded_engine_would(tape):
    registry = live_tools()
    with ReplayToolEngine(registry, cassette=tape, mode="auto", engine=Live(registry)) as engine:
        assert engine.reaches_out
        engine.setup("s")
        read, write = engine.simulate("s", [call("read"), call("write")])
        assert read.result == 1 and write.error_info.code == "tool.denied"
        assert engine.execute("s", [call("write")])[0].result == 2
        assert engine.simulate("s", [call("write"), call("read")])[0].result == 2
        assert engine.recorded_engine.count == 2
    with ReplayToolEngine(registry, cassette=tape) as engine:
        assert not engine.reaches_out
        engine.setup("s")
        assert [result.result for result in engine.simulate("s", [call("write"), call("read")])] == [2, 1]


def test_a_cassette_stands_in_for_what_must_not_be_simulated_live(tape):
    registry = live_tools()
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=Live(registry)) as engine:
        engine.setup("s")
        engine.execute("s", [call("write")])
    with Live(registry, simulate_with=ReplayToolEngine(registry, cassette=tape)) as engine:
        engine.setup("s")
        assert engine.simulate("s", [call("write")])[0].result == 1
        assert engine.count == 0


def test_a_whole_yard_is_recorded_through_its_root(tape, registry, world):
    others = registry_of(lambda: 1, namespace="m", name="one")
    registry.add(*others)
    parts = {"n": PythonToolEngine(registry, name="a"), "m": PythonToolEngine(registry, name="b")}
    calls = [call("look", place="a"), call("m::one"), call("wait", place="c")]
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=MultiToolEngine(registry, parts)) as engine:
        engine.setup("s")
        first = engine.execute("s", calls)
    assert [result.result for result in first] == [{"place": "a", "number": 1}, 1, "c"]
    assert replayed(tape, registry, calls)[0] == first


def test_the_recorded_engine_keeps_its_state_in_the_session(tape):
    class Counting(ToolEngine):
        def answer(self, invocation):
            invocation.state["n"] = invocation.state.get("n", 0) + 1
            return invocation.state["n"]

    registry = ToolRegistry([Tool("next", "n")])
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=Counting(registry)) as engine:
        engine.setup("s")
        assert [result.result for result in engine.execute("s", [call("next")] * 3)] == [1, 2, 3]
        assert engine.get_session_state("s")["replay"] == {"n": 3}


def test_many_threads_record_into_one_cassette(tape, registry):
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:

        def work(number):
            engine.setup(f"s{number}")
            engine.execute(f"s{number}", [call("look", place=f"{number}-{step}") for step in range(25)])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    calls = [call("look", place=f"{number}-{step}") for number in range(8) for step in range(25)]
    results, drift = replayed(tape, registry, calls)
    assert [result.result["place"] for result in results] == [item.arguments["place"] for item in calls]
    assert drift.ok and drift.recordings == 200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "rewind"}, "mode: no such choice 'rewind'"),
        ({"match": "loosely"}, "match: no such choice 'loosely'"),
        ({"mode": "record"}, "mode 'record' needs an engine"),
        ({"mode": "auto", "engine": "live"}, "engine by name works in a config"),
        ({}, "no cassette to replay"),
        ({"cassette": "tape.txt"}, "must end in .jsonl or .yaml"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(tmp_path, options, said):
    with pytest.raises(ConfigError) as caught:
        ReplayToolEngine(ToolRegistry(), **{"cassette": tmp_path / "none.jsonl", **options})
    assert said in str(caught.value)


@given(st.data())
def test_replaying_the_recorded_calls_gives_the_recorded_results(tmp_path_factory, data):
    world = World()
    registry, tape = registry_of(*world.tools()), tmp_path_factory.mktemp("t") / "tape.jsonl"
    places = st.sampled_from(["a", "b", "nowhere"])
    one = st.builds(lambda name, place: call(name, place=place), st.sampled_from(["look", "wait"]), places)
    calls = data.draw(st.lists(one, min_size=1, max_size=12))
    match = data.draw(st.sampled_from(["arguments", "strict", "fifo"]))
    first = recorded(tape, registry, calls)
    again, drift = replayed(tape, registry, calls, match=match, repeat=data.draw(st.booleans()))
    assert again == first and drift.ok


def test_an_engine_in_the_older_style_is_recorded_too(tape):
    from toolyard import ToolResult

    class Older(ToolEngine):
        def execute(self, session_id, tool_calls):
            self.sessions.find(session_id, None)
            return [ToolResult(call.call_id, call.name, f"older {call.arguments['n']}") for call in tool_calls]

    registry = ToolRegistry([Tool("ask", "n", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})])
    calls = [call("ask", n=1), call("ask", n=2**70)]
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=Older(registry)) as engine:
        engine.setup("s")
        first = engine.execute("s", calls)
        engine.teardown("s")
        engine.setup("s")
    assert [result.result for result in first] == ["older 1", f"older {2**70}"]
    assert replayed(tape, registry, calls)[0] == first


def test_an_answer_that_cannot_be_recorded_says_that_it_took_effect(tmp_path, registry):
    path = tmp_path / "tape.jsonl"
    with ReplayToolEngine(registry, cassette=path, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        path.mkdir()
        (result,) = engine.execute("s", [call("look")])
        assert result.error_info.effect == "done" and "did not take it: Is a directory" in result.error
        assert str(tmp_path) not in result.error


def test_a_secret_that_is_a_number_leaves_an_error_readable(tape, registry):
    from toolyard import Redactor

    def limited() -> int:
        """Says when to come back."""
        raise Unavailable("later 4711", retry_after=4711, details={"wait": 4711})

    registry = registry_of(limited)
    recorded(tape, registry, [call("limited")], redactor=Redactor(["4711"]))
    (result,), _ = replayed(tape, registry, [call("limited")])
    assert result.error_info.retry_after == 4711 and result.error == "later [redacted]"


@pytest.mark.parametrize("kind", ["partial_result", "latency", "unparseable_result", "schema_violation"])
async def test_a_plan_on_this_side_of_the_cassette_is_not_recorded(tape, registry, kind):
    rule = {"type": kind, **({"seconds": 0} if kind == "latency" else {})}
    calls = [call("look", place="a"), call("look", place="nowhere")]
    options = {"cassette": tape, "mode": "record", "faults": {"rules": [rule]}}
    with ReplayToolEngine(registry, engine=PythonToolEngine(registry), **options) as engine:
        engine.setup("s")
        first = [*engine.execute("s", calls[:1]), *await engine.aexecute("s", calls[1:])]
    assert first[0].metadata["fault"]["type"] == kind
    assert ("fault" in first[1].metadata) == (kind == "latency")
    whole, failed = replayed(tape, registry, calls)[0]
    assert (whole.result, whole.metadata) == ({"place": "a", "number": 1}, {})
    assert (failed.error, failed.metadata) == ("nothing there", {})


async def test_a_cancelled_call_is_not_recorded(tape):
    import asyncio

    begun = asyncio.Event()

    async def hang() -> int:
        """Never ends."""
        begun.set()
        await asyncio.sleep(600)
        return 1

    registry = registry_of(hang)
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        task = asyncio.ensure_future(engine.aexecute("s", [call("hang")]))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (entry,) = engine.get_session_state("s")["tool_executions"]
        assert entry["tool_output"]["error_info"]["code"] == "tool.interrupted"
        assert len(engine.cassette) == 0 and not tape.exists()
