"""`make_result`: converts an engine's answer to a `ToolResult` and a session entry.

The answer is encoded as JSON, its size is limited, and it is checked against the tool's output schema.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import CallPlan
from toolyard.calls.settings import Settings, count_values
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import CONTENT, Content, ToolResult
from toolyard.model.errors import CallError, InvalidOutput, SessionError, ToolFailed
from toolyard.model.json_schema import LEAVES, is_small, is_within_limits
from toolyard.registry.bind import Bound
from toolyard.registry.function_call import make_tool_error
from toolyard.schema.violations import describe
from toolyard.sessions.history import call_text, entry_text, fill_frame, result_text
from toolyard.sessions.state import Changes
from toolyard.words.redactor import credential_finder, is_redacted_at

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode
_NO_CHANGES: Changes = {}
_MAX_DEPTH = 500
_QUICK = 2_000
"""Number of values of an answer that can be examined in a few milliseconds."""
_LEAVES = frozenset({str, int, bool, type(None)})


def _refuse(value: Any) -> Any:
    raise TypeError(type(value).__name__)


_encode_plain = msgspec.json.Encoder(enc_hook=_refuse).encode


def plain_answer(value: Any, invocation: Invocation, max_bytes: int) -> tuple[Any, bytes]:
    """The value as plain data and its JSON text; `InvalidOutput` if it cannot be JSON or is too large."""
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
    """The value of content blocks, and metadata that keeps the blocks if they contain more than the value."""
    kept = content.kept
    return content.result, {} if kept is None else {CONTENT: plain_answer(kept, invocation, max_bytes)[0]}


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
    call, bound = invocation.call, invocation.bound
    metadata: dict[str, Any] = {}
    try:
        if type(value) is Content:
            value, metadata = plain_content(value, invocation, plan.max_result_bytes)
        if on_loop and _is_large(value):
            return None
        plain, text = plain_answer(value, invocation, plan.max_result_bytes)
    except CallError:
        raise
    except (Exception, SystemExit) as error:
        # Encoding generators, mappings and computed fields runs code of the tool, which may raise anything.
        raise make_tool_error(invocation.tool, error) from error
    invocation.result_bytes = len(text)
    if plan.accepts_output is not None and (len(text) > plan.small_output or not plan.accepts_output(plain)):
        if on_loop:
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
            # After the check, which must see the original answer.
            plain, text, metadata = hide_echoes(invocation.secrets, plain, text, metadata)
        changes = kept_changes(invocation)
    result = ToolResult(call.call_id, plan.name, plain, None, metadata, None, call.overload)
    if not invocation.session.is_recorded:
        return result, b"", changes
    if metadata or plain is None or call.overload is not None or call.name != plan.name:
        return result, entry_text(call_text(call, bound.sent), result_text(result, text)), changes
    return result, fill_frame(plan.entry_frame, bound.sent, call.call_id, text), changes


def hide_echoes(
    secrets: tuple[str, ...], plain: Any, text: bytes, metadata: dict[str, Any]
) -> tuple[Any, bytes, dict[str, Any]]:
    """Remove the operator's credentials from value, text and metadata of an answer."""
    finder = credential_finder(secrets)
    if finder.occur_in(text):
        plain = finder.hide(plain)
        text = _encode(plain)
    return plain, text, finder.hide(metadata) if metadata else metadata


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


def _is_flat(value: Any) -> bool:
    """True for the most common answer: an object whose values are not nested."""
    return type(value) is dict and len(value) < _QUICK and LEAVES.issuperset(map(type, value.values()))


def _is_large(value: Any) -> bool:
    """True if an answer has too many values, or an unknown number, to be examined on an event loop."""
    if type(value) in _LEAVES or _is_flat(value) or is_small(value):
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


def _too_large(invocation: Invocation, size: str, limit: int) -> InvalidOutput:
    return InvalidOutput(
        f"{invocation.tool.qualified_name} answered with {size} bytes of JSON; the limit is {limit:,}",
        hint="ask for less, or raise max_result_bytes; nothing was cut",
        details={"max_result_bytes": limit},
    )
