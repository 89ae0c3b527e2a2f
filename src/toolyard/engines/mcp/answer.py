"""What `tools/call` answered -> the value of a call, or the failure it stands for."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.dialects.mcp import plain_value, text_says
from toolyard.dialects.payload import read_result, read_value
from toolyard.model.call import Block, Content
from toolyard.model.errors import CallError, Effect, InvalidOutput, ToolFailed
from toolyard.model.names import json_type
from toolyard.model.tool import Schema
from toolyard.words.redactor import Redactor

_COMPLETE = "complete"
_KINDS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
"""What the blocks that everybody knows are made of, all of it text."""


def read_answer(
    answer: Any,
    server: str,
    output_schema: Schema,
    *,
    json_text: bool = False,
    effect: Effect = "unknown",
) -> Any:
    """The value, `Content` where there is more than that; raises what an answer that says so stands for.

    `effect` is what a tool that failed, or answered with what cannot be read, may have done.
    """
    try:
        return _read_content(answer, server, output_schema, json_text, effect)
    except _UnreadableError as error:
        raise InvalidOutput(f"the answer of {server} cannot be read: it holds {error}", effect=effect) from None


class _UnreadableError(Exception):
    """What an answer holds that no answer may."""


def _read_content(answer: Any, server: str, output_schema: Schema, json_text: bool, effect: Effect) -> Any:
    if not isinstance(answer, dict):
        raise _UnreadableError(f"{json_type(answer)}, not an object")
    kind = answer.get("resultType", _COMPLETE)
    if kind != _COMPLETE:
        raise ToolFailed(
            f"{server} wants more from the caller before it answers ({str(kind)[:80]!r})",
            hint="give the engine a handler for what it asks: sampling, elicitation or roots",
            effect=effect,
        )
    blocks = _list_blocks(answer.get("content"))
    structured = answer.get("structuredContent")
    if answer.get("isError") is True:
        raise _read_failure(blocks, structured, server, effect)
    # Where nothing says that there is a structured value, null is how some servers write that there is none.
    if structured is None and not (output_schema and "structuredContent" in answer):
        return _value_of_text(blocks, json_text)
    value = plain_value(structured, blocks, output_schema)
    says_it_all = len(blocks) == 1 and _is_plain(blocks) and (text_says(value, blocks) or text_says(structured, blocks))
    return value if not blocks or says_it_all else Content(blocks, value)


def redact_error(error: CallError, redactor: Redactor) -> CallError:
    """The same error without secrets."""
    info = error.info
    message, hint = redactor.text(info.message), None if info.hint is None else redactor.text(info.hint)
    details = redactor.value(info.details) if info.details else info.details
    if message != info.message or hint != info.hint or details != info.details:
        error.args = (message,)
        error.info = msgspec.structs.replace(info, message=message, hint=hint, details=details)
        error.__cause__ = None
        error.__suppress_context__ = True
    return error


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
    """Text, and nothing beside it."""
    return all(block.keys() == {"type", "text"} and block["type"] == "text" for block in blocks)


def _read_failure(blocks: list[Block], structured: Any, server: str, effect: Effect) -> CallError:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    text = "\n".join(texts)
    for said in (structured, read_value(text)):
        info = read_result(None, "", said).error_info
        if info is not None:
            return CallError.from_info(info)
    details: dict[str, Any] = {}
    others = [block for block in blocks if block["type"] != "text"]
    if others:
        details["content"] = others
    if structured is not None:
        details["structured"] = structured
    return ToolFailed(text or f"{server} says that the tool failed, and not why", details=details, effect=effect)


def _list_blocks(content: Any) -> list[Block]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise _UnreadableError(f"content that is {json_type(content)}, not a list")
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise _UnreadableError("content with a block that has no type")
        kind = block["type"]
        inside = block.get("resource")
        fine = isinstance(inside, dict) and isinstance(inside.get("uri"), str) if kind == "resource" else True
        if not fine or not all(isinstance(block.get(key), str) for key in _KINDS.get(kind, ())):
            raise _UnreadableError(f"content with a block that is no {kind}")
    return content
