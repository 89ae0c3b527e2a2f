"""OpenAI's chat completions, which many other servers implement, and its item-based Responses API."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence

from toolyard.dialects.base import CallKeys, EntryDialect, RawCall, ResultKeys, assign_ids, drop_none
from toolyard.dialects.input_schema import object_root
from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    answer_fields,
    arguments_text,
    entries,
    fields,
    pick,
    read_arguments,
    read_id,
    records,
)
from toolyard.model import Tool, ToolCall


def _function_entry(tool: Tool, wire_name: str, log: ChangeLog) -> Json:
    return {"name": wire_name, "description": tool.description, "parameters": object_root(tool.parameters, log)}


class OpenAIChatDialect(EntryDialect):
    """Chat completions: `tools`, `tool_calls` and messages of role `tool`."""

    name = "openai"
    kind_key = "role"
    result_keys = ResultKeys("tool", "tool_call_id", "content")

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        return {"type": "function", "function": _function_entry(tool, wire_name, log)}

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        for record in records(response):
            choices = entries(record.get("choices"))
            message = fields(fields(choices[0]).get("message")) if choices else fields(record.get("message")) or record
            if message.get("type") == "function" or "function" in message:
                yield from _tool_call(message)
                continue
            for entry in entries(message.get("tool_calls")):
                yield from _tool_call(fields(entry))
            legacy = fields(message.get("function_call"))
            if legacy:
                yield RawCall(legacy.get("name"), legacy.get("arguments"))

    def add_event(self, answer: list[Json], event: object) -> str:
        """Add a `chat.completion.chunk`; `answer` becomes one message."""
        choices = entries(answer_fields(event).get("choices"))
        if not choices:
            return ""
        if not answer:
            answer.append({"role": "assistant", "content": None})
        delta = fields(fields(choices[0]).get("delta"))
        for key, value in delta.items():
            if isinstance(value, str) and key != "role":
                answer[0][key] = (answer[0].get(key) or "") + value
        for piece in map(fields, entries(delta.get("tool_calls"))):
            _add_piece(answer[0].setdefault("tool_calls", []), piece)
        return pick(delta, "content") or pick(delta, "refusal") or ""

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """Return one assistant message."""
        listed = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": self._wire_name(call), "arguments": arguments_text(call.arguments)},
            }
            for call_id, call in assign_ids(calls)
        ]
        return [{"role": "assistant", "content": None, "tool_calls": listed}] if listed else []


def _add_piece(calls: list[Json], piece: Json) -> None:
    """Add a fragment of a tool call.

    The first fragment of a call has its name; not all servers send ids or an index.
    """
    call_id, number, function = read_id(piece.get("id")), piece.get("index"), fields(piece.get("function"))
    name, written = function.get("name"), function.get("arguments")
    place = number if isinstance(number, int) else len(calls)
    known = [call for call in calls if call["id"] == call_id]
    begins = bool(call_id and name) or (number is not None and place >= len(calls) and bool(call_id or name))
    if not known and not begins:
        known = calls[slice(place, None)][:1] or calls[-1:]
    if not known or (name and _is_other(known[0]["function"], name, written if call_id is None else None)):
        # A generated id must be unique in the whole conversation, since results of earlier turns are matched by id.
        unique = f"call_{secrets.token_hex(8)}" if known or call_id is None else call_id
        known = [{"id": unique, "type": "function", "function": {"name": "", "arguments": ""}}]
        calls += known
    made = known[0]["function"]
    made["name"] = name or made["name"]
    made["arguments"] += arguments_text(written) if written else ""


def _is_other(made: Json, name: str, written: object) -> bool:
    """Whether a fragment with a name starts another call: the tool differs, or the arguments were already complete."""
    if made["name"] not in ("", name):
        return True
    return bool(written and made["arguments"] and isinstance(read_arguments(made["arguments"]), dict))


def _tool_call(entry: Json) -> Iterator[RawCall]:
    function = fields(entry.get("function"))
    if function:
        yield RawCall(function.get("name"), function.get("arguments"), entry.get("id"))


class OpenAIResponsesDialect(EntryDialect):
    """Responses: flat function tools, `function_call` and `function_call_output` items."""

    name = "openai-responses"
    call_keys = CallKeys("function_call", "call_id", "arguments")
    result_keys = ResultKeys("function_call_output", "call_id", "output")

    def _list_entries(self, payload: object) -> Iterator[Json]:
        """The items of a response, of a request's input or of a list."""
        for record in records(payload):
            listed = record.get("output") if record.get("type") != "function_call_output" else None
            if isinstance(listed, (list, tuple)):
                yield from map(fields, entries(listed))
            elif isinstance(record.get("input"), (list, tuple)):
                yield from map(fields, record["input"])
            else:
                yield record

    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        # The Responses API enables strict mode by default.
        return {"type": "function", **_function_entry(tool, wire_name, log), "strict": False}

    def add_event(self, answer: list[Json], event: object) -> str:
        """Add a `response.*` event; `answer` becomes a list of items, each in its final state."""
        data = answer_fields(event)
        kind, place, item = data.get("type"), data.get("output_index"), drop_none(fields(data.get("item")))
        told = read_id(pick(data, "item_id") or pick(item, "id", "call_id"))
        at = next((at for at, one in enumerate(answer) if told and told == read_id(pick(one, "id", "call_id"))), place)
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(at, int):
            answer[at : at + 1] = [item]
        elif kind == "response.function_call_arguments.delta" and isinstance(at, int):
            for one in answer[at : at + 1] or answer[-1:]:
                one["arguments"] = (one.get("arguments") or "") + (data.get("delta") or "")
        return data.get("delta", "") if kind in ("response.output_text.delta", "response.refusal.delta") else ""
