"""The Model Context Protocol: entries of `tools/list`, and reading a `CallToolResult`.

MCP requires objects as structured content and output schemas, so servers wrap other values as `{"result": ...}`. The
wrapper is removed from a tool's schema when it is listed and from the value of each result.
"""

from __future__ import annotations

import re
from typing import Any

from toolyard.dialects.base import Dialect
from toolyard.dialects.input_schema import object_typed
from toolyard.dialects.payload import ChangeLog, Json, read_content, read_error, read_value
from toolyard.model import Effects, Schema, Tool
from toolyard.model.call import Block, Content
from toolyard.model.errors import CallError, Effect, InvalidOutput, ToolFailed
from toolyard.model.json_schema import json_type
from toolyard.model.tool import promises_output
from toolyard.schema.admission import check_budget
from toolyard.schema.fold import fold_schema
from toolyard.schema.subschemas import References, iter_schemas, map_children, map_references, types_of

CALL_ID = "toolyard/call_id"
"""The `_meta` key of a call's id, for which params and results have no field."""
QUALIFIED_NAME = "toolyard/qualified_name"
"""The `_meta` key of a tool's qualified name in the server's registry."""

_OPTIONAL_FIELDS = {"title": str, "icons": list, "annotations": dict}


class McpDialect(Dialect):
    """MCP: `inputSchema`, `outputSchema`. Schemas are passed on in full, as MCP allows all keywords."""

    name = "mcp"

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        out: Json = {
            "name": wire_name,
            "description": tool.description,
            "inputSchema": _write_properties(object_typed(tool.parameters, log)),
        }
        given = tool.metadata
        out |= {key: given[key] for key, kind in _OPTIONAL_FIELDS.items() if isinstance(given.get(key), kind)}
        if promises_output(tool):
            out["outputSchema"] = _write_output(tool.output_parameters, log)
        passed_on = {key: value for key, value in out.pop("annotations", {}).items() if key != "readOnlyHint"}
        annotations = {**_effect_annotations(tool.effects), **passed_on}
        return {**out, "annotations": annotations} if annotations else out


def wraps(tool: Tool) -> bool:
    """Whether results of the tool are always wrapped as `{"result": ...}`, even when the value is an object."""
    return promises_output(tool) and is_wrapped(tool.output_parameters)


_PORTABLE = re.compile(
    r"""(?x: [\^$|] | \\[bB] | \((?: \?[:=!] | (?!\?))
    | (?: [^\\{}()\[\]^$|*+?] | \\[dDwWsS^$\\.*+?()\[\]{}|/nrtfv] | \)
        | \[\^?(?: [^\\\[\]-] | -(?!\\[dDwWsS]) | \\[dDwWsS](?!-[^\]]) | \\[\^$\\.*+?()\[\]{}|/nrtfv-] )*\] )
      (?: (?: [*+?] | \{\d+(?:,\d*)?\} ) \?? )? )*"""
)
"""Patterns that JavaScript accepts in strict mode, where `\\-` outside of brackets, `(?i)` and `a++` are not."""
_NARROWED = ("not", "if", "oneOf", "contains")
"""Keywords that may allow less if their schemas allow more."""


def _is_portable(part: Schema) -> bool:
    patterns = [part.get("pattern"), *(part.get("patternProperties") or ())]
    return all(not isinstance(pattern, str) or _PORTABLE.fullmatch(pattern) for pattern in patterns)


def _drop_patterns(schema: Schema, log: ChangeLog) -> Schema:
    """Leave out patterns that are not portable: one that a client cannot compile makes it reject the whole list."""
    if all(map(_is_portable, iter_schemas(schema))):
        return schema

    def convert(part: Schema) -> Schema:
        out = map_children(part, convert)
        dropped = {"unevaluatedProperties", *(key for key in _NARROWED if out.get(key) != part.get(key))}
        if not _is_portable(part):
            dropped |= {"pattern", "patternProperties", "additionalProperties"}
        return {key: value for key, value in out.items() if key not in dropped}

    log.add((), "patterns left out of the output schema: some clients cannot compile them")
    return convert(schema)


def _write_output(schema: Schema, log: ChangeLog) -> Schema:
    schema = _drop_patterns(schema, log)
    if is_object(schema):
        return _write_properties({**schema, "type": "object"})
    log.add((), 'output schema wrapped as {"result": ...}: MCP wants an object there')
    inner = _move_references(schema, "#", _INSIDE)
    return {"type": "object", "properties": {_KEY: inner}, "required": [_KEY]}


def _write_properties(schema: Schema) -> Schema:
    """Replace boolean property schemas by objects: one boolean makes some clients reject the whole list."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or bool not in map(type, properties.values()):
        return schema
    written = {name: ({} if sub else {"not": {}}) if isinstance(sub, bool) else sub for name, sub in properties.items()}
    return {**schema, "properties": written}


def is_object(schema: Schema) -> bool:
    """Whether the schema allows only objects."""
    flat, _ = fold_schema(schema, References(schema), lambda _change: None)
    names = types_of(flat.get("type"))
    return names == ["object"] or (not names and "properties" in flat)


def _move_references(schema: Schema, before: str, after: str) -> Schema:
    """Rewrite references below the pointer `before` to the same place below `after`."""

    def move(ref: str) -> str:
        is_below = ref == before or ref.startswith(f"{before}/")
        return after + ref.removeprefix(before) if is_below else ref

    return map_references(schema, move)


def _effect_annotations(effects: Effects) -> Json:
    if effects is Effects.READ:
        return {"readOnlyHint": True}
    return {"readOnlyHint": False, "destructiveHint": True} if effects is Effects.WRITE else {}


_KEY = "result"
_INSIDE = f"#/properties/{_KEY}"
_MARK = "x-fastmcp-wrap-result"
_AROUND = frozenset({"type", "properties", "required", "title", "description", "$schema", "$defs", _MARK})


def plain_output(schema: Schema) -> Schema | None:
    """The schema inside the wrapper; None if there is no wrapper, or its content is an object and needs none."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or properties.keys() != {_KEY} or not isinstance(properties[_KEY], dict):
        return None
    if schema.get("type") != "object" or schema.get("required") != [_KEY] or not schema.keys() <= _AROUND:
        return None
    inner = _move_references(properties[_KEY], _INSIDE, "#")
    if "$defs" in schema:
        if "$defs" in inner:
            return None
        inner["$defs"] = schema["$defs"]
    check_budget(inner)  # before its references are followed
    return None if not inner or is_object(inner) else inner


def is_wrapped(output_schema: Schema) -> bool:
    """Whether values of a tool with that output schema are wrapped."""
    return bool(output_schema) and not is_object(output_schema)


def plain_value(structured: Any, content: Any, output_schema: Schema) -> Any:
    """Structured content without the wrapper.

    Without a schema, it counts as wrapped if the text content equals the value inside.
    """
    if not isinstance(structured, dict) or structured.keys() != {_KEY}:
        return structured
    if output_schema:
        return structured[_KEY] if is_wrapped(output_schema) else structured
    is_blocks = isinstance(content, list) and all(isinstance(block, dict) for block in content)
    return structured[_KEY] if is_blocks and read_content(content) == structured[_KEY] else structured


_COMPLETE = "complete"
_ANSWER_VALUES = frozenset({"content", "structuredContent"})
_ANSWER_NOTES = frozenset({"isError", "resultType", "_meta", "ttlMs", "cacheScope"})
_BLOCK_KINDS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
"""The required fields of the standard content blocks, all of them strings."""


def read_answer(
    answer: Any,
    server: str,
    output_schema: Schema,
    *,
    json_text: bool = False,
    effect: Effect = "unknown",
) -> Any:
    """Return the value of a `CallToolResult`, or `Content` if it holds more; raise the error it reports.

    `effect` is what the tool may have done if it failed or its result cannot be read.
    """
    try:
        return _read_content(answer, server, output_schema, json_text, effect)
    except _UnreadableError as error:
        raise InvalidOutput(f"the answer of {server} cannot be read: it holds {error}", effect=effect) from None


class _UnreadableError(Exception):
    """The result violates the protocol; the message says what it holds."""


def _read_content(answer: Any, server: str, output_schema: Schema, json_text: bool, effect: Effect) -> Any:
    if not isinstance(answer, dict):
        raise _UnreadableError(f"{json_type(answer)}, not an object")
    kind = answer.get("resultType", _COMPLETE)
    if kind != _COMPLETE:
        raise ToolFailed(
            f"{server} asks the caller for more input before it answers ({str(kind)[:80]!r})",
            hint="give the engine a handler for what it asks: sampling, elicitation or roots",
            effect=effect,
        )
    blocks = _list_blocks(answer.get("content"))
    structured = answer.get("structuredContent")
    if answer.keys().isdisjoint(_ANSWER_VALUES) and (said := {k: answer[k] for k in answer if k not in _ANSWER_NOTES}):
        # Servers of the first protocol version, and some others, return the bare value.
        structured = said.get("toolResult", said)
    if answer.get("isError") is True:
        raise _read_failure(blocks, structured, server, effect)
    # Some servers send null for absent structured content, so it is a value only if there is an output schema.
    if structured is None and not (output_schema and "structuredContent" in answer):
        return _value_of_text(blocks, json_text)
    value = plain_value(structured, blocks, output_schema)
    if len(blocks) == 1 and _is_plain(blocks):
        said = read_content(blocks)
        # The text repeats the value, and says nothing else.
        if any(type(said) is type(one) and said == one for one in (value, structured)):
            return value
    return Content(blocks, value) if blocks else value


def _value_of_text(blocks: list[Block], json_text: bool) -> Any:
    if not blocks:
        return None
    if not _is_plain(blocks):
        return Content(blocks)
    if not json_text:
        return blocks[0]["text"] if len(blocks) == 1 else Content(blocks)
    text = "\n".join(block["text"] for block in blocks)
    value = read_value(text)
    return value if len(blocks) == 1 or value != text else Content(blocks)


def _is_plain(blocks: list[Block]) -> bool:
    """Whether all blocks are text without further fields."""
    return all(block.keys() == {"type", "text"} and block["type"] == "text" for block in blocks)


def _read_failure(blocks: list[Block], structured: Any, server: str, effect: Effect) -> CallError:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    text = "\n".join(texts)
    for said in (structured, read_value(text)):
        error = read_error(said)
        if error is not None:
            return error
    details: dict[str, Any] = {}
    others = [block for block in blocks if block["type"] != "text"]
    if others:
        details["content"] = others
    if structured is not None:
        details["structured"] = structured
    return ToolFailed(text or f"{server} reports a failure without a reason", details=details, effect=effect)


def _list_blocks(content: Any) -> list[Block]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise _UnreadableError(f"content that is {json_type(content)}, not an array")
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise _UnreadableError("content with a block that has no type")
        kind = block["type"]
        inside = block.get("resource")
        fine = isinstance(inside, dict) and isinstance(inside.get("uri"), str) if kind == "resource" else True
        if not fine or not all(isinstance(block.get(key), str) for key in _BLOCK_KINDS.get(kind, ())):
            raise _UnreadableError(f"content with a block that is no {kind}")
    return content
