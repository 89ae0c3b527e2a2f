import copy
import dataclasses
import json
import pickle
import pprint
import sys

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from toolyard import PythonBinding, RESTToolLoader, Tool, ToolCall, ToolRegistry, ToolResult, function_tool
from toolyard.model.bases import Closing
from toolyard.model.errors import ErrorInfo


class Door(Closing):
    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


async def test_with_and_async_with_both_close_whatever_happens_inside():
    door = Door()
    with door as inside:
        assert inside is door
    async with door as inside:
        assert inside is door
    with pytest.raises(LookupError), door:
        raise LookupError
    assert door.closed == 3


def test_what_cannot_be_closed_cannot_be_made():
    with pytest.raises(TypeError, match="close"):
        type("Wall", (Closing,), {})()


TOOL = Tool("find", "shop", "Find.", {"type": "object"}, tags=["a"], binding=PythonBinding(len))
CALL = ToolCall("shop::find", {"what": ["tea"]}, "c1")
FAILED = ToolResult.failed(CALL, ErrorInfo("tool.denied", "no", details={"why": [1]}))
VALUES = [TOOL, CALL, FAILED, FAILED.error_info]
SPEC = {
    "openapi": "3.0.0",
    "info": {"title": "t", "version": "1"},
    "servers": [{"url": "https://shop.example"}],
    "paths": {"/items/{id}": {"get": {"operationId": "item", "parameters": [{"name": "id", "in": "path"}]}}},
}


def named(value):
    return type(value).__name__


@pytest.mark.parametrize("value", VALUES, ids=named)
def test_is_dataclass_asdict_fields_and_replace_work(value):
    assert dataclasses.is_dataclass(value) and dataclasses.is_dataclass(type(value))
    data = dataclasses.asdict(value)
    assert list(data) == [field.name for field in dataclasses.fields(value)]
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(value.to_dict() | data))
    assert type(value).__dataclass_params__.frozen
    same = dataclasses.replace(value)
    assert (same, type(same)) == (value, type(value))
    with pytest.raises(TypeError, match="nope"):
        dataclasses.replace(value, nope=1)


@pytest.mark.parametrize("value", VALUES, ids=named)
def test_they_stay_frozen_and_can_be_copied_pickled_and_shown(value):
    with pytest.raises(AttributeError):
        setattr(value, dataclasses.fields(value)[0].name, "x")
    assert copy.copy(value) == pickle.loads(pickle.dumps(value)) == value
    assert pprint.pformat(value, width=10_000) == repr(value)
    if sys.version_info >= (3, 13):
        assert copy.replace(value) == value


def test_the_fields_have_the_defaults_of_the_struct():
    found = {field.name: field for field in dataclasses.fields(Tool)}
    assert found["name"].default is dataclasses.MISSING and found["description"].default == ""
    assert found["parameters"].default_factory is dict
    assert [name for name, field in found.items() if not field.kw_only] == list(Tool.__match_args__)


def test_asdict_shares_nothing_and_opens_what_is_inside():
    data = dataclasses.asdict(FAILED)
    assert data["error_info"]["details"] == {"why": [1]}
    data["error_info"]["details"]["why"].append(2)
    assert FAILED.error_info.details == {"why": [1]}


def test_how_a_tool_is_reached_is_no_data_but_survives_replace():
    assert "binding" not in dataclasses.asdict(TOOL)
    changed = dataclasses.replace(TOOL, description="Look.", tags=["b"])
    assert (changed.binding, changed.description, changed.tags) == (TOOL.binding, "Look.", ("b",))
    other = PythonBinding(print)
    assert dataclasses.replace(TOOL, binding=other).binding is other


def test_copies_of_a_deferred_tool_are_whole_plain_tools(tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    (tool,) = ToolRegistry.from_loaders([RESTToolLoader(tmp_path / "spec.json")])
    assert dataclasses.asdict(tool) == dataclasses.asdict(tool.replace())
    changed = dataclasses.replace(tool, description="x", parameters={"type": "object"})
    assert (type(changed), changed.description, changed.parameters) == (Tool, "x", {"type": "object"})
    assert changed.binding == tool.binding and dataclasses.replace(tool) == tool


def test_pydantic_reads_and_writes_them():
    class Turn(BaseModel):
        call: ToolCall
        result: ToolResult | None = None

    turn = Turn(call={"name": "shop::find"}, result=FAILED)
    assert turn.call == ToolCall("shop::find") and turn.result is FAILED
    assert Turn.model_validate_json(turn.model_dump_json()) == turn
    for wrong in ({"arguments": {}}, {"name": 3}, 5):
        with pytest.raises(ValidationError):
            TypeAdapter(ToolCall).validate_python(wrong)


def test_a_function_that_takes_one_is_a_tool():
    def echo(call: ToolCall) -> ToolResult:
        """Echo."""
        return ToolResult(call.call_id, call.name, call.arguments)

    tool = function_tool(echo, namespace="n")
    answer = ToolRegistry([tool]).dispatch("n::echo", {"call": {"name": "a::b", "arguments": {"x": 1}}})
    assert answer == ToolResult(None, "a::b", {"x": 1})
