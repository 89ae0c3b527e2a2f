"""What an engine answered, as plain JSON within the limits, checked against what the tool promises."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.calls.redact import hides
from toolyard.calls.settings import Settings
from toolyard.model.bindings import PythonBinding
from toolyard.model.content import CONTENT, Content
from toolyard.model.errors import InvalidOutput, SessionError, ToolFailed
from toolyard.model.tree_size import fits
from toolyard.schema.violations import describe
from toolyard.sessions.state import Changes

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_MAX_DEPTH = 500
_LEAVES = frozenset({str, int, bool, type(None)})


def plain_answer(value: Any, invocation: Invocation, max_bytes: int) -> tuple[Any, bytes]:
    """The value as JSON of its own and its text; raises `InvalidOutput` for what is no JSON or too large."""
    if type(value) in _LEAVES:
        text, plain = _leaf(value, invocation), value
    else:
        text, plain = _written(value, invocation, max_bytes)
    if len(text) > max_bytes:
        raise _too_large(invocation, f"{len(text):,}", max_bytes)
    return plain, text


def plain_content(content: Content, invocation: Invocation, max_bytes: int) -> tuple[Any, dict[str, Any]]:
    """The value of an answer in blocks, and the metadata that keeps them where they say more than that."""
    kept = content.kept
    return content.result, {} if kept is None else {CONTENT: plain_answer(kept, invocation, max_bytes)[0]}


def _leaf(value: Any, invocation: Invocation) -> bytes:
    try:
        return _encode(value)
    except ValueError:
        # More digits than text may have, or half of a surrogate pair.
        raise _not_json(value, invocation) from None


def check_output(plain: Any, invocation: Invocation, settings: Settings) -> list[dict[str, str]]:
    """What the answer breaks of the tool's output schema; raises instead where the check is strict."""
    candidate = invocation.bound.candidate
    if invocation.fault is not None and invocation.fault.unchecked:
        return []
    if settings.output_check == "off" or not invocation.tool.output_parameters or candidate is None:
        return []
    if candidate.output.is_valid(plain):
        return []
    violations = candidate.output.violations(plain)
    if invocation.replayed:
        violations = [violation for violation in violations if not hides(plain, violation.pointer)]
        if not violations:
            return []
    listed = [violation.to_dict() for violation in violations]
    if settings.output_check == "strict":
        raise InvalidOutput(
            f"{invocation.tool.qualified_name} answered with something its output schema does not allow: "
            f"{describe(violations)}",
            details={"violations": listed},
        )
    return listed


def kept_changes(invocation: Invocation) -> Changes:
    """What the call changed in its engine's state; what JSON cannot carry is the engine's fault, told as such."""
    if invocation.kept is None:
        return {}
    try:
        return invocation.kept.changes()
    except SessionError as error:
        raise ToolFailed(f"{invocation.tool.qualified_name} was answered, but {error}", effect="done") from error


def _written(value: Any, invocation: Invocation, max_bytes: int) -> tuple[bytes, Any]:
    _check_size(value, invocation, max_bytes)
    try:
        text = _encode(value, enc_hook=_refuse)
        plain = _decode(text)
        if plain == value:
            return text, plain
    except (TypeError, ValueError, RecursionError):
        pass  # no JSON yet
    if hasattr(type(value), "__next__"):
        # It can be gone through once, and need not end.
        value = list(islice(value, max_bytes))
    finished = _finished(value, invocation)
    _check_size(finished, invocation, max_bytes)
    try:
        text = _encode(finished, enc_hook=_refuse)
        return text, _decode(text)
    except (TypeError, ValueError, RecursionError):
        raise _not_json(value, invocation) from None


def _check_size(value: Any, invocation: Invocation, max_bytes: int) -> None:
    # Before it is written: what refers to itself, or doubles at every level, would take all memory.
    if not fits(value, max_values=max_bytes, max_depth=_MAX_DEPTH):
        raise _too_large(invocation, "far more", max_bytes)


def _finished(value: Any, invocation: Invocation) -> Any:
    """Objects as JSON, and NaN refused: the long way, which the commonest answers never take."""
    from toolyard.schema.derive_values import finisher

    binding = invocation.tool.binding
    finish = binding.finish if isinstance(binding, PythonBinding) else None
    return (finish or finisher(invocation.tool.qualified_name, None, plain=False))(value)


def _refuse(value: Any) -> Any:
    raise TypeError(type(value).__name__)


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
