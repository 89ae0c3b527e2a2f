"""Calls that wait for somebody's word: what an approval is bound to, who decides, and that a call runs once at most."""

import asyncio
import threading
import tracemalloc
from contextlib import closing, suppress
from typing import ClassVar

import msgspec
import pytest
from calls.call_support import Listener, call, codes, engine_of, executions, in_threads
from waiting import Clock, until

from conftest import chosen_way, ways_to_try
from toolyard.calls import approvals as approvals_module
from toolyard.calls.approval import ANONYMOUS, OPERATOR, PROGRAM, Approval, Decider, Outcome, check_decider, may_see
from toolyard.calls.approvals import KEEP, Approvals
from toolyard.calls.batch import CallRequest
from toolyard.calls.budgets import Budget
from toolyard.calls.policy import Policy, Rule
from toolyard.calls.tracer import Tracer
from toolyard.model.errors import (
    ApprovalError,
    ApprovalForbiddenError,
    ConfigError,
    DefinitionError,
    Unavailable,
    UnknownApprovalError,
)
from toolyard.model.tool import json_digest
from toolyard.registry.functions import function_tool
from toolyard.sessions.records import MemoryRecords
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore
from toolyard.words.redactor import Redactor

PAID: list[int] = []


def pay(amount: int, to: str = "shop", password: str = "") -> int:
    PAID.append(amount)
    return amount


def look() -> str:
    return "seen"


@pytest.fixture(autouse=True)
def _nothing_paid():
    PAID.clear()


@pytest.fixture(params=ways_to_try("memory", "sqlite"))
def sessions(request, tmp_path):
    return Sessions() if chosen_way(request) == "memory" else Sessions(SqliteStore(tmp_path / "s.db"))


def asking(sessions, session="s", **rule):
    policy = Policy([Rule("ask", "n::pay", **rule)])
    return closing(engine_of(pay, look, policy=policy, sessions=sessions, session=session))


@pytest.fixture
def engine(sessions):
    with asking(sessions) as made:
        yield made


def held_id(result):
    assert result.error_info.code == "tool.held"
    return result.error_info.details["approval"]["id"]


def hold(engine, **arguments):
    [result] = engine.execute("s", [call("pay", **arguments or {"amount": 5})])
    return held_id(result)


def test_a_held_call_ran_nothing_stands_in_no_history_and_later_calls_go_on(engine):
    held, seen = engine.execute("s", [call("pay", amount=5), call("look")])
    assert held.error_info.effect == "none" and not held.error_info.retryable
    assert seen.result == "seen" and PAID == []
    assert [entry["tool_call"]["name"] for entry in executions(engine)] == ["n::look"]


def test_the_same_call_is_held_under_one_id_until_it_is_approved_and_then_runs_once(engine):
    first = hold(engine)
    assert hold(engine) == first
    engine.approvals.approve(first)
    assert PAID == [], "approving runs nothing"
    assert engine.execute("s", [call("pay", amount="5")])[0].result == 5, "after coercion it is the same call"
    assert hold(engine) != first
    assert PAID == [5] and len(executions(engine)) == 1
    used = engine.approvals.get(first)
    assert (used.state, used.outcome.code, used.decided_by) == ("used", "ok", "operator")


def test_what_is_approved_is_the_digest_of_the_arguments_with_their_defaults(engine):
    first = hold(engine)
    assert hold(engine, amount=5, to="shop") == first
    assert hold(engine, amount=5, to="mallory") != first
    assert engine.approvals.get(first).digest == json_digest({"amount": 5, "to": "shop", "password": ""})


def test_an_approval_is_for_its_caller_its_session_and_its_arguments_alone(engine):
    engine.setup("t")
    engine.setup("s", owner="ann")
    engine.approvals.approve(hold(engine))
    others = [
        engine.execute("t", [call("pay", amount=5)]),
        engine.execute("s", [call("pay", amount=5)], owner="ann"),
        engine.execute("s", [call("pay", amount=6)]),
    ]
    assert len({held_id(result) for [result] in others}) == 3 and PAID == []
    assert engine.execute("s", [call("pay", amount=5)])[0].result == 5


def test_a_definition_that_changed_is_held_anew_and_the_old_approval_says_why_it_is_of_no_use(engine):
    approved, pending = hold(engine), hold(engine, amount=6)
    engine.approvals.approve(approved)
    engine.tool_registry.remove("n::pay")
    assert "no longer exists" in engine.approvals.obstacle(engine.approvals.get(approved))
    engine.tool_registry.add(function_tool(pay, namespace="n", description="Now something else."))
    assert hold(engine) != approved and PAID == []
    assert "another definition" in engine.approvals.obstacle(engine.approvals.get(approved))
    with pytest.raises(ApprovalError, match="another definition"):
        engine.approvals.approve(pending)


def test_a_denial_is_told_to_whoever_sends_the_call_again_and_stands_in_the_history(engine):
    engine.approvals.deny(hold(engine), "not today", by=Decider(name="ann", is_operator=True))
    [refused] = engine.execute("s", [call("pay", amount=5)])
    assert refused.error_info.code == "tool.denied"
    assert "denied by ann (not today)" in refused.error and "policy.rules[0]" in refused.error
    assert refused.error_info.details["approval"]["state"] == "denied"
    assert codes(engine) == ["tool.denied"] and PAID == []


def test_a_decision_stands_and_says_so_to_whoever_comes_second(engine):
    first = hold(engine)
    engine.approvals.approve(first, reason="fine")
    for decide in (engine.approvals.approve, engine.approvals.deny):
        with pytest.raises(ApprovalError, match="decided already: approved by operator at .*: fine"):
            decide(first)
    with pytest.raises(UnknownApprovalError, match="no approval has the id 'x'"):
        engine.approvals.approve("x")


async def test_a_task_holds_and_runs_the_same_way(engine):
    [held] = await engine.aexecute("s", [call("pay", amount=5)])
    await engine.approvals.aapprove(held_id(held))
    [done] = await engine.aexecute("s", [call("pay", amount=5)])
    assert done.result == 5 and (await engine.approvals.aget(held_id(held))).outcome.code == "ok"


class RacingApprovals(Approvals):
    """Those who look at a record at once all see it before the first of them changes it."""

    race: threading.Barrier | None = None

    def _read(self, approval_id):
        found = super()._read(approval_id)
        if self.race is not None:
            with suppress(threading.BrokenBarrierError):
                self.race.wait(1)
        return found


def test_many_who_send_an_approved_call_at_once_run_it_once(sessions):
    with asking(sessions) as engine:
        approvals = engine._path._approvals = RacingApprovals(engine.approvals._records)
        request = CallRequest(calls=[call("pay", amount=5)], keys=())
        [held] = asyncio.run(engine.arun(request))
        approvals.approve(held_id(held))
        approvals.race = threading.Barrier(4)
        results = in_threads(*[lambda: asyncio.run(engine.arun(request))[0] for _ in range(4)])
    assert PAID == [5]
    ends = sorted(result.error_info.code if result.is_error else "ok" for result in results)
    assert ends == ["ok", "tool.held", "tool.held", "tool.held"]
    assert len({held_id(result) for result in results if result.is_error}) == 1, "the others wait for the same word"


def test_of_two_who_decide_at_once_one_decides(desk):
    held = desk.hold(draft(), 60)
    racing = RacingApprovals(desk._records)
    racing.race = threading.Barrier(2)

    def decide(how):
        with suppress(ApprovalError):
            return how(held.id).state

    decided = in_threads(lambda: decide(racing.approve), lambda: decide(racing.deny))
    assert sorted(decided, key=str) in (["approved", None], [None, "approved"], ["denied", None], [None, "denied"])
    assert desk.get(held.id).state in decided


def test_secrets_among_the_arguments_are_in_no_record(engine):
    approval = engine.approvals.get(hold(engine, amount=5, password="hunter22"))
    assert approval.arguments == {"amount": 5, "to": "shop", "password": "[redacted]"}
    assert "hunter22" not in str(approval.to_dict())
    assert hold(engine, amount=5, password="hunter23") != approval.id


def test_arguments_nobody_could_look_through_are_refused_not_held(engine):
    [refused] = engine.execute("s", [call("pay", amount=5, to="x" * 300_000)])
    assert refused.error_info.code == "tool.denied" and "too long to show" in refused.error


async def test_what_takes_long_to_look_through_does_not_hold_the_loop(sessions):
    class Spy(Redactor):
        seen: ClassVar[set[str]] = set()

        def value(self, value):
            if "amount" in value:  # not what the error says of it, which is short
                self.seen.add(threading.current_thread().name)
            return super().value(value)

    with closing(engine_of(pay, policy=Policy(default="ask"), sessions=sessions, redactor=Spy())) as engine:
        await engine.aexecute("s", [call("pay", amount=5)])
        await engine.approvals.alist()
    assert Spy.seen and threading.current_thread().name not in Spy.seen


def test_what_the_caller_changes_after_the_call_was_bound_is_not_what_runs(engine):
    sent = call("pay", amount=5)
    engine.approvals.approve(hold(engine))
    # Told of the claim, between what was looked at and what is run.
    engine.approvals.listeners.append(lambda approval: sent.arguments.update(amount=1_000_000))
    assert engine.execute("s", [sent])[0].result == 5
    assert sent.arguments == {"amount": 1_000_000} and PAID == [5]


def test_a_simulation_is_never_held_and_runs_nothing_that_may_have_an_effect(engine):
    [simulated] = engine.simulate("s", [call("pay", amount=5)])
    assert not simulated.is_error and simulated.metadata["simulated_by"] == "schema simulator"
    assert PAID == [] and engine.approvals.list().approvals == ()


def test_a_held_call_spends_no_budget_and_one_that_a_budget_refuses_keeps_its_approval(sessions):
    policy = Policy([Rule("ask", "n::pay")], budgets=[Budget(1, per="yard")])
    with closing(engine_of(pay, look, policy=policy, sessions=sessions)) as engine:
        approved = hold(engine)
        engine.approvals.approve(approved)

        claim = engine.approvals.claim

        def claim_while_another_spends(draft):
            engine.approvals.claim = claim
            standing = claim(draft)
            engine.setup("t")
            assert engine.execute("t", [call("look")])[0].result == "seen"
            return standing

        engine.approvals.claim = claim_while_another_spends
        [refused] = engine.execute("s", [call("pay", amount=5)])
        assert "no calls left" in refused.error and PAID == []
        assert engine.approvals.get(approved).state == "approved"


def test_each_state_is_told_once_and_used_comes_with_what_came_of_the_call(sessions):
    with closing(engine_of(pay, policy=Policy(default="ask"), sessions=sessions)) as engine:
        told = []
        engine.approvals.listeners.append(lambda one: told.append((one.state, one.outcome and one.outcome.code)))
        engine.approvals.approve(hold(engine))
        assert engine.execute("s", [call("pay", amount=5)])[0].result == 5
    assert told == [("pending", None), ("approved", None), ("used", "ok")]


def test_an_approver_decides_at_once_and_the_record_says_so(sessions):
    asked, answers = [], iter([False, True])
    policy = Policy([Rule("ask", "n::pay")], approver=lambda ask: asked.append(ask) or next(answers))
    with closing(engine_of(pay, policy=policy, sessions=sessions)) as engine:
        assert engine.execute("s", [call("pay", amount=5)])[0].error_info.code == "tool.denied"
        assert engine.execute("s", [call("pay", amount=5)])[0].result == 5
        assert [ask.approval.state for ask in asked] == ["pending", "pending"]
        assert [(one.state, one.decided_by) for one in engine.approvals.list().approvals] == [
            ("used", "operator"),
            ("denied", "operator"),
        ]


async def test_an_async_approver_answers_threads_and_tasks_and_a_task_on_its_own_loop(sessions):
    asked, answers = asyncio.Queue(), iter([True, False, OSError("secret"), asyncio.CancelledError()])

    async def approver(ask):
        if asyncio.get_running_loop() is loop:
            await asked.put(ask)
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    loop = asyncio.get_running_loop()
    policy = Policy([Rule("ask", "n::pay")], approver=approver)
    with closing(engine_of(pay, policy=policy, sessions=sessions)) as engine:
        [paid] = await engine.aexecute("s", [call("pay", amount=5)])
        assert (paid.result, asked.qsize()) == (5, 1)
        [refused] = await asyncio.to_thread(engine.execute, "s", [call("pay", amount=6)])
        assert "was not approved" in refused.error and asked.qsize() == 1
        [failed] = await engine.aexecute("s", [call("pay", amount=7)])
        assert "asking failed with OSError" in failed.error and "secret" not in failed.error
        [failed] = await engine.aexecute("s", [call("pay", amount=8)])
        assert "asking failed with CancelledError" in failed.error


@pytest.mark.parametrize(("answer", "state"), [(True, "approved"), (False, "denied")])
async def test_a_call_that_is_cancelled_while_its_answer_is_recorded_uses_no_approval(tmp_path, answer, state):
    async def approver(ask):
        task.cancel()
        return answer

    policy = Policy([Rule("ask", "n::pay")], approver=approver)
    with closing(engine_of(pay, policy=policy, sessions=Sessions(SqliteStore(tmp_path / "s.db")))) as engine:
        task = asyncio.create_task(engine.aexecute("s", [call("pay", amount=5)]))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [one.state for one in engine.approvals.list().approvals] == [state] and PAID == []


def test_somebody_else_may_decide_while_the_approver_thinks(sessions):
    def approver(ask):
        engine.approvals.deny(ask.approval.id, reason="no")
        return True

    policy = Policy([Rule("ask", "n::pay")], approver=approver)
    with closing(engine_of(pay, policy=policy, sessions=sessions)) as engine:
        [refused] = engine.execute("s", [call("pay", amount=5)])
    assert "denied by operator (no)" in refused.error and PAID == []


def test_a_call_is_traced_once_and_names_its_approval():
    listener = Listener()
    policy = Policy([Rule("ask", "n::pay")])
    with closing(engine_of(pay, policy=policy, tracer=Tracer([listener]))) as engine:
        approval = hold(engine)
        engine.approvals.approve(approval)
        engine.execute("s", [call("pay", amount=5)])
    assert [(event.code, event.approval) for event in listener.events] == [("tool.held", approval), (None, approval)]


def test_a_tool_that_fails_uses_its_approval_and_the_record_says_how():
    def fail() -> None:
        raise RuntimeError("boom")

    with closing(engine_of(fail, policy=Policy(default="ask"))) as engine:
        [held] = engine.execute("s", [call("fail")])
        engine.approvals.approve(held_id(held))
        assert engine.execute("s", [call("fail")])[0].error_info.code == "tool.execution_error"
        outcome = engine.approvals.get(held_id(held)).outcome
    assert (outcome.code, outcome.effect) == ("tool.execution_error", "unknown")


async def test_a_call_that_is_cancelled_leaves_an_outcome_that_nobody_knows(sessions):
    began = asyncio.Event()

    async def hang() -> None:
        began.set()
        await asyncio.sleep(60)

    with closing(engine_of(hang, policy=Policy(default="ask"), sessions=sessions)) as engine:
        [held] = await engine.aexecute("s", [call("hang")])
        await engine.approvals.aapprove(held_id(held))
        task = asyncio.create_task(engine.aexecute("s", [call("hang")]))
        await asyncio.wait_for(began.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        outcome = engine.approvals.get(held_id(held)).outcome
    assert (outcome.code, outcome.effect) == ("tool.interrupted", "unknown")


@pytest.mark.parametrize("per", ["yard", "session"])
async def test_a_call_that_is_cancelled_before_it_begins_leaves_approval_and_budget_as_they_were(sessions, per):
    hold_on = asyncio.Event()

    async def first() -> None:
        await hold_on.wait()

    policy = Policy([Rule("ask", "n::pay")], budgets=[Budget(1, "n::pay", per=per)])
    with closing(engine_of(first, pay, policy=policy, sessions=sessions, max_concurrent_calls=1)) as engine:
        engine.setup("t")
        told = []
        engine.approvals.listeners.append(lambda one: told.append(one.state))
        [held] = await engine.aexecute("s", [call("pay", amount=5)])
        await engine.approvals.aapprove(held_id(held))
        running = asyncio.create_task(engine.aexecute("t", [call("first")]))
        task = asyncio.create_task(engine.aexecute("s", [call("pay", amount=5)]))
        assert await asyncio.to_thread(until, lambda: engine.approvals.get(held_id(held)).state == "used")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = engine.approvals.get(held_id(held))
        assert (left.state, left.used_at, left.outcome, PAID) == ("approved", None, None, [])
        hold_on.set()
        await running
        [paid] = await engine.aexecute("s", [call("pay", amount=5)])
        assert (paid.result, PAID, engine.approvals.get(held_id(held)).outcome.code) == (5, [5], "ok")
        assert told == ["pending", "approved", "used"], "nothing of what was taken back"


@pytest.mark.parametrize(
    ("keys", "own", "over_http"),
    [((), False, False), ((), True, True), (("id", "ann"), False, True), (None, False, True)],
)
def test_who_is_told_to_have_a_call_approved_is_told_of_ways_that_are_open(sessions, keys, own, over_http):
    with asking(sessions, self_approval=own) as engine:
        [held] = asyncio.run(engine.arun(CallRequest(calls=[call("pay", amount=5)], keys=keys)))
        hint, command = held.error_info.hint, f"toolyard approvals approve {held_id(held)} -c CONFIG"
    assert (f"POST /v1/approvals/{held_id(held)}:approve" in hint) is ("console" in hint) is over_http
    assert ("self: true" in hint) is not over_http
    assert (command in hint) is (sessions.store is not None)


class TestWaiting:
    @pytest.mark.parametrize("word", ["approve", "deny"])
    async def test_a_task_waits_for_a_decision(self, engine, word):
        first = hold(engine)
        waiting = asyncio.create_task(engine.approvals.await_for(first, 20))
        await asyncio.sleep(0.01)
        getattr(engine.approvals, word)(first)
        assert (await waiting).state == {"approve": "approved", "deny": "denied"}[word]

    async def test_or_until_its_time_is_over(self, engine):
        assert (await engine.approvals.await_for(hold(engine), 0.01)).state == "pending"

    async def test_or_until_nobody_decided_in_time(self, sessions):
        with asking(sessions, expires=0.05) as engine:
            assert (await engine.approvals.await_for(hold(engine), 20)).state == "expired"

    def test_a_thread_waits_for_a_decision_of_another_process(self, tmp_path):
        stores = [SqliteStore(tmp_path / "s.db") for _ in range(2)]
        with asking(Sessions(stores[0])) as here, asking(Sessions(stores[1]), "t") as there:
            first = hold(here)
            [waited, _] = in_threads(
                lambda: here.approvals.wait_for(first, 20), lambda: there.approvals.approve(first, reason="there")
            )
        assert (waited.state, waited.reason) == ("approved", "there")


@pytest.fixture
def clock():
    return Clock(1_000_000.0)


@pytest.fixture
def desk(clock):
    return Approvals(MemoryRecords(clock=clock))


def draft(**changes):
    fields = {"owner": "k1", "caller": "bot", "session_id": "s", "tool": "n::pay", "definition_hash": "h"}
    return Approval(**{**fields, "digest": "d", "arguments": {}, **changes})


def test_what_expired_cannot_be_decided_nor_used_and_the_call_is_held_anew(desk, clock):
    first = desk.hold(draft(), 60)
    clock.now += 60
    assert desk.get(first.id).state_words.startswith("expired: nobody decided before 1970-01-12T")
    with pytest.raises(ApprovalError, match="expired"):
        desk.approve(first.id)
    assert desk.claim(draft()) is None
    assert desk.hold(draft(), 60).id != first.id


def test_what_expired_is_written_down_and_told_once_whoever_looks(clock):
    records = MemoryRecords(clock=clock)
    desks, told = [Approvals(records), Approvals(records)], []
    for desk in desks:
        desk.listeners.append(lambda approval: told.append((approval.id, approval.state)))
    first, second, third = (desks[0].hold(draft(digest=name), 60 + at) for at, name in enumerate("abc"))
    desks[0].deny(third.id)
    told.clear()
    assert desks[1].settle_expired() == 60 and told == []
    clock.now += 60
    assert [desk.settle_expired() for desk in desks] == [1, 1]
    assert told == [(first.id, "expired")]
    clock.now += 1
    desks[1].settle_expired()
    assert told[1:] == [(second.id, "expired")] and desks[0].get(third.id).state == "denied"
    assert desks[0].get(first.id).state_words.startswith("expired: nobody decided before 1970-01-12T")


def test_once_approved_a_call_may_run_for_as_long_again(desk, clock):
    first = desk.hold(draft(), 60)
    clock.now += 59
    desk.approve(first.id)
    clock.now += 59
    assert desk.claim(draft()).state == "used"
    second = desk.hold(draft(), 60)
    desk.approve(second.id)
    clock.now += 60
    assert desk.get(second.id).state_words.startswith("expired: approved by operator, but not used")
    assert desk.claim(draft()) is None


def test_a_denial_stands_until_the_approval_would_have_expired(desk, clock):
    first = desk.hold(draft(), 60)
    desk.deny(first.id)
    clock.now += 59
    assert desk.claim(draft()).id == desk.hold(draft(), 60).id == first.id
    clock.now += 1
    assert desk.claim(draft()) is None and desk.get(first.id).state == "denied"


def test_only_a_claim_of_ones_own_is_undone(desk):
    held = desk.hold(draft(), 60)
    desk.approve(held.id)
    claimed = desk.claim(draft())
    desk.release(held)
    assert desk.get(held.id).state == "used", "what was pending when it was looked at is somebody else's now"
    desk.release(claimed)
    assert desk.claim(draft()).state == "used"
    desk.finish(claimed, Outcome(code="ok"))
    desk.release(desk.get(held.id))
    assert desk.get(held.id).state == "used"


def decider(name="ops-1", *, approves=True, owner=None):
    owner = name if owner is None else owner
    return Decider(name=name, owner=owner, keys=(owner, name), approves=lambda namespace: approves and namespace == "n")


@pytest.mark.parametrize(
    ("by", "changes", "refusal"),
    [
        (OPERATOR, {}, None),
        (OPERATOR, {"approvers": ("boss",)}, None),
        (decider(), {}, None),
        (decider(approves=False), {}, "no verb approve"),
        (decider(), {"tool": "m::pay"}, "no verb approve"),
        (decider(), {"approvers": ("ops-*",)}, None),
        (decider(), {"approvers": ("boss",)}, "other keys"),
        (decider("boss", approves=False), {"approvers": ("boss",)}, "no verb approve"),
        (decider(owner="k1"), {}, "call of your own"),
        (decider(owner="k1", approves=False), {"self_allowed": True}, None),
        (decider(approves=False), {"self_allowed": True}, "no verb approve"),
        (
            decider("anonymous", owner=""),
            {"owner": "", "caller": ANONYMOUS},
            r"of your own; without keys .*self: true}\).*verb approve.*sessions: \{store: sqlite",
        ),
        (decider("anonymous", owner=""), {"owner": "", "caller": PROGRAM}, None),
    ],
)
def test_who_may_decide(by, changes, refusal):
    if refusal is None:
        check_decider(draft(**changes), by)
    else:
        with pytest.raises(ApprovalForbiddenError, match=refusal):
            check_decider(draft(**changes), by)


def test_what_somebody_may_not_see_is_not_there(desk):
    held, stranger = desk.hold(draft(), 60), decider(approves=False)
    assert not may_see(held, stranger) and may_see(held, decider()) and may_see(held, decider(owner="k1"))
    for use in (desk.get, desk.approve, desk.deny):
        with pytest.raises(UnknownApprovalError):
            use(held.id, by=stranger)
    assert desk.list(by=stranger).approvals == () and desk.list(by=decider()).approvals == (held,)


def test_a_list_is_newest_first_filtered_and_in_pages(desk, clock):
    made = []
    for number in range(5):
        made.append(desk.hold(draft(digest=f"{number}", owner="k1" if number % 2 else "k2"), 60))
        clock.now += 1
    assert desk.deny(made[3].id, "as on a server").reason == "as on a server"
    pages, cursor = [], None
    while not pages or cursor is not None:
        page, cursor = desk.list(limit=2, cursor=cursor)
        pages.append([one.id for one in page])
    assert pages == [[made[4].id, made[3].id], [made[2].id, made[1].id], [made[0].id]]
    assert [one.id for one in desk.list(owner="k1", state="pending").approvals] == [made[1].id]
    assert desk.list(tool="n::other").approvals == () == desk.list(session_id="t").approvals
    with pytest.raises(ConfigError, match="no such choice 'waiting'"):
        desk.list(state="waiting")


@pytest.mark.parametrize("cursor", ["", "x", "1~", "1~y", "nan~", "~" + "0" * 24 + "-1"])
def test_a_cursor_that_no_list_gave_is_refused(desk, cursor):
    with pytest.raises(DefinitionError, match="cursor"):
        desk.list(cursor=cursor)


def test_one_caller_cannot_fill_the_inbox_of_all_and_old_records_go(desk, clock, monkeypatch):
    monkeypatch.setattr(approvals_module, "MOST_PENDING", 3)
    monkeypatch.setattr(approvals_module, "MOST_KEPT", 6)
    monkeypatch.setattr(approvals_module, "_LOOK_EACH", 1)
    for number in range(3):
        desk.hold(draft(digest=str(number)), 60)
    with pytest.raises(Unavailable, match="3 calls of this caller wait"):
        desk.hold(draft(digest="more"), 60)
    desk.hold(draft(owner="k2"), 60)
    clock.now += 60
    for number in range(5):
        clock.now += 1
        desk.hold(draft(digest=str(number), owner="k3" if number < 3 else "k4"), KEEP)
    assert len(desk.list().approvals) == 6
    assert desk.list(owner="k1").approvals == (), "the oldest went first"
    clock.now += KEEP + 1
    assert desk.hold(draft(owner="k5"), 60).id and len(desk.list().approvals) == 1


def test_of_many_calls_no_more_are_read_at_once_than_are_shown(desk, clock):
    much = {str(number): "x" * 10 for number in range(500)}
    for number in range(300):
        desk.hold(draft(digest=str(number), arguments=much), 60)
    clock.now += approvals_module._LOOK_SECONDS
    tracemalloc.start()
    try:
        page = desk.list(limit=2)
        desk.hold(draft(digest="more"), 60)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(page.approvals), page.cursor is None) == (2, False)
    assert peak < 2_000_000


def test_a_listener_that_fails_loses_nothing(desk, caplog):
    told = []
    desk.listeners += [lambda approval: 1 / 0, told.append]
    assert desk.hold(draft(), 60) == told[0] and "a listener failed" in caplog.text


def test_a_record_of_before_there_were_yards_opens_and_keeps_its_place():
    old = (
        b'{"owner":"","caller":"program","session_id":"s","tool":"shop::pay",'
        b'"definition_hash":"d","digest":"x","arguments":{}}'
    )
    approval = msgspec.json.decode(old, type=Approval)
    assert (approval.yard, approval.binding) == ("", "b9909b152a5ed47d6cd57571")
    assert msgspec.structs.replace(approval, yard="/a/toolyard.yaml").binding != approval.binding
