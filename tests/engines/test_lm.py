"""The lm engine: what the model is told, message by message, and what becomes of its answers."""

import asyncio
import json

import pytest
from calls.call_support import Listener
from links.lm.model_server import ModelServer
from waiting import until

from conftest import SOAK
from engines.lm.support import FREE, GOOD, LISTED, SYSTEM, WEATHER, call, engine_of, text, user
from toolyard.calls.tracer import Tracer
from toolyard.engines.lm import LMToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError
from toolyard.plugins import get_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool


def run(engine, *calls, session="s"):
    if session not in SEEN.setdefault(id(engine), set()):
        engine.setup(session)
        SEEN[id(engine)].add(session)
    return engine.execute(session, list(calls))


SEEN = {}


@pytest.fixture(autouse=True)
def _fresh():
    SEEN.clear()


@pytest.mark.parametrize("kind", ["openai", "ollama", "anthropic"])
def test_the_model_is_told_the_history_pair_by_pair_and_then_the_call(kind):
    replies = (GOOD, '{"kept": true}', '{"temp": 3, "notes": ["rain"]}')
    with ModelServer(*replies) as server, engine_of(server, kind=kind) as engine:
        first, second, third = run(
            engine, call("get_weather", city="Rom"), call("note", text="ciao"), call("get_weather", city="Köln")
        )
    assert [first.result, second.result, third.result] == [
        {"temp": 21.5, "notes": []},
        {"kept": True},
        {"temp": 3, "notes": ["rain"]},
    ]
    one, two, three = (
        [("system", asked.body["system"]), *asked.messages] if kind == "anthropic" else asked.messages
        for asked in server.asked
    )
    assert one == [SYSTEM, user(WEATHER, city="Rom")]
    assert two == [*one, ("assistant", '{"temp":21.5,"notes":[]}'), user(FREE, text="ciao")]
    assert three == [*two, ("assistant", '{"kept":true}'), user(WEATHER, city="Köln")]


def test_openai_is_held_to_the_bounded_schema_or_to_any_object():
    with ModelServer(GOOD, "{}", '{"result": ["a"]}') as server, engine_of(server) as engine:
        run(engine, call("get_weather", city="x"), call("note", text="y"), call("names"))
    weather, note, names = (asked.body["response_format"] for asked in server.asked)
    assert weather == {
        "type": "json_schema",
        "json_schema": {
            "name": "get_weather",
            "schema": {
                "type": "object",
                "properties": {
                    "temp": {"type": "number"},
                    "notes": {"type": "array", "items": {"type": "string", "maxLength": 400}, "maxItems": 16},
                },
                "required": ["temp", "notes"],
                "additionalProperties": False,
            },
        },
    }
    assert note == {"type": "json_object"}
    assert names["json_schema"]["schema"]["required"] == ["result"]


@pytest.mark.parametrize(
    ("most", "sent"), [("json_object", {"type": "json_object"}), ("text", None), ("json_schema", "json_schema")]
)
def test_a_server_is_held_to_no_more_than_it_can(most, sent):
    with ModelServer(GOOD) as server, engine_of(server, config={"response_format": most}) as engine:
        assert run(engine, call("get_weather", city="x"))[0].result == json.loads(GOOD)
    form = server.asked[0].body.get("response_format")
    assert form == sent or form["type"] == sent


def test_strict_is_said_where_the_operator_says_so():
    with ModelServer(GOOD) as server, engine_of(server, config={"strict": True}) as engine:
        run(engine, call("get_weather", city="x"))
    assert server.asked[0].body["response_format"]["json_schema"]["strict"] is True


def test_an_answer_that_does_not_fit_is_sent_back_with_what_is_wrong():
    with ModelServer('{"temp": "hot", "notes": []}', "Sure! It is warm.", GOOD) as server, engine_of(server) as engine:
        (result,) = run(engine, call("get_weather", city="x"))
    assert result.result == json.loads(GOOD)
    first, second, third = (asked.messages for asked in server.asked)
    assert second[:-1] == [*first, ("assistant", '{"temp": "hot", "notes": []}')]
    assert "/temp: must be number, not string" in second[-1][1]
    assert third[:-1] == [*second, ("assistant", "Sure! It is warm.")]
    assert "it is not JSON" in third[-1][1]
    assert all(asked.body["response_format"]["type"] == "json_schema" for asked in server.asked)


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_repairs_end_and_the_failure_is_a_result_that_the_model_sees_next_time(repairs):
    with ModelServer(otherwise=lambda asked: '{"temp": 1}') as server, engine_of(server, repairs=repairs) as engine:
        (failed,) = run(engine, call("get_weather", city="x"))
        tries = len(server.asked)
        run(engine, call("note", text="n"))
        state = engine.get_session_state("s")
    assert tries == 1 + repairs
    assert (failed.error_info.code, failed.error_info.effect) == ("tool.invalid_output", "none")
    assert failed.error_info.details["violations"][0]["message"] == "missing required property 'notes'"
    assert state["tool_executions"][0]["tool_output"]["error"] == failed.error
    # The tries are the engine's own business: the history has the call and its error.
    assert server.asked[-1].messages == [
        SYSTEM,
        user(WEATHER, city="x"),
        ("assistant", text({"error": failed.error})),
        user(FREE, text="n"),
    ]


def test_a_failure_that_the_model_plays_is_a_failed_result_and_is_told_as_one():
    with ModelServer('{"error": "no such city"}', "{}") as server, engine_of(server) as engine:
        failed, _ = run(engine, call("note", text="x"), call("note", text="y"))
    assert (failed.error, failed.result, failed.error_info.code) == ("no such city", None, "tool.execution_error")
    assert server.asked[1].messages[2] == ("assistant", text({"error": "no such city"}))
    assert len(server.asked) == 2


def test_a_call_that_is_wrong_never_reaches_the_model_but_is_part_of_the_history():
    with ModelServer(GOOD) as server, engine_of(server) as engine:
        wrong, unknown, good = run(
            engine, call("get_weather", days=3), call("nothing", a=1), call("get_weather", city="x")
        )
    assert [wrong.error_info.code, unknown.error_info.code, good.error] == ["tool.invalid_args", "tool.not_found", None]
    assert len(server.asked) == 1
    assert server.asked[0].messages == [
        SYSTEM,
        user(WEATHER, days=3),
        ("assistant", text({"error": wrong.error})),
        ("user", 'Tool call:\n{"name":"w::nothing","arguments":{"a":1}}'),
        ("assistant", text({"error": unknown.error})),
        user(WEATHER, city="x"),
    ]


def test_arguments_are_told_as_the_tool_would_get_them():
    with ModelServer(GOOD) as server, engine_of(server) as engine:
        (result,) = run(engine, call("get_weather", city="x", days="3"))
    assert result.metadata["coercions"]
    assert server.asked[0].messages[-1] == user(WEATHER, city="x", days=3)


@pytest.mark.parametrize("empty", ['{"temp": 0, "notes": []}', '{"temp": 0, "notes": [""]}'])
def test_empty_values_are_kept(empty):
    with ModelServer(empty) as server, engine_of(server) as engine:
        assert run(engine, call("get_weather", city="x"))[0].result == json.loads(empty)


def test_history_of_other_engines_is_told_too():
    def add(a: int, b: int) -> int:
        return a + b

    def fail() -> None:
        raise ValueError("broken")

    functions = [function_tool(add, namespace="p"), function_tool(fail, namespace="p")]
    registry = ToolRegistry([*functions, WEATHER])
    with ModelServer(GOOD) as server:
        block = {"type": "openai", "model_id_or_path": "m", "base_url": server.url}
        engines = {"p": PythonToolEngine(registry), "w": LMToolEngine(registry, lm_config=block)}
        with MultiToolEngine(registry, engines=engines) as engine:
            engine.setup("s")
            adding = ToolCall("p::add", {"a": 1, "b": 2})
            results = engine.execute("s", [adding, ToolCall("p::fail", {}), call("get_weather", city="x")])
    assert [result.is_error for result in results] == [False, True, False]
    told = server.asked[0].messages
    assert told[1][1].endswith('Tool call:\n{"name":"p::add","arguments":{"a":1,"b":2}}')
    assert told[2] == ("assistant", "3")
    assert told[4] == ("assistant", text({"error": results[1].error}))
    assert told[5:] == [user(WEATHER, city="x")]


def test_overloads_are_told_by_the_arguments_they_took():
    other = WEATHER.replace(
        parameters={"type": "object", "properties": {"zip": {"type": "integer"}}, "required": ["zip"]}
    )
    with ModelServer(GOOD, GOOD, GOOD) as server, engine_of(server, WEATHER, other) as engine:
        run(engine, call("get_weather", zip=1), call("get_weather", city="x"), call("get_weather", zip=2))
    assert [message for message in server.asked[-1].messages if message[0] == "user"] == [
        user(other, zip=1),
        user(WEATHER, city="x"),
        user(other, zip=2),
    ]


def test_simulate_shows_the_history_and_leaves_none():
    with ModelServer(GOOD, '{"temp": 1, "notes": []}', GOOD) as server, engine_of(server) as engine:
        run(engine, call("get_weather", city="a"))
        before = engine.state_hash("s")
        (simulated,) = engine.simulate("s", [call("get_weather", city="b")])
        assert engine.state_hash("s") == before
        run(engine, call("get_weather", city="c"))
    assert simulated.result == {"temp": 1, "notes": []}
    assert server.asked[1].messages[-1] == user(WEATHER, city="b")
    assert [said for role, said in server.asked[2].messages if role == "user"] == [
        user(WEATHER, city="a")[1],
        user(WEATHER, city="c")[1],
    ]


def test_a_fork_knows_what_was_before_it_and_nothing_of_its_sibling():
    with ModelServer(otherwise=lambda asked: GOOD) as server, engine_of(server) as engine:
        run(engine, call("get_weather", city="a"))
        engine.setup("fork", fork_of="s")
        engine.execute("s", [call("get_weather", city="b")])
        engine.execute("fork", [call("get_weather", city="c")])
    cities = [
        json.loads(said.rpartition("\n")[2])["arguments"]["city"]
        for role, said in server.asked[-1].messages
        if role == "user"
    ]
    assert cities == ["a", "c"]


def test_the_eldest_are_left_out_first_and_the_trace_says_how_many():
    sink = Listener()
    with ModelServer(otherwise=lambda asked: GOOD) as server:
        options = {"max_history_tokens": 400, "tracer": Tracer([sink])}
        with engine_of(server, **options) as engine:
            for number in range(12):
                run(engine, call("get_weather", city=f"city-{number}"))
    told = [said for role, said in server.asked[-1].messages if role == "user"]
    count = len(told) - 1
    assert 0 < count < 11
    assert told == [user(WEATHER, city=f"city-{number}")[1] for number in range(11 - count, 12)]
    notes = sink.events[-1].notes
    assert notes["history"] == {"told": count, "dropped": 11 - count}
    assert (notes["model"], notes["requests"], notes["prompt_tokens"]) == ("small", 1, 10)
    assert sink.events[0].notes["history"] == {"told": 0, "dropped": 0}


@pytest.mark.parametrize(("budget", "pairs"), [(0, 0), (None, 6)])
def test_no_budget_is_all_and_none_is_nothing(budget, pairs):
    with ModelServer(otherwise=lambda asked: GOOD) as server, engine_of(server, max_history_tokens=budget) as engine:
        for number in range(7):
            run(engine, call("get_weather", city=str(number)))
    assert len(server.asked[-1].messages) == 2 + 2 * pairs


def test_an_instruction_of_ones_own_takes_the_place_of_the_usual_one():
    with ModelServer(GOOD) as server, engine_of(server, instruction="Rain everywhere.") as engine:
        run(engine, call("get_weather", city="x"))
    assert server.asked[0].messages[0] == ("system", "Rain everywhere.")


def test_a_server_that_is_down_is_a_result_without_effect_and_without_the_key():
    with ModelServer() as server:
        pass
    with engine_of(server, config={"retries": 0, "api_key": "sk-hidden"}) as engine:
        (result,) = run(engine, call("get_weather", city="x"))
    assert (result.error_info.code, result.error_info.effect) == ("tool.unavailable", "none")
    assert "sk-hidden" not in repr(result) + repr(engine)


def test_a_key_that_the_model_repeats_is_taken_out_of_errors():
    refusal = (400, {}, {"error": "no sk-hidden here"})
    with ModelServer(refusal) as server, engine_of(server, config={"api_key": "sk-hidden"}) as engine:
        (result,) = run(engine, call("get_weather", city="x"))
    assert "sk-hidden" not in repr(result)


def test_the_deadline_of_a_call_covers_all_its_rounds():
    with ModelServer(otherwise=lambda asked: "nonsense", delay=0.2) as server, engine_of(server, timeout=0.5) as engine:
        (result,) = run(engine, call("get_weather", city="x"))
    assert result.error_info.code == "tool.timeout"


def test_a_run_is_replayed_from_the_journal_repairs_included(tmp_path):
    config = {"journal": str(tmp_path / "j")}
    calls = [call("get_weather", city="a"), call("note", text="b")]
    with ModelServer("nonsense", GOOD, '{"n": 1}') as server:
        with engine_of(server, config=config) as engine:
            first = run(engine, *calls)
            assert engine.spent["small"].requests == 3
        with engine_of(server, config=config) as engine:
            assert run(engine, *calls, session="another") == first
            assert (engine.spent["small"].requests, engine.spent["small"].cached) == (0, 3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repairs": 3}, "repairs: must be 2 or less, not 3"),
        ({"max_history_tokens": -1}, "max_history_tokens"),
        ({"max_items": 0}, "max_items"),
        ({"max_string_length": True}, "max_string_length"),
        ({"output_check": "warn"}, "always strict"),
        ({"lm_config": {"type": "openai", "model": "x"}}, "did you mean"),
        ({"lm_config": "ollama"}, "must be a mapping"),
    ],
)
def test_a_wrong_option_is_said_at_once(options, said):
    with pytest.raises(ConfigError, match=said):
        LMToolEngine(ToolRegistry(), **options)


def test_it_is_registered_by_its_name():
    with ModelServer(GOOD) as server:
        block = {"type": "ollama", "model_id_or_path": "m", "base_url": server.url}
        with get_tool_engine("lm", registry=ToolRegistry([WEATHER]), lm_config=block) as engine:
            assert type(engine) is LMToolEngine
            assert run(engine, call("get_weather", city="x"))[0].result == json.loads(GOOD)


async def test_sessions_that_run_at_once_never_mix():
    """A hundred of them, each told of its own calls and nobody else's; a thousand in `make soak`."""
    count = 1000 if SOAK else 100

    def said(asked):
        told = [content.rpartition("\n")[2] for role, content in asked.messages if role == "user"]
        return text({"seen": [json.loads(one)["arguments"]["text"] for one in told]})

    async def session(engine, number):
        await engine.asetup(f"s{number}")
        for turn in range(3):
            (result,) = await engine.aexecute(f"s{number}", [call("note", text=f"{number}-{turn}")])
            assert result.result == {"seen": [f"{number}-{earlier}" for earlier in range(turn + 1)]}
        await engine.ateardown(f"s{number}")

    with ModelServer(otherwise=said, delay=0.01) as server:
        async with engine_of(server, config={"max_concurrent": 1000}) as engine:
            await asyncio.gather(*(session(engine, number) for number in range(count)))
    assert len(server.asked) == 3 * count


async def test_a_cancelled_call_is_recorded_and_the_session_goes_on():
    with ModelServer(GOOD, GOOD, delay=0.3) as server:
        async with engine_of(server) as engine:
            await engine.asetup("s")
            task = asyncio.ensure_future(engine.aexecute("s", [call("get_weather", city="a")]))
            await asyncio.to_thread(until, lambda: server.asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            server.delay = 0
            (result,) = await engine.aexecute("s", [call("get_weather", city="b")])
            state = await engine.aget_session_state("s")
    assert result.result == json.loads(GOOD)
    assert [one["tool_output"]["error_info"]["code"] for one in state["tool_executions"][:1]] == ["tool.interrupted"]


def test_a_list_travels_in_an_envelope_that_is_taken_off():
    with ModelServer('{"result": ["a", "b"]}', '["c"]') as server, engine_of(server) as engine:
        assert [result.result for result in run(engine, call("names"), call("names"))] == [["a", "b"], ["c"]]
    assert server.asked[1].messages[1:3] == [user(LISTED), ("assistant", '["a","b"]')]


def test_the_trace_says_what_was_left_out_even_if_the_model_cannot_be_had():
    kept = Listener()
    options = {"max_history_tokens": 0, "tracer": Tracer([kept])}
    replies = ('{"a": 1}', (400, {}, {"error": "no"}))
    with ModelServer(*replies) as server, engine_of(server, **options) as engine:
        engine.setup("s")
        engine.execute("s", [call("note", text="one")])
        (second,) = engine.execute("s", [call("note", text="two")])
    assert second.error is not None
    notes = kept.events[-1].notes
    assert notes["history"] == {"told": 0, "dropped": 1} and notes["requests"] == 0


def test_an_empty_answer_is_sent_back_as_a_turn_that_says_something():
    with ModelServer("", GOOD) as server, engine_of(server, kind="anthropic") as engine:
        engine.setup("s")
        (result,) = engine.execute("s", [call("get_weather", city="x")])
    assert result.result == {"temp": 21.5, "notes": []}
    assert all(content.strip() for _, content in server.asked[1].messages)
