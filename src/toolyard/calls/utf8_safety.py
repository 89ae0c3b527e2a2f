"""Text that UTF-8 cannot carry: half of a surrogate pair, which `json.loads` lets a model send."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.model.call import ToolCall
from toolyard.model.errors import ErrorInfo, InvalidArguments
from toolyard.model.tree_size import fits

_LONGEST_MESSAGE = 4_000
_MOST_DETAILS = 20_000
_DEEPEST_DETAILS = 50
_LONGEST_DETAILS = 256 * 1024


def check_writable(call_id: str) -> None:
    """Refuse a call whose id no history could hold, before anything is done for it."""
    if not call_id.isascii() and _writable(call_id) != call_id:
        raise InvalidArguments("the call id holds half of a surrogate pair", hint="send an id that is valid UTF-8")


def writable_call(call: ToolCall) -> ToolCall:
    """The call with such halves written as escapes; its arguments are left to whoever records them."""
    texts = {
        field: _writable(text)
        for field in ("name", "call_id", "overload")
        if (text := getattr(call, field)) is not None
    }
    return msgspec.structs.replace(call, **texts)


def writable_info(info: ErrorInfo) -> ErrorInfo:
    """The error's words with such halves written as escapes; details that JSON cannot carry are left out."""
    details = info.details
    try:
        msgspec.json.encode(details)
    except (TypeError, ValueError, RecursionError):
        details = {}
    hint = None if info.hint is None else _writable(info.hint)
    return msgspec.structs.replace(info, message=_writable(info.message), hint=hint, details=details)


def bounded_info(info: ErrorInfo) -> ErrorInfo:
    """The error within limits of its own: it is recorded, traced and sent to a model like any other answer."""
    message = info.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}... ({len(message):,} characters, the first {_LONGEST_MESSAGE:,} shown)"
    details = info.details
    if details and not fits(details, max_values=_MOST_DETAILS, max_depth=_DEEPEST_DETAILS):
        details = {"left_out": "the details are too large or too deep"}
    elif details and _size(details) > _LONGEST_DETAILS:
        details = {"left_out": f"the details are over {_LONGEST_DETAILS:,} bytes"}
    hint = info.hint if info.hint is None else info.hint[:_LONGEST_MESSAGE]
    return msgspec.structs.replace(info, message=message, hint=hint, details=details)


def _size(details: dict[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(details))
    except (TypeError, ValueError, RecursionError):
        return 0  # told apart where it is written


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
