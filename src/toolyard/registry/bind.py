"""Choose the overload that a call runs and the arguments it gets; every call path shares this code.

Among the overloads whose schema accepts the arguments, the most specific wins (most declared properties used,
then fewest undeclared); a tie goes to the first registered. Lossless repairs are tried only if nothing matches
exactly. Arguments that no schema accepts never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from toolyard.model.call import ToolCall
from toolyard.model.errors import InvalidArguments, UnknownToolError
from toolyard.model.json_schema import LEAVES, is_small
from toolyard.model.names import find_similar_tools, show
from toolyard.model.report import LoadReport
from toolyard.model.tool import Tool
from toolyard.registry.prepared import Arguments, PreparedTool, json_text, may_block_loop, plain_copy, read_arguments
from toolyard.registry.snapshot import Snapshot
from toolyard.schema.coerce import Coercion, coerce, convert_integral_floats
from toolyard.schema.compile import QUICK_BYTES
from toolyard.schema.violations import MAX_VIOLATIONS, Misfit, Violation, describe

_has_integral = re.compile(rb"[0-9](?:\.0+(?![0-9])|[eE])").search
"""Whether JSON text may contain a float with an integral value, such as 3.0 or 1e16."""
_LONGEST_LIST = 200
"""Most characters of source names in a hint."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Bound(msgspec.Struct, frozen=True):
    """A call that is ready to run: the overload, its arguments, and the repairs made to them."""

    tool: Tool
    arguments: Arguments
    """A copy that shares nothing with the caller's object; that object itself if bound without coercion."""
    prepared: PreparedTool
    coercions: tuple[Coercion, ...] = ()
    sent: bytes = b""
    """The arguments as sent, as JSON text; empty if bound without coercion."""


class TooSlowForLoop(Exception):
    """Binding may take too long for an event loop. Nothing was done; bind again in a thread."""


def bind(snapshot: Snapshot, call: ToolCall, candidates: tuple[PreparedTool, ...] = (), on_loop: bool = False) -> Bound:
    """Resolve and validate one call; raises `UnknownToolError` or `InvalidArguments`.

    `candidates` are the overloads of the call's name, if the caller has resolved it already. With `on_loop`, raises
    `TooSlowForLoop` instead of working for more than a few milliseconds.
    """
    candidates = candidates or snapshot.names.get(call.name) or find_overloads(snapshot, call.name)
    if call.overload is not None:
        candidates = pin_overload(candidates, call)
    arguments = call.arguments
    if len(candidates) == 1 and type(arguments) is dict and (not on_loop or candidates[0].is_ready):
        bound = _bind_small(candidates[0], arguments)
        if bound is not None:
            return bound
    if on_loop and may_block_loop(candidates, arguments):
        raise TooSlowForLoop
    arguments = read_arguments(arguments)
    sent = json_text(arguments)
    try:
        return _bind_slowly(candidates, arguments, sent)
    except InvalidArguments as error:
        if arguments is call.arguments:
            error.sent = sent
        raise


def _bind_small(prepared: PreparedTool, arguments: Arguments) -> Bound | None:
    """Fast path of `bind`, for few arguments that are valid without repair; None to take the slow path."""
    kinds = set(map(type, arguments.values()))
    is_flat = kinds <= LEAVES
    if not is_flat and not is_small(arguments):
        return None
    judge, small_bytes, integers, defaults = prepared.terms
    try:
        sent = _encode(arguments)
        if len(sent) > small_bytes:
            return None
        copy = _decode(sent)
        # Equality shows that the JSON round trip dropped or changed nothing.
        if not judge(copy) or copy != arguments:
            return None
    except (ValueError, TypeError):
        return None
    repairs: tuple[Coercion, ...] = ()
    if integers is not None and (float in kinds or not is_flat) and _has_integral(sent):
        if len(sent) > QUICK_BYTES:
            return None
        copy, repairs = convert_integral_floats(copy, integers)
    return Bound(prepared.tool, prepared.with_defaults(copy) if defaults else copy, prepared, repairs, sent)


def _bind_slowly(candidates: tuple[PreparedTool, ...], arguments: Arguments, sent: bytes) -> Bound:
    arguments = plain_copy(arguments, sent)
    winner = _most_specific(candidates, arguments, len(sent)) if len(candidates) > 1 else None
    repairs: Sequence[Coercion] = ()
    if winner is None:
        winner, arguments, repairs = _bind_coerced(candidates, arguments)
    if winner.integers is not None and _has_integral(sent):
        arguments, integers = convert_integral_floats(arguments, winner.integers)
        repairs = (*repairs, *integers)
    return Bound(winner.tool, winner.with_defaults(arguments), winner, tuple(repairs), sent)


def choose_overload(candidates: tuple[PreparedTool, ...], arguments: Arguments) -> PreparedTool:
    """The most specific overload that accepts the arguments without repair; raises `InvalidArguments`."""
    winner = _most_specific(candidates, arguments)
    if winner is None:
        raise explain_invalid(candidates, arguments)
    return winner


def find_overloads(
    snapshot: Snapshot,
    name: str,
    *,
    sees: Callable[[Tool], bool] | None = None,
    hints: bool | Callable[[Tool], bool] = True,
) -> tuple[PreparedTool, ...]:
    """Every overload of a qualified name, an alias, or a bare name that only one namespace has.

    Raises `UnknownToolError`. Tools for which `sees` is False are treated as missing. `hints` is a predicate for the
    tools that the error may suggest; False leaves out suggestions, which cost more than the lookup.
    """
    try:
        found = snapshot.names.get(name) or snapshot.names.get(snapshot.aliases.get(name, ""))
    except TypeError:
        said = f"a tool is called by its name, not by a {type(name).__name__}"
        raise UnknownToolError(said, hint="pass a whole ToolCall to execute of an engine") from None
    if found and (sees is None or sees(found[0].tool)):
        return found
    homes: Sequence[str] = () if found else snapshot.bare_names.get(name, ())
    if sees is not None:
        homes = [home for home in homes if sees(snapshot.names[home][0].tool)]
    if len(homes) == 1:
        return snapshot.names[homes[0]]
    if homes:
        raise UnknownToolError(
            f"{show(name)} is in several namespaces; say which: {', '.join(homes)}", details={"candidates": list(homes)}
        )
    if hints is False:
        raise UnknownToolError(f"no tool is called {show(name)}")
    names: Iterable[str] = snapshot.names
    if hints is not True:
        names = [known for known, tools in snapshot.names.items() if hints(tools[0].tool)]
    near = find_similar_tools(str(name), names)
    hint = hint_missing(snapshot if hints is True else None, name, near)
    raise UnknownToolError(f"no tool is called {show(name)}", hint=hint, details={"candidates": near} if near else {})


def hint_missing(snapshot: Snapshot | None, name: str, near: Sequence[str] = ()) -> str | None:
    """The hint for a missing tool: if `snapshot` is given, why it was not loaded; similar names."""
    report = LoadReport() if snapshot is None else snapshot.report
    hints = [f"did you mean {' or '.join(near)}?"] if near else []
    failed = [source.source for source in report.sources if source.state == "failed"]
    if failed:
        hints.append(f"Sources that could not be loaded may have it: {', '.join(failed)[:_LONGEST_LIST]}")
    return report.explain_missing(str(name)) or " ".join(hints) or None


def pin_overload(candidates: tuple[PreparedTool, ...], call: ToolCall) -> tuple[PreparedTool, ...]:
    """The candidates whose fingerprint begins with the call's `overload`; raises `UnknownToolError`."""
    chosen = tuple(c for c in candidates if c.tool.fingerprint.startswith(call.overload or ""))
    if not chosen:
        raise UnknownToolError(f"{show(call.name)} has no overload with fingerprint {show(call.overload)}")
    return chosen


def _most_specific(
    candidates: Sequence[PreparedTool], arguments: Arguments, size: int | None = None
) -> PreparedTool | None:
    # For given arguments, "fewest undeclared" is the same order as "most declared used".
    best, most = None, -1
    for candidate in candidates:
        if candidate.accepts(arguments, size) and (used := _count_declared(candidate, arguments)) > most:
            best, most = candidate, used
            if used == len(arguments):
                break
    return best


def _count_declared(candidate: PreparedTool, arguments: Arguments) -> int:
    declared = candidate.declared
    return len(arguments) if arguments.keys() <= declared else len(arguments.keys() & declared)


def _bind_coerced(
    candidates: tuple[PreparedTool, ...], arguments: Arguments
) -> tuple[PreparedTool, Arguments, Sequence[Coercion]]:
    best: tuple[int, PreparedTool, Arguments, Sequence[Coercion]] | None = None
    violations: list[list[Violation]] = []
    for candidate in candidates:
        faults: list[Misfit] = []
        repaired = coerce(candidate.compiled, arguments, faults)
        violations.append([fault.violation for fault in faults[:MAX_VIOLATIONS]])
        if repaired is not None:
            used = _count_declared(candidate, repaired[0])
            if best is None or used > best[0]:
                best = (used, candidate, *repaired)
    if best is None:
        raise explain_invalid(candidates, arguments, violations)
    return best[1:]


def explain_invalid(
    candidates: tuple[PreparedTool, ...], arguments: Arguments, violations: Sequence[list[Violation]] = ()
) -> InvalidArguments:
    """The error for arguments that no candidate accepts, with the violations of each."""
    violations = violations or [candidate.compiled.violations(arguments) for candidate in candidates]
    if len(candidates) == 1:
        return candidates[0].explain_invalid(arguments, violations[0])
    overloads = [(candidate.tool.fingerprint, found) for candidate, found in zip(candidates, violations, strict=True)]
    text = " | ".join(f"overload {fingerprint[:8]}: {describe(found)}" for fingerprint, found in overloads)
    return InvalidArguments(
        f"no overload of {candidates[0].tool.qualified_name} accepts the arguments: {text}",
        details={
            "overloads": [
                {"fingerprint": fingerprint, "violations": [violation.to_dict() for violation in found]}
                for fingerprint, found in overloads
            ]
        },
    )
