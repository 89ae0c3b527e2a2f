"""Text that UTF-8 cannot carry: half of a surrogate pair, which `json.loads` lets a model send."""

from __future__ import annotations

import msgspec

from toolyard.model.call import ToolCall
from toolyard.model.errors import ErrorInfo, InvalidArguments


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


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
