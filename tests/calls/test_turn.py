"""A batch has the session to itself, in order, and gives it back whatever happens."""

import asyncio
import threading
from contextlib import contextmanager, suppress

import pytest
from call_support import SOON, Hung, call, engine_of, executions, in_threads, registry_of, tool_of, until

from toolyard.calls.batch import Batch
from toolyard.calls.flow import _bind_off_loop, batch_flow, run_batch
from toolyard.calls.result import make_result
from toolyard.calls.waits import answer_in_thread, sleep_here
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import Content, ToolCall
from toolyard.model.errors import CallError, DefinitionError, SessionBusyError, SessionError, SyncInAsyncError
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore


def test_batches_of_many_threads_never_mingle():
    inside = []

    def step(x: int) -> int:
        inside.append(x)
        assert len(inside) == 1
        inside.remove(x)
        return x

    engine = engine_of(step)
    in_threads(*(lambda n=n: engine.execute("s", [call("step", x=n * 10 + k) for k in range(5)]) for n in range(12)))
    seen = [item["tool_output"]["result"] for item in executions(engine)]
    groups = [seen[start : start + 5] for start in range(0, 60, 5)]
    assert sorted(groups) == [[n * 10 + k for k in range(5)] for n in range(12)]


async def test_batches_of_tasks_never_mingle_and_keep_their_order():
    async def step(x: int) -> int:
        await asyncio.sleep(0)
        return x

    engine = engine_of(step)
    await asyncio.gather(*(engine.aexecute("s", [call("step", x=n), call("step", x=n)]) for n in range(30)))
    assert [item["tool_output"]["result"] for item in executions(engine)] == [n for n in range(30) for _ in range(2)]


def test_an_empty_batch_is_nothing_but_needs_its_session():
    engine = engine_of()
    assert engine.execute("s", []) == []
    assert engine.simulate("s", []) == []
    with pytest.raises(KeyError):
        engine.execute("gone", [])


@contextmanager
def busy_session():
    """An engine in whose session another thread runs a call, until this is over."""
    hung = Hung()

    def hang():
        return hung()

    engine = engine_of(hang)
    thread = threading.Thread(target=lambda: engine.execute("s", [call("hang")]))
    thread.start()
    assert hung.began.wait(SOON)
    try:
        yield engine
    finally:
        hung.end.set()
        thread.join(SOON)


@pytest.mark.parametrize("verb", ["execute", "simulate"])
async def test_waiting_on_a_running_loop_is_refused_and_names_the_twin(verb):
    with busy_session() as engine, pytest.raises(SyncInAsyncError, match=f"await a{verb}"):
        getattr(engine, verb)("s", [call("hang")])
    assert len(executions(engine)) == 1


async def test_a_free_session_can_be_used_on_a_running_loop():
    def one() -> int:
        return 1

    engine = engine_of(one)
    assert engine.execute("s", [call("one")])[0].result == 1


def test_a_busy_session_says_that_nothing_was_run():
    with busy_session() as engine, pytest.raises(SessionBusyError, match="nothing of this batch was run"):
        engine.execute("s", [call("hang")], timeout=0.01)
    assert len(executions(engine)) == 1


def reentrant(**settings):
    """An engine whose tools call back into a session, in every way there is."""
    engine = engine_of(**settings)

    def one() -> int:
        return 1

    def inline(session: str) -> int:
        return engine.execute(session, [call("one")])[0].result

    def dry(session: str) -> int:
        return engine.simulate(session, [call("one")])[0].result

    async def later(session: str) -> int:
        return (await engine.aexecute(session, [call("one")]))[0].result

    async def sync_later(session: str) -> int:
        return engine.execute(session, [call("one")])[0].result

    def home(session: str) -> int:
        return engine.execute("other", [call("later", session=session)])[0].result

    from toolyard.registry.functions import function_tool

    for function in (one, inline, dry, later, sync_later, home):
        engine.tool_registry.add(function_tool(function, namespace="n"))
    engine.setup("free")
    engine.setup("other")
    return engine


def failure(result):
    return "would wait for itself" in (result.error or "") or "must not wait" in (result.error or "")


@pytest.mark.parametrize("tool", ["inline", "dry", "later", "sync_later"])
@pytest.mark.parametrize("timeout", [None, SOON], ids=["no limit", "deadline"])
@pytest.mark.parametrize("verb", ["execute", "simulate"])
def test_a_tool_that_calls_into_its_own_session_is_told_instead_of_waiting_for_ever(tool, timeout, verb):
    engine = reentrant()
    assert failure(getattr(engine, verb)("s", [call(tool, session="s")], timeout=timeout)[0])
    assert getattr(engine, verb)("s", [call(tool, session="free")], timeout=timeout)[0].result == 1
    assert not engine.sessions.find("s").gate.busy


@pytest.mark.parametrize("tool", ["inline", "dry", "later", "sync_later"])
@pytest.mark.parametrize("limit", [None, SOON], ids=["no limit", "deadline"])
async def test_the_same_from_a_task(tool, limit):
    engine = reentrant()
    results = await engine.aexecute("s", [call(tool, session="s"), call(tool, session="free")], timeout=limit)
    assert failure(results[0])
    assert results[1].result == 1


def test_a_detour_over_another_session_is_seen_through():
    engine = reentrant()
    result = engine.execute("s", [call("home", session="s")], timeout=SOON)[0]
    assert result.result is None
    until(lambda: not engine.sessions.find("s").gate.busy)
    assert engine.execute("s", [call("one")])[0].result == 1


def test_the_error_is_the_tools_to_see():
    seen = []
    engine = reentrant()

    def curious():
        try:
            engine.execute("s", [call("one")])
        except SessionError as error:
            seen.append(str(error))

    from toolyard.registry.functions import function_tool

    engine.tool_registry.add(function_tool(curious, namespace="n"))
    assert not engine.execute("s", [call("curious")])[0].is_error
    assert "use another session" in seen[0]


class Clock:
    """Goes on by itself: every look at it takes so many seconds."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def monotonic(self):
        self.now += self.step
        return self.now


def one() -> int:
    return 1


def turn_of(engine, batch, calls=1):
    """The flow of so many calls of `one`, the session they are made in, and their results."""
    session, results = engine.sessions.find("s"), []
    return batch_flow(engine._path, session, [call("one")] * calls, batch, results), session, results


def ask(mode="execute", *, on_loop=False, **more):
    return Batch(mode, more.pop("timeout", None), {}, on_loop=on_loop, **more)


def test_a_free_session_is_taken_without_waiting():
    flow, session, results = turn_of(engine_of(one), ask(), calls=3)
    assert list(flow) == []
    assert [result.result for result in results] == [1, 1, 1]
    assert not session.gate.busy and not session.taken


@pytest.mark.parametrize(
    ("engine_limit", "asked", "at_most", "limit"),
    [
        (None, None, None, None),
        (None, 3, None, 3),
        (5, None, None, 5),
        (5, 7, None, 7),
        (5, None, 2, 2),
        (None, None, 2, 2),
    ],
)
def test_a_batch_waits_for_its_turn_as_long_as_a_call_of_it_may_take(monkeypatch, engine_limit, asked, at_most, limit):
    monkeypatch.setattr("toolyard.calls.flow.time", Clock(0))
    engine = engine_of(one, timeout=engine_limit)
    flow, session, results = turn_of(engine, ask(timeout=asked, at_most=at_most))
    assert session.gate.enter_at_once()
    assert next(flow).until == limit
    flow.close()
    assert session.gate.busy and results == [], "a turn that was not taken is not given back"


def test_the_slowest_engine_of_a_batch_says_how_long_it_waits_for_its_turn(monkeypatch):
    monkeypatch.setattr("toolyard.calls.flow.time", Clock(0))
    registry = registry_of(one)
    registry.add(*registry_of(one, namespace="m"), *registry_of(one, namespace="nobody"))
    slow, quick = (PythonToolEngine(registry, name=name, timeout=limit) for name, limit in (("slow", 9), ("quick", 4)))
    engine = MultiToolEngine(registry, {"n": slow, "m": quick})
    engine.setup("s")
    session = engine.sessions.find("s")
    assert session.gate.enter_at_once()
    calls = [ToolCall(name) for name in ("n::one", "m::one", "nobody::one", "m::missing")]
    flow = batch_flow(engine._path, session, calls, ask(), [])
    assert next(flow).until == 9
    flow.close()


def waits_by(wait, function):
    """Whether a thread would wait by that function."""
    return getattr(wait.block, "func", None) is function


def waits_of(flow):
    """What the flow waits for, each waited for by this thread."""
    wait = next(flow, None)
    with suppress(StopIteration):
        while wait is not None:
            yield wait
            try:
                got = wait.block()
            except CallError as error:
                wait = flow.throw(error)
            else:
                wait = flow.send(got)


@pytest.mark.parametrize(("on_loop", "calls", "pauses"), [(True, 5, 2), (True, 1, 0), (False, 5, 0)])
def test_a_long_batch_lets_other_tasks_run_between_its_calls(monkeypatch, on_loop, calls, pauses):
    # Two looks at the clock are within the time that a batch may keep the loop, three are over it.
    monkeypatch.setattr("toolyard.calls.flow.time", Clock(0.003))
    flow, session, _ = turn_of(engine_of(one), ask(on_loop=on_loop), calls)
    assert sum(waits_by(wait, sleep_here) for wait in waits_of(flow)) == pauses
    assert not session.gate.busy


@pytest.mark.parametrize("durable", [False, True])
def test_a_flow_that_nobody_drives_any_more_gives_its_turn_back(tmp_path, durable):
    sessions = Sessions(SqliteStore(tmp_path / "s.db") if durable else None)
    flow, session, results = turn_of(engine_of(one, sessions=sessions), ask(on_loop=True))
    for wait in waits_of(flow):
        if waits_by(wait, answer_in_thread):
            break
    assert session.gate.busy and session.taken
    flow.close()
    until(lambda: not session.gate.busy)
    assert not session.taken and results == []
    sessions.close()


def test_work_that_goes_on_keeps_the_turn_until_it_ends():
    hung = Hung()

    def hang():
        return hung()

    engine = engine_of(hang, one, timeout=SOON)
    # On a busy machine the deadline may pass before the work begins; then nothing goes on.
    while not hung.began.is_set():
        assert engine.execute("s", [call("hang")], timeout=0.05)[0].error_info.code == "tool.timeout"
    session = engine.sessions.find("s")
    assert session.gate.busy
    hung.end.set()
    until(lambda: not session.gate.busy)
    assert engine.execute("s", [call("one")])[0].result == 1


def test_a_simulation_answers_in_a_draft():
    flow, session, results = turn_of(engine_of(one), ask("simulate"), calls=2)
    assert list(flow) == []
    assert [result.result for result in results] == [1, 1]
    assert len(session.history) == 0 and not session.gate.busy


def test_a_call_that_was_recorded_is_answered_from_the_record_where_that_is_asked_for():
    runs = []

    def count() -> int:
        runs.append(1)
        return len(runs)

    engine = engine_of(count)
    session = engine.sessions.find("s")
    for replay, result in ((False, 1), (True, 1), (False, 2)):
        results = run_batch(engine._path, session, [call("count", "id")], ask(replay=replay))
        assert [found.result for found in results] == [result]


@pytest.mark.parametrize("calls", [["n::one"], [ToolCall(None)], [ToolCall("n::one", {}, 7)], ToolCall("n::one")])
def test_what_is_no_batch_is_refused_before_the_turn_is_taken(calls):
    engine = engine_of(one)
    session = engine.sessions.find("s")
    with pytest.raises(DefinitionError):
        run_batch(engine._path, session, calls, ask())
    with pytest.raises(DefinitionError, match="timeout must be a number"):
        run_batch(engine._path, session, [call("one")], ask(timeout=0))
    assert not session.gate.busy


RECURSIVE = {"type": "object", "properties": {"x": {"allOf": [{"$ref": "#"}] * 2}}}


@pytest.mark.parametrize(
    ("schema", "arguments", "is_beside"),
    [
        ({}, {"x": "short"}, False),
        ({}, {"x": ["a"] * 5_000}, True),
        ({}, '{"x": "%s"}' % ("a" * 5_000), True),
        ({"x": {"type": "integer"}}, {"x": "a" * 5_000}, True),
        ({"x": {"type": "integer"}}, {"x": "a"}, False),
        (RECURSIVE, {"x": {"x": 1}}, True),
    ],
    ids=["short", "many values", "long text", "long and wrong", "short and wrong", "of a schema that grows"],
)
def test_arguments_that_take_long_to_judge_are_judged_beside_the_loop(schema, arguments, is_beside):
    parameters = {"type": "object", "properties": schema} if schema is not RECURSIVE else schema
    engine = engine_of(tool_of(lambda x: 1, name="take", parameters=parameters))
    engine._path.registry.snapshot.names["n::take"][0].make_ready()
    in_thread = engine.execute("s", [ToolCall("n::take", arguments)])
    results = []
    flow = batch_flow(
        engine._path, engine.sessions.find("s"), [ToolCall("n::take", arguments)], ask(on_loop=True), results
    )
    assert (True in [waits_by(wait, _bind_off_loop) for wait in waits_of(flow)]) == is_beside
    assert results == in_thread


@pytest.mark.parametrize(
    ("answer", "is_beside"),
    [
        ({"a": 1}, False),
        ({"l": [{}] * 1_000}, False),
        ({"l": [{}] * 5_000}, True),
        ({"l": [1] * 5_000}, True),
        ({"wrong": 1}, True),
    ],
    ids=["short", "some objects", "many objects", "many numbers", "not allowed"],
)
def test_answers_that_take_long_to_judge_are_judged_beside_the_loop(answer, is_beside):
    allowed = {"type": "object", "properties": {"wrong": False}}
    engine = engine_of(tool_of(lambda: answer, name="give", output_parameters=allowed))
    in_thread = engine.execute("s", [call("give")])
    results = []
    flow = batch_flow(engine._path, engine.sessions.find("s"), [call("give")], ask(on_loop=True), results)
    assert (True in [waits_by(wait, make_result) for wait in waits_of(flow)]) == is_beside
    assert results == in_thread


def test_a_tool_is_looked_at_beside_the_loop_when_it_is_first_called():
    engine = engine_of(one)
    looks = []
    for _ in range(2):
        flow, _, results = turn_of(engine, ask(on_loop=True))
        looks.append({wait.block.func.__name__ for wait in waits_of(flow)})
        assert [result.result for result in results] == [1]
    assert looks[0] - looks[1] == {"_bind_off_loop"}


@pytest.mark.parametrize(
    "shape", [lambda text: {"a": text}, lambda text: Content([{"type": "image", "data": text}], 1)]
)
def test_a_long_text_of_a_tool_that_promises_nothing_is_read_beside_the_loop(shape):
    engine = engine_of(tool_of(lambda: shape("x" * 2_000_000), name="give"))
    in_thread = engine.execute("s", [call("give")])
    results = []
    flow = batch_flow(engine._path, engine.sessions.find("s"), [call("give")], ask(on_loop=True), results)
    assert True in [waits_by(wait, make_result) for wait in waits_of(flow)]
    assert results == in_thread
