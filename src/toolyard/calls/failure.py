"""`failure_result`: the only place where an exception of a call becomes a `ToolResult` and a session entry.

Errors are reported with limited length, redacted, and in valid UTF-8. For a tool's own exception, remote callers get
only the id of a log line, since its message may contain paths, queries and other people's data. A tool that wants to
tell its caller something raises `ToolFailed`.
"""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from toolyard.calls.call_path import CallPath
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import call_metadata
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, ErrorInfo, InvalidArguments, ToolFailed
from toolyard.model.json_schema import is_within_limits
from toolyard.model.tool import Effects, Tool
from toolyard.registry.bind import Bound
from toolyard.sessions.history import any_call_text, call_text, entry_text, result_text
from toolyard.sessions.state import Changes
from toolyard.words.redactor import Redactor, credential_finder

_log = logging.getLogger(__name__)
_READ = 20_000
"""Characters of an exception's message that are redacted."""
_SHOWN = 500
"""Characters of the message that are logged."""
_FRAMES = 20
_TRACE = 2000
"""Characters logged of a traceback from another process, counted from its end."""
_LONGEST_MESSAGE = 4_000
_MOST_DETAILS = 20_000
_DEEPEST_DETAILS = 50
_LONGEST_DETAILS = 256 * 1024


def failure_result(
    call: ToolCall, bound: Bound | None, invocation: Invocation | None, error: CallError, path: CallPath
) -> tuple[ToolResult, bytes, Changes]:
    """The result of a failed call, its entry, and no changes."""
    redactor = path.redactor
    info = error.info
    if path.discreet and bound is not None and is_own_exception(error):
        info = _mask_exception(error, bound.tool, redactor)
    elif _log.isEnabledFor(logging.DEBUG) and is_own_exception(error):
        _log.debug("%s failed: %s", call.name, _describe_exception(error.__cause__ or error, redactor))
    # Break the cycle of traceback, frames and future, which would keep the call's data until garbage collection.
    error.__traceback__ = None
    info = redact_info(_bound_info(info), redactor.value)
    if invocation is not None and invocation.secrets:
        info = redact_info(info, credential_finder(invocation.secrets).hide)
    if invocation is not None and invocation.tool.effects is Effects.READ:
        # A tool that only reads has changed nothing, however it failed.
        info = msgspec.structs.replace(info, effect="none")
    metadata = call_metadata(bound, invocation)
    try:
        result = ToolResult.failed(call, info, **metadata)
        if bound is not None:
            # The qualified name, whichever name the call used.
            result = msgspec.structs.replace(result, name=bound.tool.qualified_name)
        sent = bound.sent if bound is not None else error.sent if isinstance(error, InvalidArguments) else b""
        text = call_text(call, sent) if sent else any_call_text(call)
        return result, entry_text(text, result_text(result, b"null")), {}
    except (TypeError, ValueError, RecursionError):
        # A lone surrogate, or a tool's details that are not JSON, cannot be stored: escape or drop them.
        result = ToolResult.failed(_escape_call(call), _escape_info(info), **metadata)
        return result, entry_text(any_call_text(_escape_call(call)), result_text(result, b"null")), {}


def redact_info(info: ErrorInfo, redact: Callable[[Any], Any]) -> ErrorInfo:
    """Apply `redact` to message, hint and details of an error."""
    hint = None if info.hint is None else redact(info.hint)
    details = redact(info.details) if info.details else info.details
    return msgspec.structs.replace(info, message=redact(info.message), hint=hint, details=details)


def is_own_exception(error: CallError) -> bool:
    """True if the tool raised an exception other than `ToolFailed`, which is not meant for the caller."""
    return isinstance(error, ToolFailed) and error.unforeseen


def _mask_exception(error: CallError, tool: Tool, redactor: Redactor) -> ErrorInfo:
    """Log the exception under a new id. The returned error has only its type and the id."""
    cause, number = error.__cause__ or error, secrets.token_hex(6)
    told = _describe_exception(cause, redactor)
    kind = type(cause).__name__
    if isinstance(cause, ToolFailed) and cause.trace:
        # Raised in another process: type and traceback come from there.
        kind = str(cause.info.details.get("exception", kind))
        said, trace = ascii(redactor.text(str(cause))), ascii(redactor.text(cause.trace))
        told = f"{_escape_unprintable(kind)}: {_cut_end(said)} at {_cut_start(trace)}"
    _log.error("%s failed; error id %s: %s", tool.qualified_name, number, told)
    return msgspec.structs.replace(
        error.info,
        message=f"{tool.qualified_name} failed with {_escape_unprintable(kind)}; the server's log has it as {number}",
        details={**error.info.details, "error_id": number},
    )


def _describe_exception(error: BaseException, redactor: Redactor) -> str:
    """Type, message and frames of an exception, innermost frame first.

    The message may be a caller's input: it is shortened and quoted, so that it cannot forge log lines or send control
    characters to a terminal.
    """
    where = describe_frames(error)
    kind, text = _escape_unprintable(type(error).__name__), ascii(redactor.text(_exception_text(error)))
    return f"{kind}: {_cut_end(text)} at {_escape_unprintable(redactor.text(where))}"


def describe_frames(error: BaseException) -> str:
    """The frames of an exception's traceback, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))


def _exception_text(error: BaseException) -> str:
    try:
        return str(error)[:_READ]
    except Exception as odd:  # noqa: BLE001 - `__str__` of a tool's exception may raise anything
        return f"(it cannot be shown: {type(odd).__name__})"


def _escape_unprintable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else ascii(text)


def _cut_start(text: str) -> str:
    return text if len(text) <= _TRACE else f"...{text[-_TRACE:]}"


def _cut_end(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def check_writable(call_id: str) -> None:
    """Raise `InvalidArguments` for an id with a lone surrogate, which no history can store, before anything runs."""
    if not call_id.isascii() and _escape_halves(call_id) != call_id:
        raise InvalidArguments("the call id holds half of a surrogate pair", hint="send an id that is valid UTF-8")


def _escape_call(call: ToolCall) -> ToolCall:
    """The call with lone surrogates escaped in its name, id and overload; `any_call_text` escapes the arguments."""
    texts = {
        field: _escape_halves(text)
        for field in ("name", "call_id", "overload")
        if (text := getattr(call, field)) is not None
    }
    return msgspec.structs.replace(call, **texts)


def _escape_info(info: ErrorInfo) -> ErrorInfo:
    """The error with lone surrogates escaped in its texts, and without details that are not JSON."""
    details = info.details
    try:
        msgspec.json.encode(details)
    except (TypeError, ValueError, RecursionError):
        details = {}
    hint = None if info.hint is None else _escape_halves(info.hint)
    return msgspec.structs.replace(info, message=_escape_halves(info.message), hint=hint, details=details)


def _bound_info(info: ErrorInfo) -> ErrorInfo:
    """The error, shortened to limits, since it is recorded, traced and sent to a model like any result."""
    message = info.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}... ({len(message):,} characters, the first {_LONGEST_MESSAGE:,} shown)"
    details = info.details
    if details and not is_within_limits(details, max_values=_MOST_DETAILS, max_depth=_DEEPEST_DETAILS):
        details = {"left_out": "the details are too large or too deep"}
    elif details and _encoded_size(details) > _LONGEST_DETAILS:
        details = {"left_out": f"the details are over {_LONGEST_DETAILS:,} bytes"}
    hint = info.hint if info.hint is None else info.hint[:_LONGEST_MESSAGE]
    return msgspec.structs.replace(info, message=message, hint=hint, details=details)


def _encoded_size(details: dict[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(details))
    except (TypeError, ValueError, RecursionError):
        return 0  # not JSON; `failure_result` handles it


def _escape_halves(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
