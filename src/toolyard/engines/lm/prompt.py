"""The conversation in which a model plays a tool: an instruction, what was called before, and the call.

system     the instruction
user       specification and call      for each entry of the session's history,
assistant  result, or error            whichever engine answered it
user       specification and call
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.engines.lm.response import FAILURE, Bounds, response_format
from toolyard.links.lm.shapes import Message, likely_tokens
from toolyard.model.call import ToolCall
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.subschemas import declared_properties

INSTRUCTION = """\
You play the tools of a software system. Each message gives you the specification of a tool and one call of it, both \
as JSON. Answer with what the tool returns for that call: one JSON object, and nothing else.
Let the call succeed, with a realistic result in full. If the specification has output_parameters, a JSON Schema, the \
result conforms to it; a result that is not an object goes into {"result": ...}.
Stay true to the arguments of the call, and to all that was answered before in this conversation: what was created \
exists, what was changed stays changed, what was deleted is gone."""

REPAIR = """\
That answer cannot be used: {problem}.
Answer the same call again, with the whole corrected JSON and nothing else."""

_MAX_SHEETS = 8192
_encode = msgspec.json.encode


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Output(msgspec.Struct):
    name: str
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class _Entry(msgspec.Struct):
    tool_call: _Call
    tool_output: _Output


_read_entry = msgspec.json.Decoder(_Entry).decode


class Sheet:
    """What is said about a tool in every prompt, written once."""

    __slots__ = ("declared", "head", "output", "response_format", "tool")

    def __init__(self, tool: Tool, form: dict[str, Any] | None) -> None:
        self.tool = tool
        self.head = f"Tool specification:\n{_describe_tool(tool)}\n\n{_call_head(tool.qualified_name)}"
        self.response_format = form
        schema = tool.output_parameters
        self.output: CompiledSchema | None = compile_schema(schema) if schema else None
        self.declared: frozenset[str] = declared_properties(schema) if schema else frozenset()


class Built(msgspec.Struct, frozen=True):
    """A prompt, and how much of the history is in it."""

    sheet: Sheet
    messages: tuple[Message, ...]
    told: int
    dropped: int


class Prompts:
    """Builds prompts. `max_tokens` is what the history may take, None for no limit; its eldest entries go first."""

    def __init__(
        self,
        instruction: str | None = None,
        max_tokens: int | None = None,
        bounds: Bounds | None = None,
        most: str = "json_schema",
        strict: bool = False,
    ) -> None:
        self._system = Message("system", INSTRUCTION if instruction is None else instruction)
        self._max_tokens = max_tokens
        self._form = (bounds or Bounds(400, 16), most, strict)
        self._sheets: dict[int, Sheet] = {}

    def build(self, registry: ToolRegistry, invocation: Invocation) -> Built:
        """The conversation up to this call."""
        sheet = self.sheet(invocation.tool)
        entries = list(invocation.session.history)
        pairs = self._history_messages(registry, entries)
        call = Message("user", f"{sheet.head}{_encode(invocation.arguments).decode()}}}")
        return Built(sheet, (self._system, *pairs, call), len(pairs) // 2, len(entries) - len(pairs) // 2)

    def sheet(self, tool: Tool) -> Sheet:
        """The tool's own."""
        known = self._sheets.get(id(tool))
        if known is None:
            if len(self._sheets) >= _MAX_SHEETS:
                self._sheets.clear()
            # It keeps the tool, so that its id is not given to another.
            known = self._sheets[id(tool)] = Sheet(tool, response_format(tool, *self._form))
        return known

    def _history_messages(self, registry: ToolRegistry, entries: Sequence[bytes]) -> list[Message]:
        """A pair of messages for each entry that fits, from the last backwards."""
        heads: dict[str, str | None] = {}
        pairs: list[Message] = []
        left = self._max_tokens
        for text in reversed(entries):
            entry = _read_entry(text)
            name = entry.tool_output.name
            if name not in heads:
                heads[name] = self._tool_head(registry, name)
            head = heads[name]
            arguments = bytes(entry.tool_call.arguments)
            call = f"{self._find_overload(registry, name, arguments) if head is None else head}{arguments.decode()}}}"
            said = _answer_text(entry.tool_output)
            if left is not None:
                left -= likely_tokens(call) + likely_tokens(said)
                if left < 0:
                    break
            pairs += (Message("assistant", said), Message("user", call))
        pairs.reverse()
        return pairs

    def _tool_head(self, registry: ToolRegistry, name: str) -> str | None:
        """What stands before the arguments of a call; None if that depends on them."""
        tools = registry.get(name)
        if not tools:
            return _call_head(name)
        return self.sheet(tools[0]).head if len(tools) == 1 else None

    def _find_overload(self, registry: ToolRegistry, name: str, arguments: bytes) -> str:
        given = msgspec.json.decode(arguments)
        tool = registry.match(ToolCall(name, given)) if isinstance(given, dict) else None
        return _call_head(name) if tool is None else self.sheet(tool).head


def _call_head(name: str) -> str:
    return f'Tool call:\n{{"name":{_encode(name).decode()},"arguments":'


def _answer_text(output: _Output) -> str:
    if output.error is not None:
        return _encode({FAILURE: output.error}).decode()
    return bytes(output.result).decode()


def _describe_tool(tool: Tool) -> str:
    told: dict[str, Any] = {"name": tool.qualified_name, "description": tool.description, "parameters": tool.parameters}
    if tool.output_parameters:
        told["output_parameters"] = tool.output_parameters
    return _encode(told).decode()
