"""Gemini's generateContent: declarations, calls and responses as parts of contents, and its schemas read back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from toolyard.dialects.base import Dialect, RawCall, WireTool, others
from toolyard.dialects.gemini_schema import gemini_schema
from toolyard.dialects.input_schema import make_nullable
from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    arguments_object,
    entries,
    error_of,
    error_value,
    fields,
    pick,
    read_id,
    read_result,
    records,
)
from toolyard.model import Schema, Tool, ToolCall, ToolResult

_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_SNAKE = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "property_ordering": "propertyOrdering",
}
"""Spellings of the Python SDK, which the REST API accepts as well."""


def json_schema(schema: Any) -> Schema:
    """The JSON Schema of a Gemini schema; what is no schema at all allows anything."""
    if not isinstance(schema, dict):
        return {}
    given: Schema = {_SNAKE.get(key) or key: value for key, value in schema.items() if value is not None}
    out: Schema = {}
    for key, value in given.items():
        if key == "type":
            name = str(getattr(value, "value", value)).lower()
            out |= {} if name == "type_unspecified" else {"type": name}
        elif key in _COUNTS and isinstance(value, str) and value.isdecimal():
            # 64-bit integers are text in protobuf JSON.
            out[key] = int(value)
        elif key == "properties" and isinstance(value, dict):
            order = [name for name in given.get("propertyOrdering", ()) if name in value]
            ordered: Schema = {**dict.fromkeys(order), **value}
            out[key] = {name: json_schema(sub) for name, sub in ordered.items()}
        elif key == "items":
            out[key] = json_schema(value)
        elif key == "anyOf" and isinstance(value, list):
            out[key] = [json_schema(sub) for sub in value]
        elif key not in ("nullable", "propertyOrdering"):
            out[key] = value
    return make_nullable(out) if given.get("nullable") is True else out


_DECLARATIONS = ("functionDeclarations", "function_declarations")
_CALL = ("functionCall", "function_call")
_RESPONSE = ("functionResponse", "function_response")
_PARAMETERS_SCHEMA = ("parametersJsonSchema", "parameters_json_schema")
_RESPONSE_SCHEMA = ("responseJsonSchema", "response_json_schema")


class GeminiDialect(Dialect):
    """generateContent: `functionDeclarations`, `functionCall` and `functionResponse`."""

    name = "gemini"

    def _wrap_tools(self, wire: list[Json]) -> list[Json]:
        return [{_DECLARATIONS[0]: wire}] if wire else []

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        declaration: Json = {"name": wire_name, "description": tool.description}
        parameters = gemini_schema(tool.parameters, log)
        return declaration if parameters is None else {**declaration, "parameters": parameters}

    def _tool_entries(self, payload: object) -> Iterator[Json]:
        whole = fields(payload)
        listed = [whole] if pick(whole, *_DECLARATIONS) is not None else payload
        for entry in super()._tool_entries(listed):
            declarations = pick(entry, *_DECLARATIONS)
            yield from [entry] if declarations is None else map(fields, entries(declarations))

    def _parse_tool(self, entry: Json, where: str) -> WireTool:
        schemas = ("parameters", *_PARAMETERS_SCHEMA, "response", *_RESPONSE_SCHEMA)
        return WireTool(
            entry.get("name"),
            entry.get("description"),
            _read_schema(entry.get("parameters"), pick(entry, *_PARAMETERS_SCHEMA)),
            others(entry, "name", "description", *schemas),
            _read_schema(entry.get("response"), pick(entry, *_RESPONSE_SCHEMA)),
        )

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
            parts.append({_RESPONSE[0]: body if result.call_id is None else {"id": result.call_id, **body}})
        return [{"role": "user", "parts": parts}] if parts else []

    def parse_results(self, messages: object) -> list[ToolResult]:
        """`functionResponse` parts."""
        results: list[ToolResult] = []
        for part in _list_parts(messages):
            answer = fields(pick(part, *_RESPONSE))
            if answer:
                name, call_id = self._result_name(answer.get("name")), read_id(answer.get("id"))
                results.append(_read_response(call_id, name, fields(answer.get("response"))))
        return results


def _read_response(call_id: str | None, name: str, response: Json) -> ToolResult:
    if response.keys() == {"error"}:
        error = response["error"]
        return read_result(call_id, name, response if isinstance(error, dict) else error, failed=True)
    # "output" is what Google's own examples call it.
    for key in ("result", "output"):
        if response.keys() == {key}:
            return ToolResult(call_id, name, response[key])
    return ToolResult(call_id, name, response)


def _read_schema(own: object, plain: object) -> object:
    """A schema in Gemini's words, else one given as plain JSON Schema."""
    if own is None:
        return plain
    return json_schema(own) if isinstance(own, dict) else own


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
