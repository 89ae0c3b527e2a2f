"""A config without engines: what nothing is behind is simulated, the rest is real."""

from toolyard import LMToolEngine, Toolyard
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
