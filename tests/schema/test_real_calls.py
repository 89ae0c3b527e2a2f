"""Real calls against real definitions: accepted exactly where the odd types, once normalised, accept them."""

import json

import pytest

from conftest import material
from toolyard import Tool, ToolCall, ToolRegistry
from toolyard.schema.admission import admit_schema
from toolyard.schema.compile import compile_schema


def calls():
    return [json.loads(line) for path in material("calls/*.jsonl") for line in path.read_text().splitlines()]


def test_every_real_call_is_judged_as_marked():
    different = []
    for call in calls():
        admitted = admit_schema(call["tool"]["parameters"])
        compiled = admitted.compiled or compile_schema(admitted.schema or {"type": "object"})
        if compiled.is_valid(call["arguments"]) is not call["normalised_accepts"]:
            different.append(call["id"])
    assert different == []


@pytest.mark.parametrize("accepted", [True, False])
def test_the_registry_binds_what_is_accepted_without_touching_it(accepted):
    for call in [c for c in calls() if c["normalised_accepts"] is accepted]:
        registry = ToolRegistry([Tool(call["tool"]["name"], "ns", "", call["tool"]["parameters"])])
        name = f"ns::{call['tool']['name']}"
        if accepted:
            bound = registry.bind(ToolCall(name, call["arguments"]), coerce=False)
            assert call["arguments"].items() <= bound.arguments.items()
        else:
            assert registry.snapshot.names[name][0].compiled.violations(call["arguments"])
