"""Forks at any entry: they begin as the session was then, in memory and in stores, and go their own way.

A plain model copies everything; random programs of forks, calls and deletes by two engines on one place must agree
with it at every point of every session.
"""

import copy
import itertools

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from conftest import examples
from toolyard import (
    SessionError,
    SqliteStore,
    Tool,
    ToolCall,
    ToolEngine,
    ToolRegistry,
    UnknownEntryError,
    UnknownSessionError,
)
from toolyard.calls.policy import Budget, Policy
from toolyard.engines.multi import MultiToolEngine
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.postgres import PostgresStore

TEXT = {"type": "object", "properties": {"name": {"type": "string"}, "value": {}}, "required": ["name"]}
LONG = "what is kept of a shelf is more than a hundred bytes, so that only its differences are kept behind it"


class Shelves(ToolEngine):
    """Keeps values under names."""

    def answer(self, invocation):
        name, value = invocation.arguments["name"], invocation.arguments.get("value")
        kept, verb = invocation.state, invocation.tool.name
        if verb == "put":
            kept[name] = value
        elif verb == "add":
            kept[name] = [*kept.get(name, []), value] if isinstance(kept.get(name, []), list) else [value]
        elif verb == "drop":
            kept.pop(name, None)
        else:
            kept[name] = "never seen again"
            raise ValueError("no")


def registry():
    return ToolRegistry([Tool(verb, "t", parameters=TEXT) for verb in ("put", "add", "drop", "fail")])


def engine_on(sessions, **options):
    return Shelves(registry(), name="shelves", sessions=sessions, **options)


def put(engine, session_id, *pairs):
    engine.execute(session_id, [ToolCall("t::put", {"name": name, "value": value}) for name, value in pairs])


def world(engine, session_id, at=None):
    plain = engine.sessions.world(session_id, at=at).to_dict()
    plain.pop("setup", None)
    return plain.get("shelves", {})


def length(engine, session_id):
    return len(engine.get_session_state(session_id)["tool_executions"])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make_engine(request):
    """Makes engines on one place; those in memory are the same one each time."""
    if request.param == "memory":
        engine = engine_on(Sessions())
        return lambda: engine
    place = request.getfixturevalue(f"{request.param}_place")
    return lambda: engine_on(Sessions(place.open()))


class ForkMachine(RuleBasedStateMachine):
    """Sessions by name: the calls of each, and its world behind each of them, the first without any."""

    def __init__(self, engines):
        super().__init__()
        self.engines = engines
        self.model = {}
        self.names = itertools.count()

    def pick(self, number):
        return list(self.model)[number % len(self.model)]

    @rule(start=st.sampled_from([None, {}, {"a": 1, "b": [LONG]}]), who=st.integers(0, 1))
    def begin(self, start, who):
        name = f"s{next(self.names)}"
        self.engines[who].setup(name, initial_state=None if start is None else {"shelves": start})
        self.model[name] = ([], [start or {}])

    @precondition(lambda self: self.model)
    @rule(
        pick=st.integers(0, 9),
        who=st.integers(0, 1),
        calls=st.lists(
            st.tuples(
                st.sampled_from(["put", "add", "drop", "fail"]), st.sampled_from("abc"), st.sampled_from([0, 1, LONG])
            ),
            min_size=1,
            max_size=4,
        ),
    )
    def execute(self, pick, who, calls):
        name = self.pick(pick)
        made, worlds = self.model[name]
        self.engines[who].execute(name, [ToolCall(f"t::{v}", {"name": n, "value": x}) for v, n, x in calls])
        for verb, slot, value in calls:
            after = copy.deepcopy(worlds[-1])
            if verb == "put":
                after[slot] = value
            elif verb == "add":
                after[slot] = (
                    [*after[slot], value] if isinstance(after.get(slot, []), list) and slot in after else [value]
                )
            elif verb == "drop":
                after.pop(slot, None)
            made.append((verb, slot, value))
            worlds.append(after)

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 9), at=st.integers(0, 20), who=st.integers(0, 1))
    def fork(self, pick, at, who):
        old, new = self.pick(pick), f"s{next(self.names)}"
        made, worlds = self.model[old]
        if at > len(made):
            with pytest.raises(UnknownEntryError, match=f"use 0 to {len(made)}"):
                self.engines[who].setup(new, fork_of=old, at=at)
            assert self.engines[who].get_session_state(new) is None
            at = None
        self.engines[who].setup(new, fork_of=old, at=at)
        self.model[new] = (made[:at], worlds[: None if at is None else at + 1])

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 9), who=st.integers(0, 1))
    def delete(self, pick, who):
        name = self.pick(pick)
        self.engines[who].teardown(name)
        del self.model[name]

    @precondition(lambda self: self.model)
    @rule(a=st.integers(0, 9), b=st.integers(0, 9), at_a=st.integers(0, 20), at_b=st.integers(0, 20))
    def compare(self, a, b, at_a, at_b):
        one, other = self.pick(a), self.pick(b)
        at_a, at_b = (at % len(self.model[name][1]) for at, name in ((at_a, one), (at_b, other)))
        before, after = self.model[one][1][at_a], self.model[other][1][at_b]
        engine = self.engines[0]
        same = engine.world_hash(one, at=at_a) == engine.world_hash(other, at=at_b)
        assert same == (before == after) == engine.world_diff(one, other, at_a=at_a, at_b=at_b).equal

    @invariant()
    def every_session_is_what_the_model_says(self):
        for engine in self.engines:
            for name, (made, worlds) in self.model.items():
                state = engine.get_session_state(name)
                calls = [item["tool_call"] for item in state["tool_executions"]]
                assert [(c["name"][3:], c["arguments"]["name"], c["arguments"]["value"]) for c in calls] == made
                for at in {0, len(made) // 2, max(len(made) - 1, 0), len(made)}:
                    assert world(engine, name, at) == worlds[at]
                assert state.get("shelves", {}) == worlds[-1]

    def teardown(self):
        for engine in dict.fromkeys(self.engines):
            engine.close()


def check_machine(make_engines, count):
    started = []

    def make_machine():
        started.append(machine := ForkMachine(make_engines()))
        return machine

    run_state_machine_as_test(
        make_machine, settings=settings(max_examples=examples(count), stateful_step_count=15, deadline=None)
    )
    assert len(started) >= examples(count)


def test_forks_in_memory_agree_with_copies():
    check_machine(lambda: [engine_on(Sessions())] * 2, 100)


def test_forks_in_a_file_agree_with_copies_from_two_sides(tmp_path):
    files = itertools.count()

    def make():
        path = tmp_path / f"{next(files)}.db"
        return [engine_on(Sessions(SqliteStore(path))) for _ in range(2)]

    check_machine(make, 30)


@pytest.mark.soak  # the same machine as in a file
def test_forks_in_postgres_agree_with_copies_from_two_sides(postgres):
    numbers = itertools.count()

    def make():
        schema = f"fork {next(numbers)}"
        return [engine_on(Sessions(PostgresStore(postgres, schema=schema))) for _ in range(2)]

    check_machine(make, 5)


def test_a_fork_behind_an_entry_begins_as_the_session_was_then_and_goes_its_own_way(make_engine):
    engine = make_engine()
    engine.setup("s", initial_state={"shelves": {"a": 0}})
    put(engine, "s", ("a", 1), ("b", 2), ("a", 3))
    engine.setup("f", fork_of="s", at=2)
    assert (length(engine, "f"), world(engine, "f")) == (2, {"a": 1, "b": 2})
    put(engine, "f", ("c", 9))
    engine.teardown("s")
    again = make_engine()
    assert (length(again, "f"), world(again, "f")) == (3, {"a": 1, "b": 2, "c": 9})
    assert [world(again, "f", at) for at in range(4)] == [
        {"a": 0},
        {"a": 1},
        {"a": 1, "b": 2},
        {"a": 1, "b": 2, "c": 9},
    ]


def test_a_fork_of_a_fork_may_begin_below_the_first_forks_own_beginning(make_engine):
    engine = make_engine()
    engine.setup("s", mood="kept")
    put(engine, "s", ("a", 1), ("a", 2), ("a", 3))
    engine.setup("f", fork_of="s", at=2, mood="of the fork")
    put(engine, "f", ("a", 4))
    engine.setup("g", fork_of="f", at=1)
    engine.setup("root", fork_of="g", at=0)
    for name in ("s", "f"):
        engine.teardown(name)
    again = make_engine()
    assert (length(again, "g"), world(again, "g")) == (1, {"a": 1})
    assert (length(again, "root"), world(again, "root")) == (0, {})
    assert again.get_session_state("g")["setup"] == {"mood": "of the fork"}
    put(again, "g", ("b", 5))
    assert world(again, "g") == {"a": 1, "b": 5}


def test_the_hashes_of_a_fork_are_those_of_a_session_that_went_as_far(make_engine):
    engine = make_engine()
    for name in "st":
        engine.setup(name)
    put(engine, "s", ("a", 1), ("b", 2))
    put(engine, "t", ("a", 1))
    engine.setup("f", fork_of="s", at=1)
    assert engine.state_hash("f") == engine.state_hash("t")
    assert engine.world_hash("f") == engine.world_hash("s", at=1) == engine.world_hash("t")
    engine.execute("f", [ToolCall("t::fail", {"name": "a"}), ToolCall("t::put", {"name": "b", "value": 2.0})])
    assert engine.state_hash("f") != engine.state_hash("s")
    assert engine.world_hash("f") == engine.world_hash("s"), "another path to the same world"


def test_an_end_that_another_process_wrote_can_be_forked_at(place):
    here, there = engine_on(Sessions(place.open())), engine_on(Sessions(place.open()))
    here.setup("s")
    put(here, "s", ("a", 1))
    put(there, "s", ("a", 2), ("a", 3))
    here.setup("f", fork_of="s", at=2)
    assert (length(here, "f"), world(here, "f")) == (2, {"a": 2})
    with pytest.raises(UnknownEntryError, match="at is 4, and session 's' has only 3 entries; use 0 to 3"):
        here.setup("g", fork_of="s", at=4)


@pytest.mark.parametrize("at", [-1, True, False, 1.0, "1"])
def test_what_is_no_number_of_entries_begins_no_session(make_engine, at):
    engine = make_engine()
    engine.setup("s")
    for work in (
        lambda: engine.setup("f", fork_of="s", at=at),
        lambda: engine.world_hash("s", at=at),
        lambda: engine.world_diff("s", at_b=at),
    ):
        with pytest.raises(ValueError, match="must be a whole number of entries, 0 or more"):
            work()
    with pytest.raises(SessionError, match="give fork_of, too"):
        engine.setup("f", at=0)
    assert engine.get_session_state("f") is None


async def test_twins_fork_and_compare_as_their_methods_do(make_engine):
    engine = make_engine()
    await engine.asetup("s")
    await engine.aexecute("s", [ToolCall("t::put", {"name": "a", "value": value}) for value in (1, 2)])
    await engine.asetup("f", fork_of="s", at=1)
    assert await engine.aworld_hash("f") == await engine.aworld_hash("s", at=1) == engine.world_hash("f")
    [change] = (await engine.aworld_diff("f", "s")).changes
    assert (change.path, change.kind, change.before, change.after) == ("/shelves/a", "changed", 1, 2)
    assert (await engine.aworld_diff("s", at_a=2, at_b=0)).changes[0].kind == "removed"
    with pytest.raises(UnknownSessionError):
        await engine.aworld_diff("s", "nope")


def test_nothing_is_copied_and_only_differences_are_kept_behind_an_entry():
    engine = engine_on(Sessions())
    engine.setup("s")
    put(engine, "s", *(("a", [LONG] * 1000 + [number]) for number in range(50)))
    session = engine.sessions.find("s")
    engine.setup("f", fork_of="s", at=25)
    fork = engine.sessions.find("f")
    assert fork.history._before.entries is session.history._tail
    assert world(engine, "f")["a"][-1] == 24
    entries = sum(len(entry) for entry in session.history)
    assert session.history.own_size - entries < 50 * 10


def test_budgets_of_a_fork_count_what_it_begins_with():
    engine = engine_on(Sessions(), policy=Policy(budgets=[Budget(2, "t::put")]))
    engine.setup("s")
    put(engine, "s", ("a", 1), ("a", 2), ("a", 3))
    assert world(engine, "s") == {"a": 2}
    engine.setup("f", fork_of="s", at=1)
    put(engine, "f", ("a", 7), ("a", 8))
    assert world(engine, "f") == {"a": 7}


def test_an_engine_that_keeps_sessions_of_its_own_cannot_go_back(make_engine):
    class Own(ToolEngine):
        def execute(self, session_id, tool_calls):
            return []

    multi = MultiToolEngine({"t": Own(registry(), name="own")})
    multi.setup("s")
    with pytest.raises(SessionError, match="own keeps by itself"):
        multi.setup("f", fork_of="s", at=0)
    assert multi.get_session_state("f") is None
    multi.close()
