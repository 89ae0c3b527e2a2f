"""Results as text for a model, and back.

Text stays text and everything else is JSON, so a model reads documents without quotes around them. Text
that could be taken for JSON is quoted, which keeps `"5"` and `5` apart on the way back.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from toolyard.dialects.payload import entries, fields
from toolyard.model import ErrorInfo, ToolResult
from toolyard.model.errors import MalformedSource, ToolFailed
from toolyard.parsing import parse_json

_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def error_of(result: ToolResult) -> ErrorInfo | None:
    """The facts of a failed result, also where it holds no more than a message."""
    if not result.is_error:
        return None
    return result.error_info or ErrorInfo(ToolFailed.code, result.error or "", effect=ToolFailed.effect)


def error_value(info: ErrorInfo) -> dict[str, Any]:
    """`{"error": {code, message, hint, details, ...}}`."""
    return {"error": info.to_dict()}


def result_text(result: ToolResult, *, marked: bool) -> str:
    """What a model reads: the value, or the error as JSON.

    `marked` says that the wire has a flag of its own for errors. Without one, a value that could be taken
    for an error is put into `{"result": ...}`.
    """
    info = error_of(result)
    if info is not None:
        return _dump_json(error_value(info))
    is_ambiguous = not marked and _looks_failed(result.result)
    return value_text({"result": result.result} if is_ambiguous else result.result)


def value_text(value: Any) -> str:
    """A JSON value as text, such that `read_value` gives the same value."""
    if not isinstance(value, str) or _is_json(value) or not _is_encodable(value):
        return _dump_json(value)
    return value


def read_value(text: str) -> Any:
    """The JSON in a text, or the text itself where it is none."""
    try:
        return parse_json(text, what="tool result")
    except MalformedSource:
        return text


def read_content(content: object) -> Any:
    """The value in a message's content: text, a list of text parts, or parts that are more than text."""
    if isinstance(content, str):
        return read_value(content)
    parts = [fields(part) for part in entries(content)]
    if not parts:
        return None
    if all(part.get("type") in _TEXT_PARTS for part in parts):
        return read_value("\n".join(str(part.get("text", "")) for part in parts))
    return parts


def read_result(call_id: str | None, name: str, value: Any, *, failed: bool | None = None) -> ToolResult:
    """The result a value stands for; `failed` is the wire's own flag, None where it has none."""
    info = None if failed is False else _read_error(value)
    if info is None and failed:
        message = value if isinstance(value, str) else _dump_json(value)
        info = ErrorInfo(ToolFailed.code, message, effect=ToolFailed.effect)
    if info is not None:
        return ToolResult(call_id, name, None, info.message, {}, info)
    if failed is None and isinstance(value, dict) and value.keys() == {"result"} and _looks_failed(value["result"]):
        value = value["result"]
    return ToolResult(call_id, name, value)


def _read_error(value: object) -> ErrorInfo | None:
    """The error in `{"error": {...}}`, if it is one of ours: a tool may well answer with such a key."""
    if not isinstance(value, dict) or value.keys() != {"error"} or not isinstance(value["error"], dict):
        return None
    if not value["error"].keys() >= {"code", "message", "retryable", "effect"}:
        return None
    try:
        return ErrorInfo.from_dict(value["error"])
    except msgspec.ValidationError:
        return None


def _looks_failed(value: object) -> bool:
    """Whether a successful value would be read as an error, or as one that was wrapped not to be."""
    while isinstance(value, dict) and value.keys() == {"result"}:
        value = value["result"]
    return _read_error(value) is not None


def _is_json(text: str) -> bool:
    try:
        parse_json(text, what="tool result")
    except MalformedSource:
        return False
    return True


def _is_encodable(text: str) -> bool:
    # A lone surrogate cannot leave the process as UTF-8; JSON can escape it.
    return text.isascii() or _SURROGATE.search(text) is None


def _dump_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if _is_encodable(text) else json.dumps(value)
