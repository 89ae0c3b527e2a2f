"""The promises of seed 002 (typed dispatch), with only the import path changed."""

import functools

import pytest
from pydantic import ValidationError

import toolyard.tools.echo
import toolyard.typed
from toolyard.typed import EchoToolInput, EchoToolOutput, Registry, StrictModel, UnknownToolError, echo_tool, registry


class AddInput(StrictModel):
    a: int
    b: int


class AddOutput(StrictModel):
    total: int


def test_register_is_a_decorator_factory_and_dispatch_validates_then_calls():
    mine = Registry()

    @mine.register("add", AddInput)
    def add(payload: AddInput) -> AddOutput:
        return AddOutput(total=payload.a + payload.b)

    assert mine.dispatch("add", {"a": 1, "b": 2}) == AddOutput(total=3)
    assert mine.names() == ["add"]
    with pytest.raises(ValueError, match="add"):
        mine.register("add", AddInput)(add)


@pytest.mark.parametrize("raw", [{"message": 5}, {"message": "x", "unknown": 1}])
def test_pydantic_errors_propagate_on_wrong_types_and_unknown_keys(raw):
    with pytest.raises(ValidationError):
        registry.dispatch("echo", raw)


def test_unknown_tool_error_is_a_key_error():
    assert issubclass(UnknownToolError, KeyError)
    with pytest.raises(UnknownToolError):
        registry.dispatch("nope", {})


def test_echo_ships_registered_and_is_reachable_everywhere_the_contract_says():
    assert registry.dispatch("echo", {"message": "hello"}) == EchoToolOutput(message="hello")
    assert toolyard.tools.echo.echo_tool is echo_tool
    assert toolyard.typed.registry is registry
    assert echo_tool(EchoToolInput(message="m")) == EchoToolOutput(message="m")


def test_private_instances_do_not_contaminate_the_global_one():
    Registry().register("private", AddInput)(lambda payload: AddOutput(total=0))
    assert "private" not in registry.names()


def test_state_is_injected_by_partial():
    mine = Registry()

    def lookup(table: dict, payload: AddInput) -> AddOutput:
        return AddOutput(total=table[payload.a])

    mine.register("lookup", AddInput)(functools.partial(lookup, {1: 10}))
    assert mine.dispatch("lookup", {"a": 1, "b": 0}).total == 10
