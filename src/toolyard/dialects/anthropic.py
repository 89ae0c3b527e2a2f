"""Anthropic's Messages API: tool use and tool results are blocks inside messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolyard.dialects.base import CallKeys, EntryDialect, ResultKeys, best_match, drop_none, properties_of
from toolyard.dialects.input_schema import object_root
from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    answer_fields,
    arguments_object,
    entries,
    fields,
    read_arguments as written_arguments,
    records,
)
from toolyard.dialects.wire_names import read_arguments, spell_arguments, spell_properties, wire_key
from toolyard.model import Schema, Tool, ToolCall


class AnthropicDialect(EntryDialect):
    """Messages: `input_schema`, `tool_use` and `tool_result` blocks."""

    name = "anthropic"
    call_keys = CallKeys("tool_use", "id", "input")
    result_keys = ResultKeys("tool_result", "tool_use_id", "content", "is_error")

    def _list_entries(self, payload: object) -> Iterator[Json]:
        """The blocks of one message or several, or a list of blocks."""
        for record in records(payload):
            if record.get("type") in ("tool_use", "tool_result"):
                yield record
            else:
                yield from map(fields, entries(record.get("content")))

    def _wrap_entries(self, entries: list[Json], role: str) -> list[Json]:
        return [{"role": role, "content": entries}] if entries else []

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        schema = spell_properties(object_root(tool.parameters, log), log)
        return {"name": wire_name, "description": tool.description, "input_schema": schema}

    def _wire_properties(self, tool: Tool) -> Iterable[str]:
        return map(wire_key, properties_of(tool))

    def _read_arguments(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        return read_arguments(_object_schema(tool), arguments)

    def add_event(self, answer: list[Json], event: object) -> str:
        """Add a `content_block_*` event; `answer` becomes one message."""
        data = answer_fields(event)
        kind, place, delta = data.get("type"), data.get("index"), fields(data.get("delta"))
        if not isinstance(place, int):
            return ""
        if not answer:
            answer.append({"role": "assistant", "content": []})
        blocks = answer[0]["content"]
        if kind == "content_block_start":
            blocks.append(drop_none(fields(data.get("content_block"))))
        for block in blocks[place : place + 1] or blocks[-1:]:
            written = block.get("input")
            if kind == "content_block_delta" and delta.get("type") == "input_json_delta":
                block["input"] = (written if isinstance(written, str) else "") + (delta.get("partial_json") or "")
            elif kind == "content_block_delta":
                _add_delta(block, delta)
            elif kind == "content_block_stop" and isinstance(written, str):
                block["input"] = arguments_object(written_arguments(written))
        return delta.get("text") or ""

    def _write_arguments(self, call: ToolCall) -> dict[str, Any]:
        arguments = arguments_object(call.arguments)
        tool = best_match(self._names.candidates((call.name, call.overload)), arguments, properties_of)
        return arguments if tool is None else spell_arguments(_object_schema(tool), arguments)


def _add_delta(block: Json, delta: Json) -> None:
    """Append text and thinking to the block's strings, and a citation to its list."""
    for key, value in delta.items():
        if key == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif key != "type" and isinstance(value, str):
            block[key] = (block.get(key) or "") + value


def _object_schema(tool: Tool) -> Schema:
    return object_root(tool.parameters, ChangeLog())
