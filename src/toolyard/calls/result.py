"""Converts the answer of a call (`make_result`) or its error (`failure_result`) to a `ToolResult` and a session entry.

An answer is encoded as JSON, its size is limited, and it is checked against the tool's output schema.

Errors are reported with limited length, redacted, and in valid UTF-8. For a tool's own exception, remote callers get
only the id of a log line, since its message may contain paths, queries and other people's data. A tool that wants to
tell its caller something raises `ToolFailed`.
"""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from toolyard.calls.call_path import CallPath, CallPlan, Settings, count_values
from toolyard.calls.invocation import Invocation
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import CONTENT, Content, ToolCall, ToolResult
from toolyard.model.errors import CallError, ErrorInfo, InvalidArguments, InvalidOutput, SessionError, ToolFailed
from toolyard.model.json_schema import LEAVES, is_small, is_within_limits
from toolyard.model.tool import Effects, Tool
from toolyard.parsing.json_text import json_decoder
from toolyard.registry.bind import Bound
from toolyard.registry.function_call import make_tool_error
from toolyard.schema.violations import describe
from toolyard.sessions.history import any_call_text, call_text, entry_text, fill_frame, result_text
from toolyard.sessions.state import Changes
from toolyard.words.redactor import Redactor, credential_finder, is_redacted_at

_encode = msgspec.json.encode
_decode = json_decoder()
_NO_CHANGES: Changes = {}
_MAX_DEPTH = 500
_QUICK = 2_000
"""Number of values of an answer that can be examined in a few milliseconds."""
_LONG = 1024 * 1024
"""Bytes of an answer that can be decoded and compared in a few milliseconds."""
_LEAVES = frozenset({str, int, bool, type(None)})


def _refuse(value: Any) -> Any:
    raise TypeError(type(value).__name__)


_encode_plain = msgspec.json.Encoder(enc_hook=_refuse).encode


class _LongAnswerError(Exception):
    """The text of an answer is too long to be examined on an event loop."""


def plain_answer(value: Any, invocation: Invocation, max_bytes: int, on_loop: bool = False) -> tuple[Any, bytes]:
    """The value as plain data and its JSON text; `InvalidOutput` if it cannot be JSON or is too large."""
    kind = type(value)
    if kind in _LEAVES:
        text, plain = _encode_leaf(value, invocation), value
    else:
        # The most common answer is an object whose values are not nested.
        is_flat = kind is dict and len(value) < _QUICK and LEAVES.issuperset(map(type, value.values()))
        if not is_flat and not is_small(value):
            _check_size(value, invocation, max_bytes)
        try:
            text = _encode_plain(value)
            if on_loop and len(text) > _LONG:
                raise _LongAnswerError
            plain = _decode(text)
            if plain != value:
                text, plain = _encode_objects(value, invocation, max_bytes)
        except (TypeError, ValueError, RecursionError):
            text, plain = _encode_objects(value, invocation, max_bytes)
    if len(text) > max_bytes:
        raise InvalidOutput(
            f"{invocation.tool.qualified_name} answered with {len(text):,} bytes of JSON; the limit is {max_bytes:,}",
            hint="ask for less, or raise max_result_bytes; nothing was cut",
            details={"max_result_bytes": max_bytes},
        )
    return plain, text


def _encode_leaf(value: Any, invocation: Invocation) -> bytes:
    try:
        return _encode(value)
    except ValueError:
        # An integer with too many digits, or a lone surrogate.
        raise _not_json(value, invocation) from None


def check_output(plain: Any, invocation: Invocation, settings: Settings) -> list[dict[str, str]]:
    """The violations of the tool's output schema; raises `InvalidOutput` instead if the check is strict."""
    prepared = invocation.bound.prepared
    if invocation.fault is not None and invocation.fault.alters_answer:
        return []
    if settings.output_check == "off" or not prepared.output_parameters:
        return []
    violations = prepared.output.violations(plain)
    if invocation.replayed:
        violations = [violation for violation in violations if not is_redacted_at(plain, violation.pointer)]
    if not violations:
        return []  # long answers get here without having been validated
    listed = [violation.to_dict() for violation in violations]
    if settings.output_check == "strict":
        raise InvalidOutput(
            f"{invocation.tool.qualified_name} answered with something its output schema does not allow: "
            f"{describe(violations)}",
            details={"violations": listed},
        )
    return listed


def make_result(
    plan: CallPlan, invocation: Invocation, value: Any, on_loop: bool = False
) -> tuple[ToolResult, bytes, Changes] | None:
    """The result for an answer, its entry, and the state changes; raises `CallError` for an invalid answer.

    With `on_loop`, returns None, without side effects, if this may take more than a few milliseconds.
    """
    call, bound, changes = invocation.call, invocation.bound, _NO_CHANGES
    metadata: dict[str, Any] = {}
    try:
        if type(value) is Content:
            if value.kept is not None:
                metadata = {CONTENT: plain_answer(value.kept, invocation, plan.max_result_bytes, on_loop)[0]}
            value = value.result
        if on_loop and _is_large(value):
            return None
        plain, text = plain_answer(value, invocation, plan.max_result_bytes, on_loop)
    except _LongAnswerError:
        return None
    except (CallError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # Encoding generators, mappings and computed fields runs code of the tool, which may raise anything.
        raise make_tool_error(invocation.tool, error) from error
    invocation.result_bytes = len(text)
    if plan.accepts_output is not None and (len(text) > plan.small_output or not plan.accepts_output(plain)):
        if on_loop:
            return None
        if violations := check_output(plain, invocation, plan.settings):
            metadata["output_violations"] = violations
    if plan.is_direct:
        if bound.coercions:
            metadata |= call_metadata(bound, None)
    else:
        metadata |= call_metadata(bound, invocation)
        if invocation.secrets:
            # After the check, which must see the original answer.
            finder = credential_finder(invocation.secrets)
            metadata = finder.hide(metadata) if metadata else metadata
            if finder.occur_in(text):
                plain = finder.hide(plain)
                text = _encode(plain)
        changes = kept_changes(invocation)
    result = ToolResult(call.call_id, plan.name, plain, None, metadata, None, call.overload)
    if not invocation.session.is_recorded:
        return result, b"", changes
    if metadata or plain is None or call.overload is not None or call.name != plan.name:
        return result, entry_text(call_text(call, bound.sent), result_text(result, text)), changes
    return result, fill_frame(plan.entry_frame, bound.sent, call.call_id, text), changes


def call_metadata(bound: Bound | None, invocation: Invocation | None) -> dict[str, Any]:
    """Metadata of a result about its call, as far as the call got: coercions, attempts, fault, simulator."""
    metadata: dict[str, Any] = {}
    if bound is not None and bound.coercions:
        metadata["coercions"] = [coercion.to_dict() for coercion in bound.coercions]
    if invocation is not None and invocation.attempt > 1:
        metadata["attempts"] = invocation.attempt
    if invocation is not None and invocation.fault is not None:
        metadata["fault"] = invocation.fault.metadata
    if invocation is not None and invocation.simulated_by is not None:
        metadata["simulated_by"] = invocation.simulated_by
    return metadata


def kept_changes(invocation: Invocation) -> Changes:
    """The changes of the engine's state; `ToolFailed` if they are not JSON, which is a defect of the engine."""
    if invocation.kept is None:
        return _NO_CHANGES
    try:
        return invocation.kept.changes()
    except SessionError as error:
        raise ToolFailed(f"{invocation.tool.qualified_name} was answered, but {error}", effect="done") from error


def _encode_objects(value: Any, invocation: Invocation, max_bytes: int) -> tuple[bytes, Any]:
    """Text and value of an answer that contains objects other than plain JSON."""
    if hasattr(type(value), "__next__"):
        # An iterator can be consumed only once, and may be infinite.
        value = list(islice(value, count_values(max_bytes) + 1))
    finished = _finish_objects(value, invocation)
    _check_size(finished, invocation, max_bytes)
    try:
        text = _encode_plain(finished)
        return text, _decode(text)
    except (TypeError, ValueError, RecursionError):
        raise _not_json(value, invocation) from None


def _is_large(value: Any) -> bool:
    """True if an answer has too many values, or an unknown number, to be examined on an event loop."""
    if is_small(value):
        return False
    return hasattr(type(value), "__next__") or not is_within_limits(value, max_values=_QUICK, max_depth=_MAX_DEPTH)


def _check_size(value: Any, invocation: Invocation, max_bytes: int) -> None:
    # Before encoding: a cyclic value, or one that doubles at every level, would use up all memory.
    max_values = count_values(max_bytes)
    if not is_within_limits(value, max_values=max_values, max_depth=_MAX_DEPTH):
        raise InvalidOutput(
            f"{invocation.tool.qualified_name} answered with over {max_values:,} values, or over {_MAX_DEPTH} levels",
            hint="ask for less, or raise max_result_bytes (32 bytes for each value); nothing was cut",
            details={"max_result_bytes": max_bytes, "max_values": max_values},
        )


def _finish_objects(value: Any, invocation: Invocation) -> Any:
    """Convert objects to plain JSON and refuse NaN. Slow; plain answers do not need it."""
    from toolyard.schema.derive.types import make_finisher

    binding = invocation.tool.binding
    finish = binding.finish if isinstance(binding, PythonBinding) else None
    return (finish or make_finisher(invocation.tool.qualified_name, None, plain=False))(value)


def _not_json(value: Any, invocation: Invocation) -> InvalidOutput:
    return InvalidOutput(
        f"{invocation.tool.qualified_name} answered with {type(value).__name__}, which JSON cannot carry",
        hint="return JSON values, a pydantic model or a dataclass",
    )


_log = logging.getLogger("toolyard.calls.failure")  # filters of users may name it
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
        shown = trace if len(trace) <= _TRACE else f"...{trace[-_TRACE:]}"
        told = f"{_escape_unprintable(kind)}: {_cut_end(said)} at {shown}"
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
    elif details:
        with suppress(TypeError, ValueError, RecursionError):  # not JSON; `failure_result` handles it
            if len(_encode(details)) > _LONGEST_DETAILS:
                details = {"left_out": f"the details are over {_LONGEST_DETAILS:,} bytes"}
    hint = info.hint if info.hint is None else info.hint[:_LONGEST_MESSAGE]
    return msgspec.structs.replace(info, message=message, hint=hint, details=details)


def _escape_halves(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
