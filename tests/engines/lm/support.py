"""Shared by the tests of the lm engine."""

import json

from toolyard.engines.lm import INSTRUCTION, LMToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry

WEATHER = Tool(
    "get_weather",
    "w",
    "Weather now.",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
    {
        "type": "object",
        "properties": {"temp": {"type": "number"}, "notes": {"type": "array", "items": {"type": "string"}}},
        "required": ["temp", "notes"],
        "additionalProperties": False,
    },
)
FREE = Tool("note", "w", "Keeps a note.", {"type": "object", "properties": {"text": {"type": "string"}}})
LISTED = Tool("names", "w", "Names.", {"type": "object"}, {"type": "array", "items": {"type": "string"}})
GOOD = '{"temp": 21.5, "notes": []}'


def call(name, /, **arguments):
    return ToolCall(f"w::{name}", arguments)


def engine_of(server, *tools, kind="openai", config=(), **options):
    block = {"type": kind, "model_id_or_path": "small", "base_url": server.url, **dict(config)}
    registry = ToolRegistry(list(tools) or [WEATHER, FREE, LISTED])
    return LMToolEngine(registry, lm_config=block, **options)


def user(tool, **arguments):
    """The message with a call, as the engine should write it."""
    told = {"name": tool.qualified_name, "description": tool.description, "parameters": tool.parameters}
    if tool.output_parameters:
        told["output_parameters"] = tool.output_parameters
    made = {"name": tool.qualified_name, "arguments": arguments}
    return ("user", f"Tool specification:\n{text(told)}\n\nTool call:\n{text(made)}")


def text(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


SYSTEM = ("system", INSTRUCTION)
