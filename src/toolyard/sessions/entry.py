"""One answered call as JSON text: the one spelling that is kept, hashed and stored."""

from __future__ import annotations

import msgspec

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import Interrupted
from toolyard.model.tree_size import fits

_encode = msgspec.json.encode
_MAX_VALUES = 1_000_000
_MAX_DEPTH = 900


class Entry(msgspec.Struct, frozen=True):
    """One answered call."""

    tool_call: ToolCall
    tool_output: ToolResult


read_entry = msgspec.json.Decoder(Entry).decode
"""An entry as objects; each reader gets objects of its own."""

read_call = msgspec.json.Decoder(ToolCall).decode


def call_text(call: ToolCall, arguments: bytes) -> bytes:
    """A call whose arguments are JSON text already; fields at their default are left out."""
    text = b'{"name":%b,"arguments":%b' % (_encode(call.name), arguments)
    if call.call_id is not None:
        text = b'%b,"call_id":%b' % (text, _encode(call.call_id))
    if call.overload is not None:
        text = b'%b,"overload":%b' % (text, _encode(call.overload))
    return text + b"}"


def result_text(result: ToolResult, value: bytes) -> bytes:
    """A result whose value is JSON text already; fields at their default are left out."""
    text = b'{"call_id":%b,"name":%b' % (_encode(result.call_id), _encode(result.name))
    if value != b"null":
        text = b'%b,"result":%b' % (text, value)
    for field in ("error", "metadata", "error_info", "overload"):
        item = getattr(result, field)
        if item is not None and item != {}:
            text = b'%b,"%b":%b' % (text, field.encode(), _encode(item))
    return text + b"}"


def entry_text(call: bytes, result: bytes) -> bytes:
    """Both halves as one entry."""
    return b'{"tool_call":%b,"tool_output":%b}' % (call, result)


def entry_frame(name: str) -> tuple[bytes, bytes]:
    """What stands before the arguments in entries of one tool, and between them and the value, as `entry_text` has it.

    For calls by the tool's own name without an id, and answers with nothing beside a value.
    """
    quoted = _encode(name)
    between = b'},"tool_output":{"call_id":null,"name":%b,"result":' % quoted
    return b'{"tool_call":{"name":%b,"arguments":' % quoted, between


def any_call_text(call: ToolCall) -> bytes:
    """A call that may hold anything: what JSON cannot carry is recorded by its type's name."""
    if not fits(call.arguments, max_values=_MAX_VALUES, max_depth=_MAX_DEPTH):
        return call_text(call, b'"<too large or too deep to record>"')
    try:
        text = _encode(call.arguments, enc_hook=_stand_in)
        if text[:1] not in b'{"':
            # No object, so no arguments; kept as text, like other things that were sent in their place.
            text = _encode(text.decode())
        return call_text(call, text)
    except (TypeError, ValueError, RecursionError):
        return call_text(call, b'"<not JSON>"')


def interrupted(call: bytes, why: str) -> bytes:
    """The entry of a call that was begun and never answered."""
    info = Interrupted(why, hint="find out whether it took effect before you call it again").info
    result = ToolResult.failed(read_call(call), info)
    return entry_text(call, result_text(result, b"null"))


def _stand_in(value: object) -> str:
    return f"<{type(value).__name__}>"
