"""OpenAI's Responses API: everything is an item of `output` or `input`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolyard.dialects.base import RawCall, with_ids
from toolyard.dialects.openai_chat import OpenAIDialect
from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    arguments_text,
    entries,
    fields,
    pick,
    read_content,
    read_id,
    read_result,
    records,
    result_text,
)
from toolyard.model import Tool, ToolCall, ToolResult


class OpenAIResponsesDialect(OpenAIDialect):
    """Responses: flat function tools, `function_call` and `function_call_output` items."""

    name = "openai-responses"

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        function, strict = self._function_entry(tool, wire_name, log)
        # This API turns strict on by itself unless it is told not to.
        return {"type": "function", **function, "strict": strict}

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        for item in _output_items(response):
            if item.get("type") == "function_call":
                yield RawCall(item.get("name"), item.get("arguments"), pick(item, "call_id", "id"))

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """One `function_call` item a call."""
        ids = with_ids([call.call_id for call in calls])
        return [
            {
                "type": "function_call",
                "call_id": call_id,
                "name": self._wire_name(call),
                "arguments": arguments_text(call.arguments),
            }
            for call_id, call in zip(ids, calls, strict=True)
        ]

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """One `function_call_output` item a result."""
        ids = with_ids([result.call_id for result in results])
        return [
            {
                "type": "function_call_output",
                "call_id": call_id,
                "output": result_text(result, marked=False),
            }
            for call_id, result in zip(ids, results, strict=True)
        ]

    def parse_results(self, messages: object) -> list[ToolResult]:
        """`function_call_output` items."""
        results: list[ToolResult] = []
        for item, names in self._with_names(_output_items(messages)):
            if item.get("type") == "function_call_output":
                call_id = read_id(item.get("call_id"))
                results.append(read_result(call_id, names.get(call_id or "", ""), read_content(item.get("output"))))
        return results


def _output_items(payload: object) -> Iterator[Json]:
    """The items of a response, of a request's input, or of a list."""
    for record in records(payload):
        listed = record.get("output") if record.get("type") != "function_call_output" else None
        if isinstance(listed, (list, tuple)):
            yield from map(fields, entries(listed))
        elif isinstance(record.get("input"), (list, tuple)):
            yield from map(fields, record["input"])
        else:
            yield record
