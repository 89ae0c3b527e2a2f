"""Approvals as a program of any shape: two nodes on one store, people who decide, a clock, definitions that change.

Whatever comes in which order, a call runs only if somebody approved that very call, and once for each approval.
"""

import asyncio
import itertools
import signal
import subprocess
from collections import Counter
from contextlib import closing, suppress

import pytest
from calls.call_support import in_threads
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sessions.conftest import Place, postgres_place as postgres_place
from warm_python import warm_toolyard

from conftest import examples
from toolyard.calls.approvals import Approvals
from toolyard.calls.batch import CallRequest
from toolyard.calls.policy import Policy, Rule
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import ApprovalError, SessionExistsError
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool
from toolyard.sessions.records import open_records
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

SECONDS = 60.0


class Node:
    """One process that serves, as far as approvals are concerned."""

    def __init__(self, machine):
        def pay(amount: int) -> int:
            machine.ran[machine.key(amount)] += 1
            return amount

        self.pay = pay
        store = machine.place.open()
        registry = ToolRegistry([self.tool(machine.version)])
        policy = Policy([Rule("ask", expires=SECONDS)])
        self.engine = PythonToolEngine(registry, policy=policy, sessions=Sessions(store))
        records = open_records(store, clock=lambda: machine.now)
        self.engine._path._approvals = Approvals(records, self.engine._path._find_definitions)
        with suppress(SessionExistsError):
            self.engine.setup("s")

    def tool(self, version):
        return function_tool(self.pay, namespace="n", description=f"version {version}")

    def redefine(self, version):
        self.engine.tool_registry.remove("n::pay")
        self.engine.tool_registry.add(self.tool(version))

    def send(self, amount, session_id):
        request = CallRequest(calls=[ToolCall("n::pay", {"amount": amount})], session_id=session_id, keys=())
        return asyncio.run(self.engine.arun(request))[0]


class Known:
    """What must be true of one approval."""

    def __init__(self, approval_id, key, now):
        self.id, self.key, self.word, self.expires = approval_id, key, "pending", now + SECONDS

    def state(self, now):
        return "expired" if self.word in ("pending", "approved") and now >= self.expires else self.word

    def stands(self, now):
        return self.state(now) in ("pending", "approved") or (self.word == "denied" and now < self.expires)


class TwoNodes(RuleBasedStateMachine):
    ids = Bundle("ids")
    nodes = st.sampled_from([0, 1])
    amounts = st.sampled_from([1, 2])
    sessions = st.sampled_from(["s", None])

    def __init__(self, make_place):
        super().__init__()
        self.place = make_place()
        self.now, self.version, self.session_id = 1_000_000.0, 0, None
        self.ran: Counter[tuple[object, ...]] = Counter()
        self.approved: Counter[tuple[object, ...]] = Counter()
        self.latest: dict[tuple[object, ...], Known] = {}
        self.known: dict[str, Known] = {}
        self.node = [Node(self), Node(self)]

    def teardown(self):
        for node in self.node:
            node.engine.close()
        self.place.close()

    def key(self, amount):
        return self.session_id, amount, self.version

    @initialize(target=ids, session_id=sessions)
    def begin_with_an_approved_call(self, session_id):
        approval_id = self.send(0, 1, session_id)
        self.decide(1, approval_id, "approve")
        return approval_id

    @rule(target=ids, number=nodes, amount=amounts, session_id=sessions)
    def send(self, number, amount, session_id):
        self.session_id = session_id
        key, before = self.key(amount), self.ran.copy()
        standing = self.latest.get(key)
        if standing is not None and not standing.stands(self.now):
            standing = None
        result = self.node[number].send(amount, session_id)
        if standing is not None and standing.word == "approved":
            assert result.result == amount and self.ran == before + Counter({key: 1})
            standing.word = "used"
            return multiple()
        assert self.ran == before, "nothing runs without approval"
        approval_id = result.error_info.details["approval"]["id"]
        if standing is not None:
            assert approval_id == standing.id
            assert result.error_info.code == {"pending": "tool.held", "denied": "tool.denied"}[standing.word]
            return multiple()
        assert result.error_info.code == "tool.held" and approval_id not in self.known
        self.latest[key] = self.known[approval_id] = Known(approval_id, key, self.now)
        return approval_id

    @rule(number=nodes, approval_id=ids, says=st.sampled_from(["approve", "approve", "deny"]))
    def decide(self, number, approval_id, says):
        known, approvals = self.known[approval_id], self.node[number].engine.approvals
        state = known.state(self.now)
        if state != "pending":
            words = "has expired" if state == "expired" else f"decided already: {state}"
            with pytest.raises(ApprovalError, match=words):
                getattr(approvals, says)(approval_id)
        elif says == "approve" and known.key[2] != self.version:
            with pytest.raises(ApprovalError, match="another definition"):
                approvals.approve(approval_id)
        else:
            getattr(approvals, says)(approval_id)
            known.word = {"approve": "approved", "deny": "denied"}[says]
            if says == "approve":
                known.expires = self.now + SECONDS
                self.approved[known.key] += 1

    @rule(what=st.sampled_from([1.0, SECONDS / 2, SECONDS, "redefine", "restart"]), number=nodes)
    def disturb(self, what, number):
        if what == "redefine":
            self.version += 1
            for node in self.node:
                node.redefine(self.version)
        elif what == "restart":
            self.node[number].engine.close()
            self.node[number] = Node(self)
        else:
            self.now += what

    def current(self, word):
        """Approvals in that state whose definition is still that of the tool."""
        return [one for one in self.known.values() if one.state(self.now) == word and one.key[2] == self.version]

    @precondition(lambda self: self.current("pending"))
    @rule(number=nodes, data=st.data())
    def approve_what_waits(self, number, data):
        self.decide(number, data.draw(st.sampled_from(self.current("pending"))).id, "approve")

    @precondition(lambda self: self.current("approved"))
    @rule(number=nodes, data=st.data())
    def send_what_was_approved(self, number, data):
        session_id, amount, _ = data.draw(st.sampled_from(self.current("approved"))).key
        self.send(number, amount, session_id)

    @precondition(lambda self: self.current("approved"))
    @rule(data=st.data())
    def send_everywhere_at_once(self, data):
        known = data.draw(st.sampled_from(self.current("approved")))
        self.session_id, amount, _ = known.key
        before = self.ran[known.key]
        results = in_threads(*[lambda node=node: node.send(amount, self.session_id) for node in self.node * 2])
        assert self.ran[known.key] == before + 1
        assert sum(not result.is_error for result in results) == 1
        known.word = "used"
        held = {result.error_info.details["approval"]["id"] for result in results if result.is_error}
        assert len(held) == 1, "the others find one another"
        [new] = held
        self.latest[known.key] = self.known[new] = Known(new, known.key, self.now)

    @invariant()
    def never_more_often_than_it_was_approved(self):
        assert all(self.ran[key] <= self.approved[key] for key in self.ran)

    @invariant()
    def every_record_says_what_became_of_it(self):
        for node in self.node:
            found = {one.id: one for one in node.engine.approvals.list().approvals}
            assert {name: one.state for name, one in found.items()} == {
                name: known.state(self.now) for name, known in self.known.items()
            }
            assert all(one.outcome.code == "ok" for one in found.values() if one.state == "used")


def test_two_nodes_on_sqlite_run_what_was_approved_once(tmp_path):
    numbers = itertools.count()
    machine = lambda: TwoNodes(lambda: Place("sqlite", tmp_path / f"{next(numbers)}.db"))  # noqa: E731
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(25), stateful_step_count=20))
    assert next(numbers) >= examples(25), "each on a store of its own, held to what the machine says never to happen"


def test_two_nodes_on_postgres_run_what_was_approved_once(postgres):
    numbers = itertools.count()
    machine = lambda: TwoNodes(lambda: Place("postgres", postgres, f"approvals {next(numbers)}"))  # noqa: E731
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(3), stateful_step_count=15))
    assert next(numbers) >= examples(3), "each in a place of its own, held to what the machine says never to happen"


WORKER = """
import sys
from toolyard import Policy, PythonToolEngine, Rule, Sessions, SqliteStore, ToolCall, ToolRegistry, function_tool

def pay(amount: int) -> int:
    with open(sys.argv[2], "a") as paid:
        paid.write(f"{amount} ")
    if len(sys.argv) > 3:
        print("paying", flush=True)
        sys.stdin.read()
    return amount

engine = PythonToolEngine(
    ToolRegistry([function_tool(pay, namespace="n")]),
    policy=Policy(default="ask"),
    sessions=Sessions(SqliteStore(sys.argv[1])),
)
if engine.get_session_state("s") is None:
    engine.setup("s")
[result] = engine.execute("s", [ToolCall("n::pay", {"amount": 5})])
print(result.error_info.details["approval"]["id"] if result.is_error else result.result, flush=True)
sys.stdin.read()
"""


@pytest.mark.process
class TestKilled:
    def begin(self, folder, *more):
        """Another process that makes the call; the first line that it says."""
        words = ["-c", WORKER, folder / "s.db", folder / "paid", *more]
        self.process = warm_toolyard().start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self.process.stdout.readline().strip()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def test_a_pending_approval_outlives_its_process_and_the_call_runs_once(self, tmp_path):
        held = self.begin(tmp_path)
        self.kill()
        assert not (tmp_path / "paid").exists()
        with closing(SqliteStore(tmp_path / "s.db")) as store:
            approvals = Approvals(open_records(store))
            assert approvals.get(held).state == "pending"
            approvals.approve(held)
            assert self.begin(tmp_path) == "5"
            self.kill()
            assert (tmp_path / "paid").read_text() == "5 "
            assert approvals.get(held).outcome.code == "ok"
            assert self.begin(tmp_path) not in ("5", held), "used once"
            self.kill()

    def test_a_process_that_dies_while_it_runs_leaves_an_approval_that_is_used_and_an_outcome_nobody_knows(
        self, tmp_path
    ):
        held = self.begin(tmp_path)
        self.kill()
        with closing(SqliteStore(tmp_path / "s.db")) as store:
            approvals = Approvals(open_records(store))
            approvals.approve(held)
            assert self.begin(tmp_path, "hang") == "paying"
            self.kill()
            used = approvals.get(held)
            assert used.state == "used" and used.outcome is None and "outcome is not known" in used.state_words
            assert self.begin(tmp_path) not in ("5", held)
            self.kill()
            assert (tmp_path / "paid").read_text() == "5 ", "and it is not run again"
