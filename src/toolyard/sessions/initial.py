"""The state a session may be set up with: what `get_session_state` of another one gave."""

from __future__ import annotations

from typing import Any

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import DefinitionError, SessionError
from toolyard.model.json_words import json_type
from toolyard.sessions.entry import any_call_text, entry_text, result_text
from toolyard.sessions.state import Changes, exact_json

EXECUTIONS = "tool_executions"

_CALL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": ["object", "string"]},
        "call_id": {"type": ["string", "null"]},
        "overload": {"type": ["string", "null"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_EFFECTS = ["none", "done", "unknown"]
_INFO: dict[str, Any] = {
    "type": ["object", "null"],
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "retry_after": {"type": ["number", "null"]},
        "effect": {"enum": _EFFECTS},
        "hint": {"type": ["string", "null"]},
        "details": {"type": "object"},
    },
    "required": ["code", "message"],
}
_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "call_id": {"type": ["string", "null"]},
        "name": {"type": "string"},
        "result": True,
        "error": {"type": ["string", "null"]},
        "metadata": {"type": "object"},
        "error_info": _INFO,
        "overload": {"type": ["string", "null"]},
    },
    "required": ["call_id", "name"],
    "additionalProperties": False,
}
INITIAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "What another session's state was.",
    "properties": {
        EXECUTIONS: {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"tool_call": _CALL, "tool_output": _RESULT},
                "required": ["tool_call", "tool_output"],
                "additionalProperties": False,
            },
        }
    },
    "propertyNames": {"minLength": 1},
    "additionalProperties": {"type": "object"},
}
"""JSON Schema of the state; `read_initial` accepts what it accepts."""


def read_initial(state: dict[str, Any]) -> tuple[tuple[bytes, ...], Changes]:
    """Entries and engine state; `SessionError` says what is wrong and where."""
    if not isinstance(state, dict):
        raise SessionError(f"initial_state must be a mapping as get_session_state gives it, not {json_type(state)}")
    executions = state.get(EXECUTIONS, [])
    if not isinstance(executions, list):
        raise SessionError(f"initial_state[{EXECUTIONS!r}] must be a list, not {json_type(executions)}")
    entries = tuple(
        _read_execution(item, f"initial_state[{EXECUTIONS!r}][{index}]") for index, item in enumerate(executions)
    )
    changes: Changes = {}
    for engine, values in state.items():
        if engine == EXECUTIONS:
            continue
        if not isinstance(engine, str) or not engine:
            raise SessionError(f"initial_state has the key {engine!r}; engines have names, which are text")
        if not isinstance(values, dict):
            raise SessionError(f"initial_state[{engine!r}] must map names to values, not {json_type(values)}")
        if not all(isinstance(name, str) for name in values):
            raise SessionError(f"initial_state[{engine!r}] has a name that is not text")
        for name, value in values.items():
            changes[(engine, name)] = _encode_json(value, f"initial_state[{engine!r}][{name!r}]")
    return entries, changes


def _read_execution(item: Any, where: str) -> bytes:
    if not isinstance(item, dict) or item.keys() != {"tool_call", "tool_output"}:
        raise SessionError(f"{where} must have the keys 'tool_call' and 'tool_output'")
    try:
        call, output = ToolCall.from_dict(item["tool_call"]), ToolResult.from_dict(item["tool_output"])
    except (DefinitionError, TypeError) as error:
        raise SessionError(f"{where}: {error}") from None
    return entry_text(any_call_text(call), result_text(output, _encode_json(output.result, f"{where}['tool_output']")))


def _encode_json(value: Any, where: str) -> bytes:
    try:
        return exact_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError(f"{where} is not JSON: {error}") from None
