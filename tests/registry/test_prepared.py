from toolyard import RestBinding, Tool, ToolCall, ToolRegistry
from toolyard.registry.prepared import PreparedTool

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "object", "properties": {"c": {}}},
        "d": {},
        "e": {"type": "array", "default": [{"x": 1}]},
    },
}


def candidate(schema=SCHEMA):
    made = PreparedTool(Tool("t", "ns", "", schema))
    made.accepts({})
    return made


def test_the_validator_is_compiled_when_first_needed_and_once():
    made = PreparedTool(Tool("t", "ns", "", SCHEMA))
    assert made.known_compiled is None
    made.accepts({})
    compiled = made.compiled
    made.accepts({"a": "x"})
    assert made.compiled is compiled
    assert not made.accepts({"a": 1})


def test_defaults_are_copied_and_only_fill_gaps():
    made = candidate()
    given_ = {"e": []}
    assert made.with_defaults(given_) is given_
    filled = made.with_defaults({})
    filled["e"][0]["x"] = 2
    assert made.with_defaults({}) == {"e": [{"x": 1}]}


def test_defaults_of_an_http_operation_are_the_servers_matter():
    schema = {"type": "object", "properties": {"private": {"type": "boolean", "default": False}}}
    local, remote = (
        Tool("a", "x", "", schema),
        Tool("b", "x", "", schema, binding=RestBinding("PATCH", "/", "http://h")),
    )
    registry = ToolRegistry([local, remote])
    assert registry.bind(ToolCall("x::a")).arguments == {"private": False}
    assert registry.bind(ToolCall("x::b")).arguments == {}
