"""What is written down of a call: the store first, then the history; a cancelled task still finishes what it writes."""

import asyncio
import threading
import time

import pytest
from call_support import Hung, Spans, call, codes, engine_of, executions, registry_of, until
from waiting import SOON

from toolyard.calls.policy import Budget, Policy
from toolyard.calls.tracer import Tracer
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import SessionError
from toolyard.registry.functions import function_tool
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.base import Append, Create, Intend, StoredSession, Withdraw

ENTRY = b'{"tool_call":{"name":"n::a"},"tool_output":{"call_id":null,"name":"n::a"}}'


class FakeStore:
    """Keeps what is written, and fails when told."""

    quick = True

    def __init__(self):
        self.writes = []
        self.fails_on = ()
        self.held = set()

    def write(self, write):
        if isinstance(write, self.fails_on):
            raise SessionError(f"disk full at {type(write).__name__}")
        self.writes.append(write)

    def submit(self, write, done):
        def work():
            try:
                self.write(write)
            except SessionError as error:
                done(error)
            else:
                done(None)

        threading.Thread(target=work).start()

    def kinds(self):
        return [type(write).__name__ for write in self.writes]

    def load(self, key):
        return None

    def newer(self, key, branch, seq):
        return StoredSession(branch=branch, entries=())

    def count(self):
        return 0

    def now(self):
        return time.time()

    def try_hold(self, key):
        self.held.add(key)
        return True

    def release(self, key):
        self.held.discard(key)

    def close(self):
        pass


@pytest.fixture
def store():
    return FakeStore()


ran = []


def read(x: int) -> int:
    ran.append(x)
    return x


def write(x: int) -> int:
    ran.append(x)
    if x == 13:
        raise KeyboardInterrupt
    return x


@pytest.fixture
def engine(store):
    ran.clear()
    engine = PythonToolEngine(sessions=Sessions(store))
    engine.tool_registry.add(function_tool(read, namespace="n", effects="read"))
    engine.tool_registry.add(function_tool(write, namespace="n", effects="write"))
    engine.setup("s")
    return engine


def history(engine):
    return len(engine.sessions.in_memory["s"].history)


def test_a_write_is_announced_before_it_runs_and_a_read_is_not(engine, store):
    engine.execute("s", [call("read", x=1), call("write", x=2)])
    assert store.kinds() == ["Create", "Append", "Intend", "Append"]
    assert [write.seq for write in store.writes[1:]] == [1, 2, 2]
    assert b'"x":2' in store.writes[2].call
    assert not store.held


async def test_the_same_order_holds_for_a_task(engine, store):
    await engine.aexecute("s", [call("read", x=1), call("write", x=2)])
    assert store.kinds() == ["Create", "Append", "Intend", "Append"]


def test_a_call_refused_before_it_runs_is_not_announced(engine, store):
    engine.execute("s", [call("write", x="no"), call("nothing")])
    assert store.kinds() == ["Create", "Append", "Append"]


def test_a_simulation_writes_nothing(engine, store):
    engine.simulate("s", [call("write", x=1)])
    assert store.kinds() == ["Create"]
    assert ran == []


def test_a_store_that_cannot_take_the_announcement_keeps_the_call_from_running(engine, store):
    store.fails_on = (Intend,)
    with pytest.raises(SessionError, match="disk full at Intend"):
        engine.execute("s", [call("write", x=1)])
    assert ran == []
    assert history(engine) == 0
    assert not engine.sessions.in_memory["s"].gate.busy
    assert not store.held


async def test_nor_does_it_run_for_a_task(engine, store):
    store.fails_on = (Intend,)
    with pytest.raises(SessionError, match="disk full at Intend"):
        await engine.aexecute("s", [call("write", x=1)])
    assert ran == []
    assert not engine.sessions.in_memory["s"].gate.busy


def test_what_the_store_could_not_take_is_not_acknowledged(engine, store):
    store.fails_on = (Append,)
    with pytest.raises(SessionError, match="disk full at Append"):
        engine.execute("s", [call("read", x=1)])
    assert history(engine) == 0
    assert not store.held
    assert not engine.sessions.in_memory["s"].gate.busy


async def test_nor_acknowledged_to_a_task(engine, store):
    store.fails_on = (Append,)
    with pytest.raises(SessionError, match="disk full at Append"):
        await engine.aexecute("s", [call("read", x=1)])
    assert history(engine) == 0
    assert not store.held


def test_a_session_the_store_cannot_create_is_not_there(engine, store):
    store.fails_on = (Create,)
    with pytest.raises(SessionError):
        engine.setup("t")
    assert "t" not in engine.sessions.in_memory


def test_an_interrupted_write_is_recorded_even_so(engine, store):
    with pytest.raises(KeyboardInterrupt):
        engine.execute("s", [call("write", x=13)])
    assert store.kinds() == ["Create", "Intend", "Append"]
    assert b"tool.interrupted" in store.writes[-1].entry


def test_an_interruption_is_not_lost_to_a_store_that_fails_at_that_moment(engine, store):
    store.fails_on = (Append,)
    with pytest.raises(KeyboardInterrupt):
        engine.execute("s", [call("write", x=13)])
    assert store.kinds() == ["Create", "Intend"]


async def test_a_task_cancelled_while_it_announces_takes_the_announcement_back(engine, store):
    gate, submit = threading.Event(), store.submit

    def slow(write, done):
        submit(write, lambda error: (gate.wait(SOON), done(error)))

    store.submit = slow
    task = asyncio.ensure_future(engine.aexecute("s", [call("write", x=1)]))
    await asyncio.to_thread(until, lambda: "Intend" in store.kinds())
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(store.writes[-1], Withdraw)
    assert ran == []
    assert not store.held


async def test_a_task_cancelled_while_it_records_still_has_its_entry(store):
    sessions = Sessions(store)
    session = sessions.open("s")
    gate, submit = threading.Event(), store.submit
    store.submit = lambda write, done: submit(write, lambda error: (gate.wait(SOON), done(error)))

    async def record():
        cancelled = await sessions.awrite(sessions.addition(session, ENTRY, {}))
        session.commit(ENTRY)
        return cancelled

    task = asyncio.ensure_future(record())
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert isinstance(await task, asyncio.CancelledError)
    assert list(session.history) == [ENTRY]


def test_only_calls_that_ran_are_counted_and_only_if_asked():
    engine = engine_of(read)
    engine.execute("s", [call("read", x=1)])
    assert engine.sessions.find("s").counts is None
    counting = engine_of(read, policy=Policy(budgets=[Budget(5)]))
    counting.execute("s", [call("read", x=1), call("read", x="no"), call("gone"), call("read", x=2)])
    assert counting.sessions.find("s").counts == {"n::read": 2}


def budgeted(**options):
    return engine_of(read, policy=Policy(budgets=[Budget(**options)]))


def test_a_budget_counts_and_forks_with_the_session():
    engine = budgeted(max_calls=2)
    engine.execute("s", [call("read", x=1), call("read", x="no"), call("gone")])
    engine.setup("fork", fork_of="s")
    engine.execute("s", [call("read", x=1)] * 2)
    assert codes(engine) == [None, "tool.invalid_args", "tool.not_found", None, "tool.denied"]
    engine.execute("fork", [call("read", x=1)] * 2)
    assert codes(engine, "fork")[3:] == [None, "tool.denied"]
    engine.setup("again", initial_state=engine.get_session_state("s"))
    assert engine.execute("again", [call("read", x=1)])[0].error_info.code == "tool.denied"


def test_a_simulation_is_held_to_the_budget_and_does_not_spend_it():
    engine = budgeted(max_calls=2)
    results = engine.simulate("s", [call("read", x=1)] * 3)
    assert [result.is_error for result in results] == [False, False, True]
    assert [result.is_error for result in engine.execute("s", [call("read", x=1)] * 3)] == [False, False, True]


def test_a_bare_name_spends_the_same_budget_even_after_a_fork():
    engine = budgeted(max_calls=1, tools="n::*")
    bare = ToolCall("read", {"x": 1})
    assert not engine.execute("s", [bare])[0].is_error
    engine.setup("fork", fork_of="s")
    assert engine.execute("s", [bare])[0].error_info.code == "tool.denied"
    assert engine.execute("fork", [bare])[0].error_info.code == "tool.denied"
    assert len(executions(engine, "fork")) == 2


@pytest.mark.parametrize(("fails", "effect"), [(Intend, "none"), (Append, "unknown")])
async def test_a_store_that_fails_leaves_no_span_open(store, fails, effect):
    spans = Spans()
    engine = PythonToolEngine(registry_of(write, effects="write"), sessions=Sessions(store), tracer=Tracer([spans]))
    engine.setup("s")
    store.fails_on = (fails,)
    with pytest.raises(SessionError):
        engine.execute("s", [call("write", x=1)])
    with pytest.raises(SessionError):
        await engine.aexecute("s", [call("write", x=1)])
    assert spans.open == []
    assert [event.effect for event in spans.events] == [effect, effect]


def test_a_store_that_fails_does_not_free_a_session_in_which_a_tool_still_runs(store):
    hung = Hung()

    def hang():
        return hung()

    engine = PythonToolEngine(registry_of(hang), sessions=Sessions(store))
    engine.setup("s")
    store.fails_on = (Append,)
    with pytest.raises(SessionError):
        engine.execute("s", [call("hang")], timeout=0.25)
    gate = engine.sessions.in_memory["s"].gate
    assert gate.busy
    hung.end.set()
    until(lambda: not gate.busy)
