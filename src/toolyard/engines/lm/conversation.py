"""The conversation in which a model simulates a tool: an instruction, the earlier calls, and the call.

`Prompts` builds it, and `read_result` turns the model's answer into the result of the call.

    system     the instruction
    user       specification and call      for each entry of the session's history,
    assistant  result, or error            whichever engine answered it
    user       specification and call
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.links.lm.shapes import Message, find_json, likely_tokens, strip_thought
from toolyard.model.call import ToolCall
from toolyard.model.errors import MalformedSource, ToolFailed
from toolyard.model.json_schema import IN_PLACE, json_type
from toolyard.model.tool import Schema, Tool
from toolyard.registry import ToolRegistry
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.subschemas import REFERENCES, declared_properties, map_children
from toolyard.schema.violations import Violation, describe
from toolyard.sessions.history import read_entry

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

_encode = msgspec.json.encode
_MAX_FORMATS = 8192


class Prompt(msgspec.Struct, frozen=True):
    """A prompt, how much of the history it contains, and the format of the answer."""

    messages: tuple[Message, ...]
    told: int
    dropped: int
    response_format: Schema | None
    output: CompiledSchema | None
    declared: frozenset[str]


AnswerFormat: TypeAlias = tuple[Schema | None, CompiledSchema | None, frozenset[str]]
"""The response format, the schema of an answer, and the properties that it declares."""


class Prompts:
    """Builds prompts. `max_tokens` limits the history, None for no limit; the oldest entries are dropped first."""

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
        self._formats: dict[int, tuple[Tool, AnswerFormat]] = {}

    def build(self, registry: ToolRegistry, invocation: Invocation) -> Prompt:
        """The conversation up to this call."""
        tool = invocation.tool
        entries = list(invocation.session.history)
        pairs = self._history_messages(registry, entries)
        call = Message("user", f"{_tool_head(tool)}{_encode(invocation.arguments).decode()}}}")
        return Prompt(
            (self._system, *pairs, call),
            len(pairs) // 2,
            len(entries) - len(pairs) // 2,
            *self._answer_format(tool),
        )

    def _answer_format(self, tool: Tool) -> AnswerFormat:
        """The format of the tool's answers; cached, since compiling a large schema each time would block the loop."""
        known = self._formats.get(id(tool))
        if known is None or known[0] is not tool:
            if len(self._formats) >= _MAX_FORMATS:
                self._formats.clear()
            schema = tool.output_parameters
            output = compile_schema(schema) if schema else None
            declared = declared_properties(schema) if schema else frozenset[str]()
            known = self._formats[id(tool)] = tool, (response_format(tool, *self._form), output, declared)
        return known[1]

    def _history_messages(self, registry: ToolRegistry, entries: Sequence[bytes]) -> list[Message]:
        """Pairs of messages for the newest entries that fit the token limit, oldest first."""
        heads: dict[str, str | None] = {}
        pairs: list[Message] = []
        left = self._max_tokens
        for text in reversed(entries):
            entry = read_entry(text)
            name, arguments, output = entry.tool_output.name, entry.tool_call.arguments, entry.tool_output
            if name not in heads:
                tools = registry.get(name)
                # With several overloads, the specification depends on the arguments.
                heads[name] = None if len(tools) > 1 else _tool_head(tools[0]) if tools else _call_head(name)
            head = heads[name]
            if head is None:
                tool = registry.match(ToolCall(name, arguments))
                head = _call_head(name) if tool is None else _tool_head(tool)
            call = f"{head}{_encode(arguments).decode()}}}"
            said = _encode(output.result if output.error is None else {FAILURE: output.error}).decode()
            if left is not None:
                left -= likely_tokens(call) + likely_tokens(said)
                if left < 0:
                    break
            pairs += (Message("assistant", said), Message("user", call))
        pairs.reverse()
        return pairs


def _call_head(name: str) -> str:
    return f'Tool call:\n{{"name":{_encode(name).decode()},"arguments":'


def _tool_head(tool: Tool) -> str:
    told: dict[str, Any] = {"name": tool.qualified_name, "description": tool.description, "parameters": tool.parameters}
    if tool.output_parameters:
        told["output_parameters"] = tool.output_parameters
    return f"Tool specification:\n{_encode(told).decode()}\n\n{_call_head(tool.qualified_name)}"


ENVELOPE = "result"
FAILURE = "error"
"""The only key of an answer that reports a failure; prompts show earlier failures in the same form."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_LENGTH = 64
_WITHOUT_BOUNDS = frozenset({"not", "if", "allOf"})
"""Keywords under which no limits are added: in the first two they would widen the schema, in the last contradict it."""
_SELF_BOUNDED = frozenset({"enum", "const", "pattern", *IN_PLACE})


class Bounds(NamedTuple):
    """Maximum length of texts and lists for which the schema sets no limit.

    Without limits, a small model may continue until its output is cut off, leaving incomplete JSON.
    """

    length: int
    items: int


def response_format(tool: Tool, bounds: Bounds, most: str = "json_schema", strict: bool = False) -> Schema | None:
    """The tool's schema if it has one, else any object. `most` is the strictest format that the server supports."""
    if most == "text":
        return None
    if not tool.output_parameters or most != "json_schema":
        return {"type": "json_object"}
    name = _NOT_IN_NAMES.sub("_", tool.name)[:_MAX_NAME_LENGTH] or ENVELOPE
    described: Schema = {"name": name, "schema": answer_schema(tool.output_parameters, bounds)}
    return {"type": "json_schema", "json_schema": {**described, "strict": True} if strict else described}


def answer_schema(schema: Schema, bounds: Bounds) -> Schema:
    """The schema with limits added; wrapped in an envelope unless it describes an object."""
    if is_object(schema):
        plain: Schema = _bound_schema(schema, bounds, "#", True)
        return plain if "type" in plain else {"type": "object", **plain}
    # The schema moves into `$defs`, so its references to the root must be rewritten.
    inner = _bound_schema(schema, bounds, f"#/$defs/{ENVELOPE}", True)
    inner.pop("$schema", None)
    return {
        "type": "object",
        "properties": {ENVELOPE: {"$ref": f"#/$defs/{ENVELOPE}"}},
        "required": [ENVELOPE],
        "additionalProperties": False,
        "$defs": {ENVELOPE: inner},
    }


def is_object(schema: Schema) -> bool:
    """True if the root of the schema allows only objects."""
    kind = schema.get("type")
    return kind == "object" or kind == ["object"] or (kind is None and "properties" in schema)


def _bound_schema(node: Schema, bounds: Bounds, root: str, bounding: bool) -> Schema:
    def bound_inside(sub: Schema) -> Schema:
        return _bound_schema(sub, bounds, root, bounding)

    def keep_inside(sub: Schema) -> Schema:
        return _bound_schema(sub, bounds, root, False)

    out: Schema = {}
    for key, value in node.items():
        out |= map_children({key: value}, keep_inside if key in _WITHOUT_BOUNDS else bound_inside)
        if key in REFERENCES and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            out[key] = root + value[1:]
    if bounding and _SELF_BOUNDED.isdisjoint(node):
        _bound_node(out, bounds)
    return out


def _bound_node(node: Schema, bounds: Bounds) -> None:
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds and "maxLength" not in node:
        node["maxLength"] = max(bounds.length, _read_minimum(node.get("minLength")))
    if "array" in kinds and "maxItems" not in node:
        known = node.get("prefixItems")
        node["maxItems"] = max(
            bounds.items, _read_minimum(node.get("minItems")), len(known) if isinstance(known, list) else 0
        )


def _read_minimum(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


class UnusableAnswer(ValueError):
    """The text is not a valid result; the message says why in terms the model can act on."""

    def __init__(self, problem: str, violations: list[Violation] | None = None) -> None:
        super().__init__(problem)
        self.violations = violations or []


def read_result(text: str, output: CompiledSchema | None, declared: frozenset[str], cut: bool = False) -> Any:
    """The value in the model's answer; raises `UnusableAnswer` if there is none, or none that the schema allows.

    Without a schema it must be an object. With one, an envelope that the schema does not declare is removed. An answer
    in the form of a failure raises `ToolFailed`, unless the schema declares a property of that name.
    """
    try:
        value = find_json(text)
    except MalformedSource as error:
        if not strip_thought(text):
            raise UnusableAnswer("it is empty") from None
        problem = "it was cut off before its end; make it shorter" if cut else f"it is not JSON: {error}"
        raise UnusableAnswer(problem) from None
    failure = value[FAILURE] if isinstance(value, dict) and value.keys() == {FAILURE} else None
    if isinstance(failure, str) and failure.strip() and FAILURE not in declared:
        raise ToolFailed(failure, effect="none")
    if output is None:
        if not isinstance(value, dict):
            raise UnusableAnswer(f"it must be a JSON object, not {json_type(value)}")
        return value
    if isinstance(value, dict) and value.keys() == {ENVELOPE} and ENVELOPE not in declared:
        inner = value[ENVELOPE]
        if output.is_valid(inner):
            return inner
    violations = output.violations(value)
    if violations:
        raise UnusableAnswer(f"it does not fit output_parameters: {describe(violations)}", violations)
    return value
