import asyncio
import threading

import pytest

from toolyard import (
    Denied,
    InvalidArguments,
    InvalidOutput,
    NoEngine,
    PythonBinding,
    SyncInAsyncError,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    UnknownToolError,
    function_tool,
)


def registry(*functions, **options):
    return ToolRegistry([function_tool(f, namespace="ns", **options) for f in functions])


def add(a: int, b: int = 2) -> int:
    return a + b


async def slow_add(a: int, b: int = 2) -> int:
    await asyncio.sleep(0)
    return a + b


def test_dispatch_validates_and_calls_and_returns_the_value():
    reg = registry(add)
    assert reg.dispatch("ns::add", {"a": 1}) == 3
    assert reg.dispatch("add", {"a": 1, "b": 5}) == 6
    assert reg.dispatch("ns::add", '{"a": 1}') == 3
    assert reg.dispatch("ns::add", b'{"a": 1}') == 3


@pytest.mark.parametrize("arguments", [{}, {"a": "1"}, {"a": 1, "c": 2}, {"a": True}, None, [], "[1]", "{"])
def test_bad_arguments_raise_and_never_reach_the_tool(arguments):
    calls = []

    def spy(a: int) -> None:
        calls.append(a)

    with pytest.raises(InvalidArguments):
        registry(spy).dispatch("ns::spy", arguments)
    assert calls == []


def test_an_integral_float_reaches_an_int_parameter_as_an_int():
    def kind(a: int) -> str:
        return type(a).__name__

    assert registry(kind).dispatch("ns::kind", {"a": 3.0}) == "int"


def test_an_async_tool_runs_from_sync_code_and_from_async_code():
    reg = registry(slow_add)
    assert reg.dispatch("ns::slow_add", {"a": 1}) == 3
    assert asyncio.run(reg.adispatch("ns::slow_add", {"a": 1})) == 3
    assert asyncio.run(registry(add).adispatch("ns::add", {"a": 1})) == 3


def test_dispatching_an_async_tool_on_the_home_loop_names_the_a_twin():
    async def outer() -> int:
        return reg.dispatch("ns::slow_add", {"a": 1})

    reg = registry(slow_add, outer)
    with pytest.raises((SyncInAsyncError, ToolFailed), match="adispatch"):
        reg.dispatch("ns::outer", {})


@pytest.mark.parametrize("error", [KeyError("k"), ValueError("v"), TypeError("t"), RuntimeError("r")])
def test_whatever_the_tool_raises_is_the_tools_failure_with_its_cause(error):
    def broken() -> None:
        raise error

    async def abroken() -> None:
        raise error

    reg = registry(broken, abroken)
    for name in ("broken", "abroken"):
        with pytest.raises(ToolFailed) as caught:
            reg.dispatch(name, {})
        assert caught.value.__cause__ is error
        assert caught.value.info.code == "tool.execution_error"
        assert caught.value.info.effect == "unknown"
        assert type(error).__name__ in str(caught.value)


def test_a_call_error_raised_by_the_tool_passes_unchanged():
    def deny() -> None:
        raise Denied("not today")

    with pytest.raises(Denied, match="not today"):
        registry(deny).dispatch("deny", {})


def test_keyboard_interrupt_is_not_swallowed():
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registry(stop).dispatch("stop", {})


def test_ctx_is_injected_and_a_model_cannot_supply_it():
    def who(city: str, ctx: ToolContext) -> str:
        return f"{city} {ctx.call_id} {ctx.tool.qualified_name}"

    reg = registry(who)
    tool = reg.get("ns::who")[0]
    assert "ctx" not in tool.parameters["properties"]
    assert reg.dispatch("who", {"city": "x"}) == "x None ns::who"
    assert reg.dispatch("who", {"city": "x"}, ctx=ToolContext(tool=tool, call_id="7")) == "x 7 ns::who"
    with pytest.raises(InvalidArguments, match="ctx"):
        reg.dispatch("who", {"city": "x", "ctx": {"call_id": "evil"}})


def test_a_tool_without_a_function_says_what_to_do():
    with pytest.raises(NoEngine, match="no Python function") as caught:
        ToolRegistry([Tool("x", "ns")]).dispatch("ns::x", {})
    assert "engine" in caught.value.info.hint


def test_overloads_are_resolved_by_arguments():
    text = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    number = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    reg = ToolRegistry(
        [
            Tool("f", "ns", "", text, binding=PythonBinding(lambda a: f"text {a}")),
            Tool("f", "ns", "", number, binding=PythonBinding(lambda a: f"number {a}")),
        ]
    )
    assert reg.dispatch("ns::f", {"a": "x"}) == "text x"
    assert reg.dispatch("ns::f", {"a": 1}) == "number 1"
    with pytest.raises(InvalidArguments, match="no overload"):
        reg.dispatch("ns::f", {"a": None})


def test_a_tool_that_changes_its_arguments_changes_neither_the_callers_dict_nor_the_defaults():
    def greedy(a: int, tags: list[str] = ["x"]) -> list[str]:  # noqa: B006
        tags.append("more")
        return tags

    reg = registry(greedy)
    arguments = {"a": 1}
    assert reg.dispatch("greedy", arguments) == ["x", "more"]
    assert reg.dispatch("greedy", arguments) == ["x", "more"]
    assert arguments == {"a": 1}
    assert reg.get("ns::greedy")[0].parameters["properties"]["tags"]["default"] == ["x"]


def test_a_promised_model_is_checked():
    from toolyard import StrictModel

    class Out(StrictModel):
        x: int

    def lies(a: int) -> Out:
        return {"x": a}

    with pytest.raises(InvalidOutput, match="promises Out"):
        registry(lies).dispatch("lies", {"a": 1})


def test_unknown_tools_raise_a_key_error_with_a_readable_text():
    with pytest.raises(UnknownToolError) as caught:
        registry(add).dispatch("ns::ad", {})
    assert str(caught.value) == "no tool is called 'ns::ad'"
    assert isinstance(caught.value, KeyError)


def test_calls_on_a_registry_that_changes_meanwhile_all_succeed():
    reg = registry(add)
    stop = threading.Event()
    failures = []

    def call():
        while not stop.is_set():
            try:
                assert reg.dispatch("ns::add", {"a": 1}) == 3
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for index in range(200):
        reg.add(Tool(f"t{index}", "ns"))
        if index % 3 == 0:
            reg.remove(f"ns::t{index}")
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt(), asyncio.CancelledError()])
def test_an_async_tool_that_tries_to_end_the_loop_fails_alone(error):
    async def leave() -> None:
        raise error

    async def stay() -> int:
        return 1

    reg = registry(leave, stay)
    with pytest.raises(ToolFailed, match=type(error).__name__):
        reg.dispatch("leave", {})
    assert reg.dispatch("stay", {}) == 1


def test_a_tool_that_calls_sys_exit_does_not_end_the_program():
    def leave() -> None:
        raise SystemExit(4)

    reg = registry(leave)
    for _ in range(2):
        with pytest.raises(ToolFailed, match="SystemExit"):
            reg.dispatch("leave", {})


def test_faults_of_calls_a_tool_makes_itself_are_the_tools_failure():
    def outer() -> int:
        return reg.dispatch("ns::nope", {})

    def badly() -> int:
        return reg.dispatch("ns::add", {})

    reg = registry(outer, badly, add)
    for name in ("outer", "badly", "outer", "badly"):
        with pytest.raises(ToolFailed):
            reg.dispatch(name, {})


def test_an_exception_whose_message_cannot_be_shown_is_still_reported():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def fails() -> None:
        raise Mute

    with pytest.raises(ToolFailed, match="Mute"):
        registry(fails).dispatch("fails", {})
