"""Fault plans: read strictly, decided by seed, session and call number, applied where an engine answers."""

import subprocess
import sys

import jsonschema_rs
import pytest
from call_support import call, engine_of, registry_of
from fault_support import Counted, plan
from hypothesis import given, strategies as st

from toolyard.calls.batch import CallRequest
from toolyard.calls.call_path import Settings
from toolyard.calls.faults import FAULTS_SCHEMA, FaultPlan, from_error_categories
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.errors import ConfigError
from toolyard.sessions.sessions import Sessions

TYPES = FAULTS_SCHEMA["properties"]["rules"]["items"]["anyOf"]
ALL = sorted(kind for branch in TYPES for kind in branch["properties"]["type"]["enum"])
BEFORE = ("network_error", "rate_limit", "timeout", "auth", "not_found")


def befallen(engine, count=40, session="s", name="look"):
    """The types of the faults that befell so many calls; None where there was none."""
    results = engine.execute(session, [call(name) for _ in range(count)])
    return [result.metadata.get("fault", {}).get("type") for result in results]


def test_every_and_after_count_the_calls_that_the_globs_match():
    def other() -> int:
        """Another."""
        return 1

    rule = {"type": "not_found", "tool": "n::look", "after": 1, "every": 2}
    with engine_of(Counted().tool(), other, faults=plan(rule)) as engine:
        calls = [call(name) for _ in range(7) for name in ("look", "other")]
        results = engine.execute("s", calls)
        looks = [result.is_error for result in results if result.name == "n::look"]
        assert looks == [False, False, True, False, True, False, True]
        assert not any(result.is_error for result in results if result.name == "n::other")


def test_simulate_fails_as_execute_would_and_counts_nothing():
    rules = [{"type": "not_found", "tool": "n::look", "every": 3}, {"type": "auth", "probability": 0.3}]
    with engine_of(Counted().tool(), faults=plan(*rules)) as engine:
        for _ in range(10):
            batch = [call("look") for _ in range(4)]
            expected = [result.metadata for result in engine.simulate("s", batch)]
            assert [result.metadata for result in engine.simulate("s", batch)] == expected
            assert [result.metadata for result in engine.execute("s", batch)] == expected


def test_a_fork_counts_on_from_where_it_began_and_a_new_session_from_the_start():
    with engine_of(Counted().tool(), faults=plan({"type": "auth", "tool": "n::look", "every": 3})) as engine:
        assert befallen(engine, 2) == [None, None]
        engine.setup("fork", fork_of="s")
        assert befallen(engine, 2, "fork") == ["auth", None]
        assert befallen(engine, 2) == ["auth", None]
        engine.teardown("s")
        engine.setup("s")
        assert befallen(engine, 3) == [None, None, "auth"]


def test_a_session_that_a_store_kept_goes_on_counting(tmp_path):
    from toolyard.sessions.store.sqlite import SqliteStore

    rule, seen = {"type": "auth", "tool": "n::look", "every": 4}, []
    for first in (True, False):
        sessions = Sessions(SqliteStore(tmp_path / "s.db"))
        with PythonToolEngine(registry_of(Counted().tool()), sessions=sessions, faults=plan(rule)) as engine:
            if first:
                engine.setup("s")
            seen += befallen(engine, 3)
    assert seen == [None, None, None, "auth", None, None]


def test_the_same_seed_gives_the_same_faults_and_another_gives_others():
    def run(seed, session="s"):
        rules = [{"type": kind, "probability": 0.2} for kind in BEFORE]
        with engine_of(Counted().tool(), faults=plan(*rules, seed=seed), session=session) as engine:
            return befallen(engine, 60, session)

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert run(1) != run(1, "other")


@pytest.mark.process
def test_decisions_do_not_depend_on_the_process():
    code = (
        "from toolyard.calls.faults import FaultPlan; from toolyard.sessions.sessions import Sessions\n"
        "p = FaultPlan([{'type': 'auth', 'probability': 0.5}, {'type': 'timeout', 'probability': 0.5}], seed=3)\n"
        "s = Sessions().open('s'); out = []\n"
        "for i in range(64):\n"
        "    f = p.decide('a::b', s, 'execute'); out.append((f and f.type, f and f.draw))\n"
        "    s.history.append(b'{}')\n"
        "print(out)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(runs) == 1 and b"auth" in runs.pop()


def test_rules_are_tried_independently_and_one_that_fired_is_chosen_evenly():
    faults = FaultPlan([{"type": "auth", "probability": 0.5}, {"type": "not_found", "probability": 0.5}], seed=11)
    counts = {"auth": 0, "not_found": 0, None: 0}
    for number in range(4000):
        fault = faults.decide("a::b", Sessions().open(f"s{number}"), "execute")
        counts[None if fault is None else fault.type] += 1
    assert abs(counts[None] - 1000) < 120
    assert abs(counts["auth"] - 1500) < 150 and abs(counts["not_found"] - 1500) < 150


@given(st.floats(0, 1), st.integers(-(2**40), 2**40))
def test_a_probability_is_kept(probability, seed):
    faults = FaultPlan([{"type": "auth", "probability": probability}], seed=seed)
    session, fired = Sessions().open("s"), 0
    for _ in range(400):
        fired += faults.decide("a::b", session, "execute") is not None
        session.history.append(b'{"tool_output":{"name":"a::b"}}')
    assert abs(fired / 400 - probability) < 0.15
    assert fired == 0 if probability == 0 else True
    assert fired == 400 if probability == 1 else True


@given(st.lists(st.sampled_from(["a::x", "a::y", "b::x"]), max_size=30), st.integers(1, 5), st.integers(0, 5))
def test_counting_agrees_with_reading_the_whole_history(names, every, after):
    faults = FaultPlan([{"type": "auth", "tool": ["a::*"], "every": every, "after": after}])
    session, matched = Sessions().open("s"), 0
    for name in names:
        hit = name.startswith("a::")
        expected = hit and matched >= after and (matched - after + 1) % every == 0
        assert (faults.decide(name, session.draft(), "simulate") is not None) == expected
        assert (faults.decide(name, session, "execute") is not None) == expected
        session.history.append(b'{"tool_output":{"name":"%b"}}' % name.encode())
        matched += hit


async def test_calls_without_a_session_are_numbered_in_order():
    rule = {"type": "auth", "every": 2}
    with engine_of(Counted().tool(), faults=plan(rule)) as engine:
        failed = []
        for mode in ("execute", "simulate", "execute", "execute", "execute"):
            (result,) = await engine.arun(CallRequest(calls=[call("look")], mode=mode))
            failed.append(result.is_error)
        assert failed == [False, True, True, False, True]


async def test_async_calls_meet_the_same_faults():
    rules = [{"type": kind, "probability": 0.15, **({"seconds": 0} if kind == "latency" else {})} for kind in ALL]
    with engine_of(Counted().tool(), faults=plan(*rules, seed=5)) as engine:
        there = [(r.metadata, r.error) for r in engine.execute("s", [call("look") for _ in range(80)])]
    with engine_of(Counted().tool(), faults=plan(*rules, seed=5)) as engine:
        here = [(r.metadata, r.error) for r in await engine.aexecute("s", [call("look") for _ in range(80)])]
    assert here == there
    assert len({metadata.get("fault", {}).get("type") for metadata, _ in here}) > 5


def test_an_engine_with_a_plan_is_not_unlimited():
    assert not Settings(faults=FaultPlan()).unlimited


def test_a_plan_holds_for_the_engine_that_answers_and_one_of_the_whole_for_the_rest():
    registry = registry_of(Counted().tool())
    registry.add(*registry_of(Counted().tool(), namespace="m"))
    parts = {
        "n": PythonToolEngine(registry, name="one", faults=plan({"type": "auth"})),
        "m": PythonToolEngine(registry, name="two"),
    }
    with MultiToolEngine(registry, parts, faults=plan({"type": "timeout"})) as engine:
        engine.setup("s")
        calls = [call("look"), type(call("look"))("m::look", {})]
        assert [r.metadata["fault"]["type"] for r in engine.execute("s", calls)] == ["auth", "timeout"]


def test_an_engine_of_ones_own_accepts_a_plan():
    class Mine(ToolEngine):
        async def answer(self, invocation):
            return 1

    with Mine(registry_of(Counted().tool()), faults=plan({"type": "schema_violation"})) as engine:
        engine.setup("s")
        assert engine.execute("s", [call("look")])[0].error_info.code == "tool.invalid_output"


def test_error_categories_come_in_place_of_the_call():
    counted = Counted()
    categories = [{"type": "network_error", "probability": 0.0}, {"type": "schema_violation", "message": "bad shape"}]
    with engine_of(counted.tool(), faults=from_error_categories(categories)) as engine:
        (result,) = engine.execute("s", [call("look")])
        assert (result.error, result.error_info.effect, counted.calls) == ("bad shape", "none", 0)
    with engine_of(counted.tool(), faults=from_error_categories([{"type": "unparseable_result"}])) as engine:
        (result,) = engine.execute("s", [call("look")])
        assert result.result.startswith("<garbled: {") and counted.calls == 0
    with engine_of(counted.tool(), faults=from_error_categories([{"type": "network_error"}])) as engine:
        assert engine.execute("s", [call("look")])[0].error == "Tool execution failed"
    with pytest.raises(ConfigError, match=r"error_categories\[0\]: unknown key 'every'"):
        from_error_categories([{"type": "auth", "every": 3}])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "faults: must be a mapping, not list"),
        ({}, "faults: needs 'rules'"),
        ({"rule": []}, "did you mean 'rules'"),
        ({"rules": [], "seed": "x"}, "faults.seed: must be a whole number"),
        ({"rules": {}}, "faults.rules: must be a list"),
        ({"rules": [{}]}, "faults.rules[0]: a fault needs a 'type'"),
        ({"rules": [{"type": "net_error"}]}, "did you mean 'network_error'"),
        ({"rules": [{"type": "auth", "probabilty": 1}]}, "did you mean 'probability'"),
        ({"rules": [{"type": "auth", "probability": 1.5}]}, "probability: must be 1 or less, not 1.5"),
        ({"rules": [{"type": "auth", "every": 0}]}, "must be 1 or more"),
        ({"rules": [{"type": "auth", "tool": "look"}]}, "'look' matches no tool"),
        ({"rules": [{"type": "auth", "after_call": True}]}, "unknown key 'after_call'"),
        ({"rules": [{"type": "latency", "message": "x"}]}, "unknown key 'message'"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_with_its_place(value, said):
    with pytest.raises(ConfigError) as caught:
        FaultPlan.read(value, "faults")
    assert said in str(caught.value)


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(-1, 2), st.sampled_from(["", "x", "a::*", "*", *ALL])
)
_RULE = st.dictionaries(
    st.sampled_from(
        ["type", "tool", "probability", "every", "after", "message", "seconds", "retry_after", "after_call", "x"]
    ),
    st.one_of(_SCALARS, st.lists(_SCALARS, max_size=2)),
    max_size=4,
)
_TYPED = st.builds(lambda rule, kind: {**rule, "type": kind}, _RULE, st.sampled_from(ALL))


@given(st.fixed_dictionaries({"rules": st.lists(st.one_of(_TYPED, _RULE), max_size=2)}, optional={"seed": _SCALARS}))
def test_the_schema_accepts_what_the_reader_accepts(value):
    try:
        FaultPlan.read(value, "faults")
        read = True
    except ConfigError:
        read = False
    assert jsonschema_rs.validator_for(FAULTS_SCHEMA).is_valid(value) == read


def test_what_stands_in_for_a_live_engine_fails_as_the_live_one_would():
    from toolyard.engines.effectful import OutwardEngine

    class Live(OutwardEngine):
        def answer(self, invocation):
            return {}

    registry = registry_of(Counted().tool(), effects="write")
    rules = [{"type": kind, "probability": 0.3} for kind in ("auth", "not_found")]
    with Live(registry, simulate_with=PythonToolEngine(registry), faults=plan(*rules)) as engine:
        engine.setup("s")
        batch = [call("look") for _ in range(30)]
        simulated = [result.metadata.get("fault") for result in engine.simulate("s", batch)]
        assert any(simulated)
        assert [result.metadata.get("fault") for result in engine.execute("s", batch)] == simulated
