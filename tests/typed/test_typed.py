import asyncio
import functools
import threading

import pytest
from pydantic import BaseModel, ValidationError

from toolyard import (
    InvalidArguments,
    InvalidNameError,
    InvalidOutput,
    PythonToolEngine,
    StrictModel,
    ToolCall,
    ToolFailed,
    ToolRegistry,
    UnknownToolError,
    function_tool,
)
from toolyard.typed import EchoToolInput, EchoToolOutput, Registry, echo_tool, registry as global_registry


class In(StrictModel):
    n: int
    note: str = ""


class Out(StrictModel):
    n: int


@pytest.fixture
def reg():
    registry = Registry()

    @registry.register("inc", In)
    def inc(payload: In) -> Out:
        return Out(n=payload.n + 1)

    return registry


def test_the_global_registry_has_echo_and_echo_works():
    assert "echo" in global_registry.names()
    assert global_registry.dispatch("echo", {"message": "hi"}) == EchoToolOutput(message="hi")
    assert echo_tool(EchoToolInput(message="x")).message == "x"


def test_dispatch_validates_calls_and_returns_the_model(reg):
    assert reg.dispatch("inc", {"n": 1}) == Out(n=2)
    assert reg.dispatch("inc", {"n": "1"}) == Out(n=2)


async def test_adispatch_awaits_async_tools_and_dispatch_runs_them_too(reg):
    @reg.register("ainc", In)
    async def ainc(payload: In) -> Out:
        return Out(n=payload.n + 2)

    assert await reg.adispatch("ainc", {"n": 1}) == Out(n=3)
    assert await reg.adispatch("inc", {"n": 1}) == Out(n=2)
    assert reg.dispatch("ainc", {"n": 1}) == Out(n=3)


@pytest.mark.parametrize("raw", [{"n": "x"}, {"n": 1, "extra": 2}, {}, [], None, "n"])
def test_bad_input_is_pydantics_own_error(reg, raw):
    with pytest.raises(ValidationError):
        reg.dispatch("inc", raw)


def test_the_error_does_not_repeat_input_values(reg):
    class Open(BaseModel):
        key: int

    reg.register("open", Open)(lambda payload: payload)
    for name, raw in (("inc", {"n": "s3cret"}), ("open", {"key": "s3cret"}), ("inc", {"n": 1, "note": ["s3cret"]})):
        with pytest.raises(ValidationError) as caught:
            reg.dispatch(name, raw)
        assert "s3cret" not in str(caught.value)
        assert "s3cret" not in repr(caught.value.errors())
        assert caught.value.errors()[0]["loc"]


def test_an_unknown_name_is_a_key_error(reg):
    with pytest.raises(UnknownToolError) as caught:
        reg.dispatch("icn", {})
    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == "no tool is called 'icn'"


def test_a_second_registration_of_a_name_is_a_value_error(reg):
    with pytest.raises(ValueError, match="already registered"):
        reg.register("inc", In)(lambda payload: Out(n=0))
    assert reg.dispatch("inc", {"n": 1}) == Out(n=2)


def test_faults_inside_the_tool_are_never_mistaken_for_bad_input(reg):
    @reg.register("bad_model", In)
    def bad_model(payload: In) -> Out:
        return Out(n="not a number")

    @reg.register("bad_key", In)
    def bad_key(payload: In) -> Out:
        return {}["missing"]

    for name, cause in (("bad_model", ValidationError), ("bad_key", KeyError)):
        with pytest.raises(ToolFailed) as caught:
            reg.dispatch(name, {"n": 1})
        assert isinstance(caught.value.__cause__, cause)
        assert not isinstance(caught.value, KeyError)


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    "raised", [Broken("b"), RuntimeError("r"), InvalidArguments("a"), ToolFailed("f"), SystemExit(3)]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tools_own_exception_passes_unchanged_through_dispatch_and_adispatch(reg, raised, is_async):
    def fail(payload: In) -> Out:
        raise raised

    async def fail_later(payload: In) -> Out:
        raise raised

    reg.register("fail", In)(fail_later if is_async else fail)
    with pytest.raises(type(raised)) as caught:
        reg.dispatch("fail", {"n": 1})
    assert caught.value is raised and caught.value.__context__ is None
    with pytest.raises(type(raised)) as caught:
        asyncio.run(reg.adispatch("fail", {"n": 1}))
    assert caught.value is raised


def test_the_failure_of_a_nested_tool_call_passes_unchanged(reg):
    def fail() -> str:
        """Fail."""
        raise ValueError("inside")

    inner = ToolRegistry([function_tool(fail, namespace="n")])
    reg.register("outer", In)(lambda payload: inner.dispatch("n::fail"))
    with pytest.raises(ToolFailed, match="n::fail"):
        reg.dispatch("outer", {"n": 1})


def test_an_async_tool_whose_own_work_was_cancelled_does_not_cancel_its_caller(reg):
    async def give_up(payload: In) -> Out:
        raise asyncio.CancelledError

    reg.register("give_up", In)(give_up)
    with pytest.raises(ToolFailed):
        asyncio.run(reg.adispatch("give_up", {"n": 1}))


@pytest.mark.parametrize("value", [{"n": 1}, None, In(n=1)])
def test_a_wrong_output_type_is_invalid_output(reg, value):
    @reg.register("lies", In)
    def lies(payload: In) -> Out:
        return value

    with pytest.raises(InvalidOutput):
        reg.dispatch("lies", {"n": 1})


def test_an_unannotated_tool_must_still_return_a_model(reg):
    reg.register("dicty", In)(lambda payload: {"n": 1})
    with pytest.raises(InvalidOutput, match="returned dict"):
        reg.dispatch("dicty", {"n": 1})


def test_an_engine_answers_with_the_fields_of_an_unannotated_tools_model(reg):
    reg.register("bare", In)(lambda payload: Out(n=payload.n))
    with PythonToolEngine(ToolRegistry(reg.tools("t"))) as engine:
        engine.setup("s")
        (result,) = engine.execute("s", [ToolCall("t::bare", {"n": 1})])
    assert result.result == {"n": 1}


def test_names_are_sorted_and_checked(reg):
    reg.register("a", In)(lambda payload: Out(n=0))
    assert reg.names() == ["a", "inc"]
    for bad in ("", "a::b", "a\u200b"):
        with pytest.raises(InvalidNameError):
            reg.register(bad, In)


def test_the_decorated_function_is_returned_unchanged(reg):
    def f(payload: In) -> Out:
        return Out(n=0)

    assert reg.register("f", In)(f) is f


def test_state_is_bound_by_partial_or_closure(reg):
    def scaled(factor: int, payload: In) -> Out:
        return Out(n=payload.n * factor)

    reg.register("triple", In)(functools.partial(scaled, 3))
    assert reg.dispatch("triple", {"n": 2}) == Out(n=6)


def test_an_instance_that_was_changed_is_validated_again(reg):
    model = In(n=1)
    object.__setattr__(model, "n", "oops")
    with pytest.raises(ValidationError):
        reg.dispatch("inc", model)
    assert reg.dispatch("inc", In(n=4)) == Out(n=5)


def test_tools_carry_schema_and_description_for_a_prompt(reg):
    echo = global_registry.tools("core")[0]
    assert echo.qualified_name == "core::echo"
    assert echo.parameters["required"] == ["message"]
    assert echo.output_parameters["properties"]["message"]["type"] == "string"
    assert echo.description == "Return the message unchanged."


def test_32_threads_register_and_dispatch_at_once():
    reg = Registry()
    failures = []

    def work(worker):
        try:
            for index in range(20):
                name = f"t{worker}_{index}"
                reg.register(name, In)(lambda payload: Out(n=payload.n))
                assert reg.dispatch(name, {"n": 5}) == Out(n=5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(w,)) for w in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(reg) == 640


def test_a_valid_instance_is_accepted_whatever_its_aliases(reg):
    from pydantic import Field

    class Aliased(StrictModel):
        x: int = Field(validation_alias="vx", serialization_alias="sx")
        y: int = Field(default=1, exclude=True)

    reg.register("aliased", Aliased)(lambda payload: payload)
    assert reg.dispatch("aliased", Aliased(vx=1, y=5)).y == 5


def test_no_part_of_the_error_keeps_the_input(reg):
    with pytest.raises(ValidationError) as caught:
        reg.dispatch("inc", {"n": "s3cret"})
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_call_a_tool_makes_itself_is_not_mistaken_for_the_one_it_answers(reg):
    reg.register("nest", In)(lambda payload: reg.dispatch("nope", {}))
    with pytest.raises(ToolFailed):
        reg.dispatch("nest", {"n": 1})
