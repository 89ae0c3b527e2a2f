"""What all calls of an engine share: made once, left out where it would do nothing, and closed with the engine."""

import pytest
from call_support import call, engine_of, registry_of

from toolyard.calls.policy import Policy, Rule
from toolyard.calls.tracer import Tracer
from toolyard.engines.python import PythonToolEngine
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


def add(x: int) -> int:
    return x + 1


def half(x: int) -> float:
    return x / 2


def test_a_policy_and_a_tracer_that_would_do_nothing_are_left_out():
    path = engine_of(add, policy=Policy(), tracer=Tracer([]))._path
    assert (path.policy, path.tracer, path.counting) == (None, None, False)
    strict = Policy([Rule("deny", tools="n::half")])
    assert engine_of(add, policy=strict)._path.policy is strict


def test_plans_are_made_once_for_each_mode_and_anew_for_another_snapshot():
    registry = registry_of(add, half)
    engine = PythonToolEngine(registry)
    engine.setup("s")
    engine.execute("s", [call("add", x=1), call("add", "id", x=2)])
    engine.simulate("s", [call("add", x=1)])
    plans, snapshot = engine._path.plans, registry.snapshot
    executed, simulated = plans["execute", snapshot], plans["simulate", snapshot]
    assert [plan.name for plan in executed.values()] == [plan.name for plan in simulated.values()] == ["n::add"]
    assert executed is plans["execute", snapshot] and executed is not simulated
    registry.remove("n::half")
    assert plans["execute", registry.snapshot] is not executed
    assert {kept for _, kept in plans} == {registry.snapshot}, "those of the old snapshot are dropped"


def test_a_path_for_previews_skips_policy_and_tracer_and_shares_the_rest():
    path = engine_of(add, policy=Policy([Rule("ask")]), tracer=Tracer([print]))._path
    preview = path.past_policy()
    assert (preview.policy, preview.tracer) == (None, None) and path.policy is not None and path.tracer is not None
    assert (preview.registry, preview.sessions, preview.plans) == (path.registry, path.sessions, path.plans)


@pytest.mark.parametrize("stored", [False, True])
def test_approvals_are_opened_once_and_kept_where_the_sessions_are(tmp_path, stored):
    store = SqliteStore(tmp_path / "s.db") if stored else None
    with engine_of(add, sessions=Sessions(store), policy=Policy([Rule("ask")])) as engine:
        (held,) = engine.execute("s", [call("add", x=1)])
        assert held.error_info.code == "tool.held"
        assert engine._path.approvals is engine._path.approvals
        [pending] = engine.approvals.list(state="pending").approvals
        assert pending.tool == "n::add" and engine._path.approvals._records.shared is stored
