"""A batch has the session to itself, in order, and gives it back whatever happens."""

import asyncio
import threading

import pytest
from call_support import SOON, Hung, call, engine_of, executions, in_threads, until

from toolyard.model.errors import SessionBusyError, SessionError, SyncInAsyncError


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


@pytest.mark.parametrize("verb", ["execute", "simulate"])
async def test_waiting_on_a_running_loop_is_refused_and_names_the_twin(verb):
    hung = Hung()

    def hang():
        return hung()

    engine = engine_of(hang)
    thread = threading.Thread(target=lambda: engine.execute("s", [call("hang")]))
    thread.start()
    await asyncio.to_thread(hung.began.wait, SOON)
    with pytest.raises(SyncInAsyncError, match=f"await a{verb}"):
        getattr(engine, verb)("s", [call("hang")])
    hung.end.set()
    await asyncio.to_thread(thread.join, SOON)
    assert len(executions(engine)) == 1


async def test_a_free_session_can_be_used_on_a_running_loop():
    def one() -> int:
        return 1

    engine = engine_of(one)
    assert engine.execute("s", [call("one")])[0].result == 1


def test_a_busy_session_says_that_nothing_was_run():
    hung = Hung()

    def hang():
        return hung()

    engine = engine_of(hang)
    thread = threading.Thread(target=lambda: engine.execute("s", [call("hang")]))
    thread.start()
    assert hung.began.wait(SOON)
    with pytest.raises(SessionBusyError, match="nothing of this batch was run"):
        engine.execute("s", [call("hang")], timeout=0.01)
    hung.end.set()
    thread.join(SOON)
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
