"""Schemas that are handed out are ordinary dicts, and no change to them changes how a call is judged."""

import copy
import json

import pytest

from toolyard import PythonToolEngine, RESTToolLoader, Tool, ToolCall, ToolLoader, ToolRegistry
from toolyard.model.bindings import PythonBinding

AMOUNT = {"type": "integer", "maximum": 10}
PLAIN = {"type": "object", "properties": {"amount": AMOUNT}, "required": ["amount"]}
WITH_REFERENCE = {
    "type": "object",
    "properties": {"amount": {"$ref": "#/$defs/amount"}},
    "required": ["amount"],
    "$defs": {"amount": AMOUNT},
}
ENTRY = {"name": "pay", "description": "", "parameters": PLAIN, "output_parameters": PLAIN}


def empty_all(value):
    """What a host, a plugin or an enrichment can do to a dict that it was given."""
    for inner in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        empty_all(inner)
    if isinstance(value, (dict, list)):
        value.clear()


def from_code(tmp_path, schema):
    return ToolRegistry([Tool("pay", "bank", parameters=schema, output_parameters=schema)])


def from_dicts(tmp_path, schema):
    return ToolRegistry.from_dicts([{**ENTRY, "parameters": schema}], namespace="bank")


def from_file(tmp_path, schema):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{**ENTRY, "parameters": schema}]))
    return ToolRegistry.from_file(path, "bank")


class Mine(ToolLoader):
    def __init__(self, schema):
        self.tools = [Tool("pay", "bank", parameters=schema)]

    def load(self):
        return self.tools


def from_a_loader_of_somebody(tmp_path, schema):
    return ToolRegistry.from_loaders([Mine(schema)])


def enriched(tmp_path, schema):
    class Describe:
        reads, writes = (), ("tool.description",)

        def enrich(self, snapshot):
            return [tool.replace(description="Pays.") for tool in snapshot.tools], {}

    return ToolRegistry([Tool("pay", "bank", parameters=schema)], enrichments=[Describe()])


@pytest.mark.parametrize("schema", [PLAIN, WITH_REFERENCE], ids=["plain", "with a reference"])
@pytest.mark.parametrize("make", [from_code, from_dicts, from_file, from_a_loader_of_somebody, enriched])
def test_calls_are_validated_by_the_schema_as_registered(tmp_path, make, schema):
    mine = copy.deepcopy(schema)
    registry = make(tmp_path, mine)
    empty_all(mine)
    [tool] = registry.all_tools()
    assert type(tool.parameters) is dict
    empty_all(tool.parameters)
    assert registry.match(ToolCall("bank::pay", {"amount": 10**6})) is None
    assert registry.match(ToolCall("bank::pay", {})) is None
    assert registry.match(ToolCall("bank::pay", {"amount": 10})) is tool


def test_operations_that_share_a_component_are_judged_by_the_document(tmp_path):
    body = {"type": "object", "properties": {"money": {"$ref": "#/components/schemas/Money"}, "amount": AMOUNT}}
    operation = {
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "ok"}},
    }
    path = tmp_path / "api.json"
    path.write_text(
        json.dumps(
            {
                "openapi": "3.0.0",
                "info": {"title": "t", "version": "1"},
                "components": {"schemas": {"Money": PLAIN}},
                "paths": {f"/{name}": {"post": {"operationId": name, **operation}} for name in ("pay", "lend")},
            }
        )
    )
    registry = ToolRegistry.from_loaders([RESTToolLoader(path, namespace="bank")])
    shown = registry.get("bank::pay")[0].parameters
    assert shown["$defs"]["Money"] is registry.get("bank::lend")[0].parameters["$defs"]["Money"]
    empty_all(shown)
    for name in ("bank::pay", "bank::lend"):
        assert registry.match(ToolCall(name, {"amount": 11})) is None
        assert registry.match(ToolCall(name, {"money": {"amount": 11}})) is None
        assert registry.match(ToolCall(name, {"money": {"amount": 10}})) is not None


def test_an_answer_is_held_to_the_output_schema_that_was_registered():
    binding = PythonBinding(lambda: {"amount": 11})
    registry = ToolRegistry([Tool("pay", "bank", output_parameters=copy.deepcopy(PLAIN), binding=binding)])
    empty_all(registry.get("bank::pay")[0].output_parameters)
    engine = PythonToolEngine(registry, output_check="strict")
    engine.setup("s")
    [result] = engine.execute("s", [ToolCall("bank::pay")])
    assert result.error_info.code == "tool.invalid_output"


def test_registering_a_changed_schema_again_changes_validation():
    registry = ToolRegistry([Tool("pay", "bank", parameters=copy.deepcopy(PLAIN))])
    registry.remove("bank::pay")
    registry.add(Tool("pay", "bank"))
    assert registry.match(ToolCall("bank::pay", {"amount": 11})) is not None
