"""What an engine answered, or raised, as a `ToolResult` and as the entry that a session keeps of it.

What went wrong is told bounded, redacted, in valid UTF-8. Callers on the other side of a wire are told of a tool's own
exception where the log has it, no more: its text may hold paths, queries and other people's data. A tool that has
something to say to its caller raises `ToolFailed`.
"""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import CallPath, CallPlan, Settings, count_values
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import CONTENT, Content, ToolCall, ToolResult
from toolyard.model.errors import CallError, ErrorInfo, InvalidArguments, InvalidOutput, SessionError, ToolFailed
from toolyard.model.tool import Effects, Tool
from toolyard.model.tree_size import LEAVES, fits, is_small
from toolyard.registry.bind import Bound
from toolyard.registry.function_call import tool_failed
from toolyard.schema.violations import describe
from toolyard.sessions.history import any_call_text, call_text, entry_text, fill_frame, result_text
from toolyard.sessions.state import Changes
from toolyard.words.redactor import Redactor, echoes_of, hides

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode
_NO_CHANGES: Changes = {}
_MAX_DEPTH = 500
_QUICK = 2_000
"""Values of an answer that are looked at in a few milliseconds."""
_LEAVES = frozenset({str, int, bool, type(None)})


def _refuse(value: Any) -> Any:
    raise TypeError(type(value).__name__)


_encode_plain = msgspec.json.Encoder(enc_hook=_refuse).encode


def plain_answer(value: Any, invocation: Invocation, max_bytes: int) -> tuple[Any, bytes]:
    """The value as JSON of its own and its text; raises `InvalidOutput` for what is no JSON or too large."""
    kind = type(value)
    if kind in _LEAVES:
        text, plain = _encode_leaf(value, invocation), value
    else:
        if not _is_flat(value) and not is_small(value):
            _check_size(value, invocation, max_bytes)
        try:
            text = _encode_plain(value)
            plain = _decode(text)
            if plain != value:
                text, plain = _encode_objects(value, invocation, max_bytes)
        except (TypeError, ValueError, RecursionError):
            text, plain = _encode_objects(value, invocation, max_bytes)
    if len(text) > max_bytes:
        raise _too_large(invocation, f"{len(text):,}", max_bytes)
    return plain, text


def plain_content(content: Content, invocation: Invocation, max_bytes: int) -> tuple[Any, dict[str, Any]]:
    """The value of an answer in blocks, and the metadata that keeps them where they say more than that."""
    kept = content.kept
    return content.result, {} if kept is None else {CONTENT: plain_answer(kept, invocation, max_bytes)[0]}


def _encode_leaf(value: Any, invocation: Invocation) -> bytes:
    try:
        return _encode(value)
    except ValueError:
        # More digits than text may have, or half of a surrogate pair.
        raise _not_json(value, invocation) from None


def check_output(plain: Any, invocation: Invocation, settings: Settings) -> list[dict[str, str]]:
    """What the answer breaks of the tool's output schema; raises instead where the check is strict."""
    prepared = invocation.bound.prepared
    if invocation.fault is not None and invocation.fault.unchecked:
        return []
    if settings.output_check == "off" or not prepared.output_parameters:
        return []
    violations = prepared.output.violations(plain)
    if invocation.replayed:
        violations = [violation for violation in violations if not hides(plain, violation.pointer)]
    if not violations:
        return []  # a long answer comes here before anybody has judged it
    listed = [violation.to_dict() for violation in violations]
    if settings.output_check == "strict":
        raise InvalidOutput(
            f"{invocation.tool.qualified_name} answered with something its output schema does not allow: "
            f"{describe(violations)}",
            details={"violations": listed},
        )
    return listed


def make_result(
    plan: CallPlan, invocation: Invocation, value: Any, at_once: bool = False
) -> tuple[ToolResult, bytes, Changes] | None:
    """The result of an answer, its entry, and what the call changed; raises where the answer is no good.

    With `at_once`, None for what may take more than a few milliseconds, of which nothing was done yet.
    """
    call, bound = invocation.call, invocation.bound
    metadata: dict[str, Any] = {}
    try:
        if type(value) is Content:
            value, metadata = plain_content(value, invocation, plan.max_result_bytes)
        if at_once and _is_large(value):
            return None
        plain, text = plain_answer(value, invocation, plan.max_result_bytes)
    except CallError:
        raise
    except (Exception, SystemExit) as error:
        # Generators, mappings and computed fields run the tool's own code when they are written down.
        raise tool_failed(invocation.tool, error) from error
    invocation.result_bytes = len(text)
    if plan.accepts_output is not None and (len(text) > plan.small_output or not plan.accepts_output(plain)):
        if at_once:
            return None
        violations = check_output(plain, invocation, plan.settings)
        if violations:
            metadata["output_violations"] = violations
    changes = _NO_CHANGES
    if plan.is_direct:
        if bound.coercions:
            metadata |= call_metadata(bound, None)
    else:
        metadata |= call_metadata(bound, invocation)
        if invocation.secrets:
            # Behind the check: what was answered is judged, not what is left of it.
            plain, text, metadata = hide_echoes(invocation.secrets, plain, text, metadata)
        changes = kept_changes(invocation)
    result = ToolResult(call.call_id, plan.name, plain, None, metadata, None, call.overload)
    if not invocation.session.kept:
        return result, b"", changes
    if metadata or plain is None or call.overload is not None or call.name != plan.name:
        return result, entry_text(call_text(call, bound.sent), result_text(result, text)), changes
    return result, fill_frame(plan.entry_frame, bound.sent, call.call_id, text), changes


def hide_echoes(
    secrets: tuple[str, ...], plain: Any, text: bytes, metadata: dict[str, Any]
) -> tuple[Any, bytes, dict[str, Any]]:
    """Value, text and metadata of an answer without the operator's credentials."""
    echoes = echoes_of(secrets)
    if echoes.occur_in(text):
        plain = echoes.hide(plain)
        text = _encode(plain)
    return plain, text, echoes.hide(metadata) if metadata else metadata


def call_metadata(bound: Bound | None, invocation: Invocation | None) -> dict[str, Any]:
    """What the metadata of a result says of how the call went, as far as it came."""
    metadata: dict[str, Any] = {}
    if bound is not None and bound.coercions:
        metadata["coercions"] = [coercion.to_dict() for coercion in bound.coercions]
    if invocation is not None and invocation.attempt > 1:
        metadata["attempts"] = invocation.attempt
    if invocation is not None and invocation.fault is not None:
        metadata["fault"] = invocation.fault.told
    if invocation is not None and invocation.simulated_by is not None:
        metadata["simulated_by"] = invocation.simulated_by
    return metadata


def kept_changes(invocation: Invocation) -> Changes:
    """What the call changed in its engine's state; what JSON cannot carry is the engine's fault, told as such."""
    if invocation.kept is None:
        return _NO_CHANGES
    try:
        return invocation.kept.changes()
    except SessionError as error:
        raise ToolFailed(f"{invocation.tool.qualified_name} was answered, but {error}", effect="done") from error


def _encode_objects(value: Any, invocation: Invocation, max_bytes: int) -> tuple[bytes, Any]:
    """Text and value of what is no JSON yet."""
    if hasattr(type(value), "__next__"):
        # It can be gone through once, and need not end.
        value = list(islice(value, count_values(max_bytes) + 1))
    finished = _finish_objects(value, invocation)
    _check_size(finished, invocation, max_bytes)
    try:
        text = _encode_plain(finished)
        return text, _decode(text)
    except (TypeError, ValueError, RecursionError):
        raise _not_json(value, invocation) from None


def _is_flat(value: Any) -> bool:
    """True for the commonest answer: an object of a few values that hold nothing else."""
    return type(value) is dict and len(value) < _QUICK and LEAVES.issuperset(map(type, value.values()))


def _is_large(value: Any) -> bool:
    """True for an answer of so many values, or nobody knows how many, that a loop has no time to look at them all."""
    if type(value) in _LEAVES or _is_flat(value) or is_small(value):
        return False
    return hasattr(type(value), "__next__") or not fits(value, max_values=_QUICK, max_depth=_MAX_DEPTH)


def _check_size(value: Any, invocation: Invocation, max_bytes: int) -> None:
    # Before it is written: what refers to itself, or doubles at every level, would take all memory.
    max_values = count_values(max_bytes)
    if not fits(value, max_values=max_values, max_depth=_MAX_DEPTH):
        raise InvalidOutput(
            f"{invocation.tool.qualified_name} answered with over {max_values:,} values, or over {_MAX_DEPTH} levels",
            hint="ask for less, or raise max_result_bytes, of which there must be 32 for each value; nothing was cut",
            details={"max_result_bytes": max_bytes, "max_values": max_values},
        )


def _finish_objects(value: Any, invocation: Invocation) -> Any:
    """Objects as JSON, and NaN refused: the long way, which the commonest answers never take."""
    from toolyard.schema.derive.function import finisher

    binding = invocation.tool.binding
    finish = binding.finish if isinstance(binding, PythonBinding) else None
    return (finish or finisher(invocation.tool.qualified_name, None, plain=False))(value)


def _not_json(value: Any, invocation: Invocation) -> InvalidOutput:
    return InvalidOutput(
        f"{invocation.tool.qualified_name} answered with {type(value).__name__}, which JSON cannot carry",
        hint="return JSON values, a pydantic model or a dataclass",
    )


def _too_large(invocation: Invocation, size: str, limit: int) -> InvalidOutput:
    return InvalidOutput(
        f"{invocation.tool.qualified_name} answered with {size} bytes of JSON; the limit is {limit:,}",
        hint="ask for less, or raise max_result_bytes; nothing was cut",
        details={"max_result_bytes": limit},
    )


_log = logging.getLogger(__name__)

_READ = 20_000
"""Characters of an exception's text that are looked at."""
_SHOWN = 500
"""Characters of it that are logged."""
_FRAMES = 20
_TRACE = 2000
"""Characters of a traceback of another process that are logged, from its end."""
_LONGEST_MESSAGE = 4_000
_MOST_DETAILS = 20_000
_DEEPEST_DETAILS = 50
_LONGEST_DETAILS = 256 * 1024


def failure_result(
    call: ToolCall, bound: Bound | None, invocation: Invocation | None, error: CallError, path: CallPath
) -> tuple[ToolResult, bytes, Changes]:
    """The result of a call that failed, its entry, and no changes: only here an exception becomes a `ToolResult`."""
    redactor = path.redactor
    info = error.info
    if path.discreet and bound is not None and is_own_exception(error):
        info = _mask_exception(error, bound.tool, redactor)
    elif _log.isEnabledFor(logging.DEBUG) and is_own_exception(error):
        _log.debug("%s failed: %s", call.name, _describe_exception(error.__cause__ or error, redactor))
    # Frames of it know the future by which it came, which knows it: what a call held would wait to be collected.
    error.__traceback__ = None
    info = redact_info(_bound_info(info), redactor.value)
    if invocation is not None and invocation.secrets:
        info = redact_info(info, echoes_of(invocation.secrets).hide)
    if invocation is not None and invocation.tool.effects is Effects.READ:
        # What only reads has changed nothing, however it failed.
        info = msgspec.structs.replace(info, effect="none")
    metadata = call_metadata(bound, invocation)
    try:
        result = ToolResult.failed(call, info, **metadata)
        if bound is not None:
            # Whatever it was called, this is the tool that was meant.
            result = msgspec.structs.replace(result, name=bound.tool.qualified_name)
        sent = bound.sent if bound is not None else error.sent if isinstance(error, InvalidArguments) else b""
        text = call_text(call, sent) if sent else any_call_text(call)
        return result, entry_text(text, result_text(result, b"null")), _NO_CHANGES
    except (TypeError, ValueError, RecursionError):
        # Half of a surrogate pair, or details of a tool's own that are no JSON: no store can keep that.
        result = ToolResult.failed(_escape_call(call), _escape_info(info), **metadata)
        return result, entry_text(any_call_text(_escape_call(call)), result_text(result, b"null")), _NO_CHANGES


def redact_info(info: ErrorInfo, redact: Callable[[Any], Any]) -> ErrorInfo:
    """The facts of an error without secrets, which `redact` takes out of a value."""
    hint = None if info.hint is None else redact(info.hint)
    details = redact(info.details) if info.details else info.details
    return msgspec.structs.replace(info, message=redact(info.message), hint=hint, details=details)


def is_own_exception(error: CallError) -> bool:
    """True if the tool raised something that was not meant as an answer."""
    return isinstance(error, ToolFailed) and error.unforeseen


def _mask_exception(error: CallError, tool: Tool, redactor: Redactor) -> ErrorInfo:
    """Log the exception under an id, and tell the caller the id."""
    cause, number = error.__cause__ or error, secrets.token_hex(6)
    told = _describe_exception(cause, redactor)
    kind = type(cause).__name__
    if isinstance(cause, ToolFailed) and cause.trace:
        # It was raised in another process, where its type and its frames are.
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
    """Kind, text and frames of an exception, the innermost first.

    Whoever made a tool fail may have written its text: it is quoted, so that it can neither begin a line of its own
    nor reach a terminal, and cut.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
    kind, text = _escape_unprintable(type(error).__name__), ascii(redactor.text(_exception_text(error)))
    return f"{kind}: {_cut_end(text)} at {_escape_unprintable(redactor.text(where))}"


def _exception_text(error: BaseException) -> str:
    try:
        return str(error)[:_READ]
    except Exception as odd:  # noqa: BLE001 - a tool's own exception may raise anything when it is asked for its text
        return f"(it cannot be shown: {type(odd).__name__})"


def _escape_unprintable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else ascii(text)


def _cut_start(text: str) -> str:
    return text if len(text) <= _TRACE else f"...{text[-_TRACE:]}"


def _cut_end(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def check_writable(call_id: str) -> None:
    """Refuse a call whose id no history could hold, before anything is done for it."""
    if not call_id.isascii() and _escape_halves(call_id) != call_id:
        raise InvalidArguments("the call id holds half of a surrogate pair", hint="send an id that is valid UTF-8")


def _escape_call(call: ToolCall) -> ToolCall:
    """The call with such halves written as escapes; its arguments are left to whoever records them."""
    texts = {
        field: _escape_halves(text)
        for field in ("name", "call_id", "overload")
        if (text := getattr(call, field)) is not None
    }
    return msgspec.structs.replace(call, **texts)


def _escape_info(info: ErrorInfo) -> ErrorInfo:
    """The error's words with such halves written as escapes; details that JSON cannot carry are left out."""
    details = info.details
    try:
        msgspec.json.encode(details)
    except (TypeError, ValueError, RecursionError):
        details = {}
    hint = None if info.hint is None else _escape_halves(info.hint)
    return msgspec.structs.replace(info, message=_escape_halves(info.message), hint=hint, details=details)


def _bound_info(info: ErrorInfo) -> ErrorInfo:
    """The error within limits of its own: it is recorded, traced and sent to a model like any other answer."""
    message = info.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}... ({len(message):,} characters, the first {_LONGEST_MESSAGE:,} shown)"
    details = info.details
    if details and not fits(details, max_values=_MOST_DETAILS, max_depth=_DEEPEST_DETAILS):
        details = {"left_out": "the details are too large or too deep"}
    elif details and _encoded_size(details) > _LONGEST_DETAILS:
        details = {"left_out": f"the details are over {_LONGEST_DETAILS:,} bytes"}
    hint = info.hint if info.hint is None else info.hint[:_LONGEST_MESSAGE]
    return msgspec.structs.replace(info, message=message, hint=hint, details=details)


def _encoded_size(details: dict[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(details))
    except (TypeError, ValueError, RecursionError):
        return 0  # told apart where it is written


def _escape_halves(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
