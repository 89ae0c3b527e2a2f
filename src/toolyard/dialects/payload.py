"""Read and write the parts of provider payloads: arguments, results, errors and schema changes.

SDK objects are read like the JSON they represent. `ChangeLog` collects what a schema conversion could not keep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from toolyard.model import ErrorInfo, Rewrite, ToolResult
from toolyard.model.errors import CallError, MalformedSource, ToolFailed
from toolyard.model.json_schema import pointer_of
from toolyard.parsing import parse_json
from toolyard.schema.subschemas import Path
from toolyard.words.redactor import Redactor

Json = dict[str, Any]

_LONGEST_ERROR = 1_000
RAW_ARGUMENTS = "__raw_arguments__"
"""The key that holds arguments that are not valid JSON, for providers that accept only objects."""


def fields(value: object) -> Json:
    """The fields of a JSON object or SDK object; empty for anything else."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        # Pydantic models are dumped by alias, as on the wire; other classes may not accept `by_alias`.
        value = dump(by_alias=True) if hasattr(type(value), "model_fields") else dump()
    return value if isinstance(value, dict) else {}


def answer_fields(value: object) -> Json:
    """`fields` of a response, a message or an event; `ToolFailed` for an error that a provider sends instead."""
    found = fields(value)
    kind = found.get("type", "error")
    if kind not in ("error", "response.failed") or "role" in found:
        return found
    answer = found if kind == "error" else fields(found.get("response"))
    said = answer.get("error")
    # Ollama and others say it in words alone.
    error = {"message": said} if isinstance(said, str) else fields(said) or (found if "type" in found else {})
    kinds = dict.fromkeys(str(error[key]) for key in ("status", "code", "type") if error.get(key) is not None)
    told = ": ".join(filter(None, (", ".join(kinds), str(error.get("message") or ""))))
    if told:
        told = Redactor().text(told)[:_LONGEST_ERROR]
        raise ToolFailed(f"the provider answered with an error: {told}", hint="it made no calls", effect="none")
    return found


def entries(value: object) -> list[Any]:
    """The items of a list; empty for anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def pick(data: Json, *keys: str) -> Any:
    """The value of the first key that is set; some SDKs use snake case where the JSON has camel case."""
    return next((data[key] for key in keys if data.get(key) is not None), None)


def records(payload: object) -> Iterator[Json]:
    """Iterate over the objects of a payload: a single object, a list, or the messages of a request.

    `TypeError` for anything else, since it cannot be a provider's response; `ToolFailed` for a provider's error.
    """
    items = payload if isinstance(payload, (list, tuple)) else [payload]
    for item in items:
        if not isinstance(item, dict) and not callable(getattr(item, "model_dump", None)):
            raise TypeError(f"expected a response, a message or a list of them, not {type(item).__name__}")
        record = answer_fields(item)
        if isinstance(record.get("messages"), (list, tuple)):
            yield from records(record["messages"])
        else:
            yield record


def read_arguments(value: object) -> dict[str, Any] | str:
    """The arguments a model wrote: an object, or the text that could not be read as one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        raw = value.get(RAW_ARGUMENTS)
        return raw if isinstance(raw, str) and len(value) == 1 else value
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, default=str)
    if not value.strip():
        return {}
    try:
        parsed = parse_json(value, what="tool call arguments")
    except MalformedSource:
        return value
    return parsed if isinstance(parsed, dict) else value


def arguments_object(arguments: dict[str, Any] | str) -> dict[str, Any]:
    """Arguments for a provider that accepts only an object; `read_arguments` undoes this."""
    return {RAW_ARGUMENTS: arguments} if isinstance(arguments, str) else arguments


def arguments_text(arguments: dict[str, Any] | str) -> str:
    """Arguments for a provider that expects text, such as OpenAI."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def read_id(value: object) -> str | None:
    """A call id as text, since JSON-RPC allows numbers; None if it is missing or empty."""
    return None if value in (None, "") else str(value)


_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def error_of(result: ToolResult) -> ErrorInfo | None:
    """The error of a failed result, built from its message if it has no `error_info`; None if it succeeded."""
    if not result.is_error:
        return None
    return result.error_info or ErrorInfo(ToolFailed.code, result.error or "", effect=ToolFailed.effect)


def error_value(info: ErrorInfo) -> dict[str, Any]:
    """`{"error": {code, message, hint, details, ...}}`."""
    return {"error": info.to_dict()}


def result_text(result: ToolResult) -> str:
    """The text a model reads: the value, or the error as JSON."""
    info = error_of(result)
    return value_text(result.result) if info is None else _dump_json(error_value(info))


def value_text(value: Any) -> str:
    """A JSON value as text, from which `read_value` restores the same value."""
    if not isinstance(value, str) or read_value(value) != value or not _is_encodable(value):
        return _dump_json(value)
    return value


def read_value(text: str) -> Any:
    """The text parsed as JSON, or the text itself if it is not JSON."""
    try:
        return parse_json(text, what="tool result")
    except MalformedSource:
        return text


def read_content(content: object) -> Any:
    """The value in a message's content: parsed text, or the list of parts if some are not text."""
    if isinstance(content, str):
        return read_value(content)
    parts = [fields(part) for part in entries(content)]
    if not parts:
        return None
    if all(part.get("type") in _TEXT_PARTS for part in parts):
        return read_value("\n".join(str(part.get("text", "")) for part in parts))
    return parts


def read_error(value: object) -> CallError | None:
    """The error in `{"error": {...}}`; None unless it has toolyard's fields, since a tool may return such a key too."""
    return CallError.from_wire(value["error"]) if isinstance(value, dict) and value.keys() == {"error"} else None


def _is_encodable(text: str) -> bool:
    # A lone surrogate cannot be encoded as UTF-8, but JSON can escape it.
    return text.isascii() or _SURROGATE.search(text) is None


def _dump_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if _is_encodable(text) else json.dumps(value)


class ChangeLog:
    """The changes made to one schema; equal changes are counted together under the first path."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Path, int]] = {}

    def add(self, path: Path, change: str) -> None:
        """Record a change of meaning of the schema at `path`."""
        first, count = self._seen.get(change, (path, 0))
        self._seen[change] = (first, count + 1)

    def rewrites(self, tool: str) -> list[Rewrite]:
        """The changes as entries of a report about `tool`."""
        return [Rewrite(tool, pointer_of(path), change, count) for change, (path, count) in self._seen.items()]
