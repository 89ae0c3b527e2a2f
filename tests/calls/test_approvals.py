"""Calls that wait for somebody's word: what an approval is bound to, who decides, and that a call runs once at most."""

from contextlib import closing

import pytest
from calls.call_support import call, engine_of, executions

from toolyard.calls.policy import Policy, Rule
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

ASK = Policy([Rule("ask", "n::pay")])


def pay(amount: int, to: str = "shop") -> int:
    PAID.append(amount)
    return amount


def look() -> str:
    return "seen"


PAID: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_paid():
    PAID.clear()


@pytest.fixture(params=["memory", "sqlite"])
def engine(request, tmp_path):
    sessions = Sessions() if request.param == "memory" else Sessions(SqliteStore(tmp_path / "s.db"))
    with closing(engine_of(pay, look, policy=ASK, sessions=sessions)) as made:
        yield made


def held_id(result):
    assert result.error_info.code == "tool.held"
    return result.error_info.details["approval"]["id"]


def test_a_held_call_ran_nothing_stands_in_no_history_and_later_calls_go_on(engine):
    held, seen = engine.execute("s", [call("pay", amount=5), call("look")])
    assert held.error_info.effect == "none" and not held.error_info.retryable
    assert seen.result == "seen" and PAID == []
    assert [entry["tool_call"]["name"] for entry in executions(engine)] == ["n::look"]


def test_the_same_call_is_held_under_one_id_until_it_is_approved_and_then_runs_once(engine):
    first, again = (held_id(engine.execute("s", [call("pay", amount=5)])[0]) for _ in range(2))
    assert first == again
    engine.approvals.approve(first)
    assert PAID == [], "approving runs nothing"
    assert engine.execute("s", [call("pay", amount="5")])[0].result == 5, "after coercion it is the same call"
    assert held_id(engine.execute("s", [call("pay", amount=5)])[0]) != first
    assert PAID == [5]
    used = engine.approvals.get(first)
    assert (used.state, used.outcome.code, used.decided_by) == ("used", "ok", "operator")


def test_defaults_are_part_of_what_is_approved(engine):
    first = held_id(engine.execute("s", [call("pay", amount=5)])[0])
    assert held_id(engine.execute("s", [call("pay", amount=5, to="shop")])[0]) == first
    assert held_id(engine.execute("s", [call("pay", amount=5, to="mallory")])[0]) != first


async def test_a_task_holds_and_runs_the_same_way(engine):
    [held] = await engine.aexecute("s", [call("pay", amount=5)])
    await engine.approvals.aapprove(held_id(held))
    [done] = await engine.aexecute("s", [call("pay", amount=5)])
    assert done.result == 5 and (await engine.approvals.aget(held_id(held))).outcome.code == "ok"
