"""A call id that was answered before in a session."""

import pytest
from call_support import engine_of, executions
from hypothesis import given, strategies as st

from toolyard import ToolCall
from toolyard.calls.batch import CallRequest, find_recorded

RAN = []


def note(word: str, more: float = 0.0) -> str:
    """Write it down."""
    RAN.append(word)
    return f"noted {word}"


def fail(word: str) -> str:
    """Fail."""
    RAN.append(word)
    raise RuntimeError(word)


@pytest.fixture
def engine():
    RAN.clear()
    with engine_of(note, fail) as made:
        yield made


def session_of(engine):
    return engine.sessions.find("s", None)


async def run(engine, *calls, **options):
    request = CallRequest(calls=calls, session_id="s", replay=True, **options)
    return await engine.arun(request)


async def test_a_new_id_is_not_replayed_and_one_without_an_id_never(engine):
    assert find_recorded(session_of(engine), ToolCall("n::note", {"word": "a"}, "c1")) is None
    await run(engine, ToolCall("n::note", {"word": "a"}))
    assert find_recorded(session_of(engine), ToolCall("n::note", {"word": "a"})) is None


async def test_an_answered_id_gives_the_answer_again(engine):
    [first] = await run(engine, ToolCall("n::note", {"word": "a"}, "c1"))
    [again] = await run(engine, ToolCall("n::note", {"word": "a"}, "c1"))
    assert first.to_dict() == again.to_dict() and RAN == ["a"]
    assert len(executions(engine)) == 1


async def test_a_failure_is_an_answer_too(engine):
    [first] = await run(engine, ToolCall("n::fail", {"word": "a"}, "c1"))
    [again] = await run(engine, ToolCall("n::fail", {"word": "a"}, "c1"))
    assert first.error_info == again.error_info and RAN == ["a"]


@pytest.mark.parametrize(
    "other",
    [
        ToolCall("n::note", {"word": "b"}, "c1"),
        ToolCall("n::note", {"word": "a", "more": 1}, "c1"),
        ToolCall("n::fail", {"word": "a"}, "c1"),
        ToolCall("n::nope", {"word": "a"}, "c1"),
        ToolCall("n::note", {"word": float("nan")}, "c1"),
        ToolCall("n::note", {"word": object()}, "c1"),
    ],
    ids=range(6),
)
async def test_another_call_with_the_id_is_a_conflict_that_runs_and_records_nothing(engine, other):
    await run(engine, ToolCall("n::note", {"word": "a"}, "c1"))
    [result] = await run(engine, other)
    assert (result.error_info.code, result.error_info.effect) == ("call.conflict", "none")
    assert (result.call_id, result.name) == ("c1", other.name)
    assert RAN == ["a"] and len(executions(engine)) == 1


async def test_numbers_that_only_python_takes_for_equal_are_other_arguments(engine):
    await run(engine, ToolCall("n::note", {"word": "a", "more": 1}, "c1"))
    for value in (1.0, True):
        [result] = await run(engine, ToolCall("n::note", {"word": "a", "more": value}, "c1"))
        assert result.error_info.code == "call.conflict"


async def test_the_order_of_arguments_does_not_matter(engine):
    await run(engine, ToolCall("n::note", {"word": "a", "more": 1}, "c1"))
    [again] = await run(engine, ToolCall("n::note", {"more": 1, "word": "a"}, "c1"))
    assert again.result == "noted a" and RAN == ["a"]


async def test_a_repeat_within_one_batch_runs_once(engine):
    call = ToolCall("n::note", {"word": "a"}, "c1")
    first, second, third = await run(engine, call, ToolCall("n::note", {"word": "b"}, "c2"), call)
    assert first.to_dict() == third.to_dict() and second.result == "noted b"
    assert RAN == ["a", "b"]


async def test_simulation_neither_replays_nor_is_replayed(engine):
    call = ToolCall("n::note", {"word": "a"}, "c1")
    await run(engine, call, mode="simulate")
    await run(engine, call)
    await run(engine, call, mode="simulate")
    assert RAN == ["a", "a", "a"]


async def test_without_replay_the_call_is_made_again(engine):
    call = ToolCall("n::note", {"word": "a"}, "c1")
    for _ in range(2):
        await engine.arun(CallRequest(calls=[call], session_id="s"))
    assert RAN == ["a", "a"]


async def test_a_fork_knows_the_ids_of_the_history_it_began_with(engine):
    call = ToolCall("n::note", {"word": "a"}, "c1")
    await run(engine, call)
    engine.setup("fork", fork_of="s")
    [again] = await engine.arun(CallRequest(calls=[call], session_id="fork", replay=True))
    assert again.result == "noted a" and RAN == ["a"]


async def test_an_id_refused_as_stale_is_free_for_the_same_call(engine):
    call = ToolCall("n::note", {"word": "a"}, "c1")
    [stale] = await run(engine, call, definitions=frozenset({"other"}))
    assert stale.error_info.code == "catalog.stale"
    [fresh] = await run(engine, call)
    assert fresh.result == "noted a"
    [again] = await run(engine, call)
    assert again.result == "noted a" and RAN == ["a"]


@given(st.lists(st.tuples(st.sampled_from(["c1", "c2", None]), st.sampled_from(["a", "b"])), max_size=12))
def test_whatever_is_sent_each_id_runs_once_and_means_one_call(sent):
    import asyncio

    RAN.clear()
    known, expected = {}, []
    with engine_of(note) as engine:
        for call_id, word in sent:
            [result] = asyncio.run(run(engine, ToolCall("n::note", {"word": word}, call_id)))
            if call_id is None or call_id not in known:
                expected.append(word)
                assert result.result == f"noted {word}"
                known.setdefault(call_id, word)
            elif known[call_id] == word:
                assert result.result == f"noted {word}"
            else:
                assert result.error_info.code == "call.conflict"
    assert expected == RAN
