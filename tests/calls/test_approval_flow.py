"""What whoever decides is shown: what the call would change, who predicted that, and what then happened."""

import threading
from contextlib import closing

import pytest
from calls.call_support import call, engine_of, registry_of

from toolyard.calls.call_path import CallPath
from toolyard.calls.policy import Policy, Rule
from toolyard.engines.base import ToolEngine
from toolyard.engines.effectful import OutwardEngine
from toolyard.engines.lm import LMToolEngine
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolContext
from toolyard.model.errors import ToolFailed
from toolyard.registry.functions import function_tool

ASK = Policy(default="ask")
RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()


def touch(what: str = "x") -> str:
    RAN.append(what)
    return f"touched {what}"


def held_by(engine, name="touch", **arguments):
    """The record of a call that is held just now."""
    [result] = engine.execute("s", [call(name, **arguments)])
    return engine.approvals.get(result.error_info.details["approval"]["id"])


def test_what_only_reads_is_read():
    with closing(engine_of(touch, effects="read", policy=ASK)) as engine:
        preview = held_by(engine).preview
    assert (preview.maker, preview.code, preview.result) == ("the tool itself, which only reads", "ok", "touched x")


def test_a_tool_that_simulates_itself_is_told_the_mode():
    def refund(ctx: ToolContext, order: int) -> str:
        RAN.append(ctx.mode)
        return f"would refund {order}" if ctx.mode == "simulate" else f"refunded {order}"

    registry = registry_of(refund, effects="write", simulates=True)
    with closing(PythonToolEngine(registry, policy=ASK)) as engine:
        engine.setup("s")
        preview = held_by(engine, "refund", order=7).preview
    assert (preview.maker, preview.result, RAN) == ("the tool itself", "would refund 7", ["simulate"])


def test_who_was_named_to_simulate_is_named():
    registry = registry_of(touch, effects="write")
    with closing(PythonToolEngine(registry, policy=ASK, simulate_with=LMToolEngine(registry, name="twin"))) as engine:
        engine.setup("s")
        held = held_by(engine)
        assert (held.preview.maker, held.preview.code, RAN) == ("twin (simulate_with)", "ok", [])
        engine.approvals.approve(held.id)
        engine.execute("s", [call("touch")])
        outcome = engine.approvals.get(held.id).outcome
    assert (outcome.code, outcome.differences) == ("ok", ()), "another world is not compared"


@pytest.mark.parametrize("effects", ["write", "unknown"])
@pytest.mark.parametrize("simulate", ["read", "live"])
def test_nothing_that_may_have_an_effect_is_run_and_no_answer_is_made_up(effects, simulate):
    with closing(engine_of(touch, effects=effects, policy=ASK, simulate=simulate)) as engine:
        preview = held_by(engine).preview
    assert preview.maker is None and preview.result is None and RAN == []
    assert "only running it would show" in preview.why_not


def test_a_service_outside_is_not_called_and_the_record_says_what_would_help():
    class Outside(OutwardEngine):
        def answer(self, invocation):
            RAN.append("called")

    with closing(Outside(registry_of(touch, effects="write"), policy=ASK)) as engine:
        engine.setup("s")
        assert "may change something outside" in held_by(engine).preview.why_not
    assert RAN == []


def test_an_engine_of_ones_own_is_not_run_unless_it_says_that_it_keeps_to_the_session():
    class Own(ToolEngine):
        def answer(self, invocation):
            RAN.append("answered")

    with closing(Own(registry_of(touch, effects="write"), policy=ASK)) as engine:
        engine.setup("s")
        assert held_by(engine).preview.maker is None and RAN == []


def test_a_rule_may_do_without_and_the_record_says_so():
    policy = Policy([Rule("ask", preview=False)])
    with closing(engine_of(touch, effects="read", policy=policy)) as engine:
        assert held_by(engine).preview.why_not == "the rule says preview: false" and RAN == []


def test_a_preview_that_breaks_down_is_logged_under_the_name_that_filters_know(monkeypatch, caplog):
    def break_down(path):
        raise RuntimeError("with an argument in its message")

    monkeypatch.setattr(CallPath, "past_policy", break_down)
    with closing(engine_of(touch, effects="read", policy=ASK)) as engine:
        assert held_by(engine).preview.why_not == "predicting it failed with RuntimeError"
    assert [(line.name, line.levelname) for line in caplog.records] == [("toolyard.calls.asking", "WARNING")]
    assert "argument" not in caplog.text


def test_a_preview_that_fails_is_shown_as_what_it_is_and_the_call_is_held():
    def fail() -> None:
        raise ToolFailed("no such order, and token=hunter22secret")

    with closing(engine_of(fail, effects="read", policy=ASK)) as engine:
        preview = held_by(engine, "fail").preview
    assert preview.code == "tool.execution_error" and "no such order" in preview.result
    assert "hunter22" not in str(preview)


def test_a_preview_takes_no_longer_than_it_may(monkeypatch):
    monkeypatch.setattr("toolyard.calls.approval_flow._PREVIEW_SECONDS", 0.05)
    go = threading.Event()

    def hang() -> None:
        go.wait(60)

    with closing(engine_of(hang, effects="read", policy=ASK)) as engine:
        assert held_by(engine, "hang").preview.code == "tool.timeout"
        go.set()


def test_a_long_result_is_left_out_and_secrets_are_hidden():
    def read(size: int) -> dict[str, str]:
        return {"password": "hunter22", "text": "x" * size}

    with closing(engine_of(read, effects="read", policy=ASK)) as engine:
        assert held_by(engine, "read", size=1).preview.result == {"password": "[redacted]", "text": "x"}
        assert held_by(engine, "read", size=20_000).preview.result == "left out: 20,033 bytes"


class Shop(ToolEngine):
    """Keeps orders in the session, and nothing else."""

    type_name = "shop"
    foreseeable = True

    def answer(self, invocation):
        orders = dict(invocation.state.get("orders", {}))
        number = str(invocation.arguments["order"])
        if invocation.tool.name == "drop":
            del orders[number]
        elif number not in orders:
            raise ToolFailed(f"no order {number}", effect="none")
        else:
            orders[number] = {**orders[number], "status": invocation.tool.name}
        invocation.state["orders"] = orders
        return orders.get(number)


@pytest.fixture
def shop():
    def refunded(order: int) -> dict[str, str]: ...
    def shipped(order: int) -> dict[str, str]: ...
    def drop(order: int) -> None: ...

    tools = [function_tool(tool, namespace="n", effects="write") for tool in (refunded, shipped, drop)]
    policy = Policy([Rule("allow", "n::shipped"), Rule("ask")])
    engine = Shop(registry_of(), policy=policy)
    engine.tool_registry.add(*tools)
    engine.setup("s", initial_state={"shop": {"orders": {"1042": {"status": "paid"}, "7": {"status": "paid"}}}})
    with closing(engine):
        yield engine


def finish(engine, held):
    engine.approvals.approve(held.id)
    engine.execute("s", [call(held.tool.removeprefix("n::"), **held.arguments)])
    return engine.approvals.get(held.id).outcome


def test_the_change_of_the_world_is_predicted_in_words_and_the_session_is_as_it_was(shop):
    before = shop.state_hash("s")
    held = held_by(shop, "refunded", order=1042)
    assert shop.state_hash("s") == before
    assert held.preview.maker == "shop, which will answer it"
    assert held.preview.changes == ("orders.1042.status: paid -> refunded",)
    outcome = finish(shop, held)
    assert (outcome.code, outcome.changes, outcome.differences) == ("ok", held.preview.changes, ())


def test_what_happened_stands_beside_what_was_predicted_where_they_differ(shop):
    held = held_by(shop, "refunded", order=1042)
    shop.execute("s", [call("shipped", order=1042)])
    outcome = finish(shop, held)
    assert outcome.differences == (
        "predicted, but did not happen: orders.1042.status: paid -> refunded",
        "happened, but was not predicted: orders.1042.status: shipped -> refunded",
    )


def test_no_secret_of_the_world_is_shown(shop):
    orders = {"7": {"api_key": "hunter22"}, "8": {"status": "Bearer hunter22hunter22"}}
    shop.setup("t", initial_state={"shop": {"orders": orders}})
    shop.execute("t", [call("drop", order=7), call("refunded", order=8)])
    lines = {line for held in shop.approvals.list(session_id="t").approvals for line in held.preview.changes}
    assert lines == {
        'orders.7: removed {"api_key":"[redacted]"}',
        "orders.8.status: Bearer [redacted] -> refunded",
    }


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x85"])
def test_no_name_or_value_of_the_world_looks_like_another_line(end):
    forged = f"x{end}orders.7: added all of it{end}"

    class Notes(ToolEngine):
        type_name = "notes"
        foreseeable = True

        def answer(self, invocation):
            invocation.state[invocation.arguments["title"]] = invocation.arguments["text"]

    def note(title: str, text: str) -> None: ...

    with closing(Notes(registry_of(note, effects="write"), policy=ASK)) as engine:
        engine.setup("s")
        for title, text in ((forged, "y"), ("y", forged), ("z" * 200_000, "y"), ("y", "z" * 200_000)):
            [line] = held_by(engine, "note", title=title, text=text).preview.changes
            assert len(line.splitlines()) == 1 and len(line) < 500


def test_so_does_an_end_that_was_not_predicted(shop):
    held, gone = held_by(shop, "refunded", order=7), held_by(shop, "drop", order=7)
    assert gone.preview.changes == ('orders.7: removed {"status":"paid"}',)
    assert finish(shop, gone).differences == ()
    assert finish(shop, held).differences[0] == "predicted to end with ok, and ended with tool.execution_error"


def test_a_tool_that_the_simulator_plays_for_real_is_predicted_by_it():
    registry = registry_of(touch, effects="write")
    with closing(LMToolEngine(registry, policy=ASK)) as engine:
        engine.setup("s")
        held = held_by(engine)
        assert held.preview.maker == "lm, which will answer it"
        assert finish(engine, held).differences == ()
        engine.is_last_resort = True  # as in a config without engines
        assert held_by(engine).preview.maker == "the schema simulator, which will answer it"


async def test_a_task_predicts_the_same_way():
    with closing(engine_of(touch, effects="read", policy=ASK)) as engine:
        [held] = await engine.aexecute("s", [call("touch")])
        preview = engine.approvals.get(held.error_info.details["approval"]["id"]).preview
    assert preview.result == "touched x"
