"""Gemini's generateContent: declarations, calls and responses as parts of contents, and its schemas read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolyard.dialects.base import Dialect, RawCall, others
from toolyard.dialects.gemini_schema import gemini_schema
from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    arguments_object,
    entries,
    error_of,
    error_value,
    fields,
    pick,
    records,
)
from toolyard.model import Tool, ToolCall, ToolResult

_CALL = ("functionCall", "function_call")


class GeminiDialect(Dialect):
    """generateContent: `functionDeclarations`, `functionCall` and `functionResponse`."""

    name = "gemini"

    def _wrap_tools(self, wire: list[Json]) -> list[Json]:
        return [{"functionDeclarations": wire}] if wire else []

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        declaration: Json = {"name": wire_name, "description": tool.description}
        parameters = gemini_schema(tool.parameters, log)
        return declaration if parameters is None else {**declaration, "parameters": parameters}

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        for part in _list_parts(response):
            call = fields(pick(part, *_CALL))
            if call:
                yield RawCall(call.get("name"), call.get("args"), call.get("id"))

    def add_event(self, answer: list[Json], event: object) -> str:
        """A `GenerateContentResponse`; the answer is one content, its parts as they came: they may be signed."""
        candidates = entries(fields(event).get("candidates"))
        content = fields(fields(candidates[0]).get("content")) if candidates else {}
        parts = [others(fields(part)) for part in entries(content.get("parts"))]
        if not answer:
            answer.append({"role": "model", "parts": []})
        answer[0]["parts"] += parts
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought"))

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """One content of role `model`.

        Models that sign their thoughts refuse a current turn rebuilt this way: send their own content back
        instead, and use this for calls that come from elsewhere.
        """
        parts: list[Json] = []
        for call in calls:
            body: Json = {"name": self._wire_name(call), "args": arguments_object(call.arguments)}
            parts.append({_CALL[0]: body if call.call_id is None else {"id": call.call_id, **body}})
        return [{"role": "model", "parts": parts}] if parts else []

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """One content of role `user`; each response is `{"result": ...}` or `{"error": {...}}`."""
        parts: list[Json] = []
        for result in results:
            info = error_of(result)
            response = {"result": result.result} if info is None else error_value(info)
            body: Json = {"name": self._names.encode_name(result.name, result.overload), "response": response}
            parts.append({"functionResponse": body if result.call_id is None else {"id": result.call_id, **body}})
        return [{"role": "user", "parts": parts}] if parts else []


def _list_parts(payload: object) -> Iterator[Json]:
    """The parts of a response's first candidate, of a content, of several, or a list of parts."""
    for record in records(payload):
        candidates = entries(record.get("candidates"))
        content = fields(fields(candidates[0]).get("content")) if candidates else fields(record.get("content"))
        parts = (content or record).get("parts")
        if isinstance(parts, (list, tuple)):
            yield from map(fields, parts)
        elif isinstance(record.get("contents"), (list, tuple)):
            yield from _list_parts(record["contents"])
        elif "args" in record and "name" in record:
            yield {_CALL[0]: record}
        else:
            yield record
