"""A config without engines: what nothing is behind is simulated, the rest is real."""

from toolyard import LMToolEngine, Policy, RestBinding, Rule, Tool, ToolRegistry, Toolyard
from toolyard.model.bindings import RestBody, RestParameter
from toolyard.model.call import ToolCall

TOOLS = {
    "tools": [
        {"type": "domains", "domains": ["core"]},
        {
            "type": "inline",
            "namespace": "shop",
            "tools": [
                {"name": "add_order", "parameters": {"type": "object", "properties": {"item": {"type": "string"}}}},
                {"name": "list_orders", "parameters": {"type": "object"}},
            ],
        },
    ]
}


def results(yard, *calls):
    engine = yard.tool_engine
    engine.setup("s")
    return engine.execute("s", [ToolCall(name, arguments) for name, arguments in calls])


def test_a_tool_that_nothing_is_behind_is_simulated():
    with Toolyard.from_config(TOOLS) as yard:
        real, made, listed = results(
            yard, ("core::echo", {"text": "hi"}), ("shop::add_order", {"item": "lamp"}), ("shop::list_orders", {})
        )
    assert real.result == {"text": "hi"}
    assert made.result["item"] == "lamp"
    assert listed.result["items"] == [made.result]


def test_it_is_so_beside_sources_with_engines_of_their_own(tmp_path):
    (tmp_path / "own.json").write_text('{"namespace": "own", "tools": [{"name": "add_thing"}]}')
    config = {
        "tools": {
            "registry": [
                *TOOLS["tools"],
                {"type": "file", "path": str(tmp_path / "own.json"), "engine": "mine"},
            ],
            "engines": {"mine": {"type": "lm", "lm_config": {"type": "schema", "seed": 9}}},
        }
    }
    with Toolyard.from_config(config) as yard:
        assert isinstance(yard.tool_engine.part("mine"), LMToolEngine)
        assert yard.tool_engine.part("lm") is not yard.tool_engine.part("mine")
        made, own = results(yard, ("shop::add_order", {"item": "lamp"}), ("own::add_thing", {}))
    assert made.result["item"] == "lamp" and not own.is_error


def test_an_engine_called_lm_takes_its_place():
    config = {
        "tools": {
            "registry": TOOLS["tools"],
            "engines": {"lm": {"type": "lm", "lm_config": {"type": "schema", "seed": 9}}},
        }
    }
    with Toolyard.from_config(config) as one, Toolyard.from_config(TOOLS) as other:
        calls = ("shop::add_order", {"item": "lamp"}), ("shop::list_orders", {})
        assert [result.is_error for result in (*results(one, *calls), *results(other, *calls))] == [False] * 4


def test_such_a_yard_answers_async_callers_on_their_loop():
    async def ask():
        async with Toolyard.from_config(TOOLS) as yard:
            await yard.tool_engine.asetup("s")
            (made,) = await yard.tool_engine.aexecute("s", [ToolCall("shop::add_order", {"item": "lamp"})])
            return made.result

    import asyncio

    assert asyncio.run(ask())["item"] == "lamp"


def test_whoever_approves_is_told_of_things_by_their_ids_and_of_nothing_twice():
    text = {"type": "string"}
    order = {"type": "object", "properties": {"id": {"type": "integer"}, "status": text, "note": text}}
    sent, key = {"status": text, "note": text}, RestParameter(argument="order_id", name="order_id", location="path")
    one = {"type": "object", "properties": {"order_id": {"type": "integer"}, **sent}}
    body = RestBody(media_type="application/json", properties={name: name for name in sent})

    def tool(name, method, path, parameters, keys=()):
        binding = RestBinding(method, path, "", keys, body if method != "DELETE" else None)
        return Tool(name, "shop", parameters=parameters, output_parameters=order, binding=binding)

    tools = [
        tool("make", "POST", "/orders", {"type": "object", "properties": sent}),
        tool("change", "PATCH", "/orders/{order_id}", one, (key,)),
        tool("drop", "DELETE", "/orders/{order_id}", one, (key,)),
    ]
    policy = Policy([Rule("allow", "shop::make"), Rule("ask")])
    with LMToolEngine(ToolRegistry(tools), policy=policy) as engine:
        engine.setup("s")
        engine.execute("s", [ToolCall("shop::make", {"status": "paid", "note": "n"})])

        def changes(name, **arguments):
            [held] = engine.execute("s", [ToolCall(f"shop::{name}", {"order_id": 1001, **arguments})])
            return engine.approvals.get(held.error_info.details["approval"]["id"]).preview.changes

        assert changes("change", status="refunded") == ("order 1001: status paid -> refunded",)
        assert changes("drop") == ('order 1001: removed {"id":1001,"status":"paid","note":"n"}',)
        engine.setup("other", fork_of="s")
        engine.execute("other", [ToolCall("shop::make", {"status": "new", "note": "m"})])
        told = [change.describe() for change in engine.world_diff("s", "other").changes]
        assert told == ['+ order 1002: {"id":1002,"note":"m","status":"new"}']
