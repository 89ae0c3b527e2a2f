"""Which overload runs, and with which arguments: the one bind every path shares.

The candidates whose schema accepts the arguments compete; the most specific wins (most declared
properties used, then fewest undeclared), a tie goes to the first registered. Lossless repairs are
tried only when nothing matches exactly. Arguments that no schema accepts never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from toolyard.model.call import ToolCall
from toolyard.model.errors import InvalidArguments, UnknownToolError
from toolyard.model.names import closest, show
from toolyard.model.tool import Tool
from toolyard.model.tree_size import LEAVES, is_small
from toolyard.registry.prepared import Arguments, PreparedTool, json_text, plain_copy, read_arguments, takes_long
from toolyard.registry.snapshot import Snapshot
from toolyard.schema.coerce import Coercion, coerce, integral_floats
from toolyard.schema.compile import QUICK_BYTES
from toolyard.schema.violations import MAX_VIOLATIONS, Misfit, Violation, describe

_has_integral = re.compile(rb"\.0+(?![0-9])|[0-9][eE]").search
"""Whether JSON text may hold 3.0, or 1e16."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Bound(msgspec.Struct, frozen=True):
    """A call ready to run: the overload, the arguments it gets, and what was repaired."""

    tool: Tool
    arguments: Arguments
    """A copy that shares nothing with the caller's; their own object where nothing was to be repaired."""
    prepared: PreparedTool
    coercions: tuple[Coercion, ...] = ()
    sent: bytes = b""
    """The arguments as they were sent, as JSON text; empty where nothing was to be repaired."""


class TakesLong(Exception):
    """It may take longer than an event loop has, and nothing was done yet; a thread should do it."""


def bind(snapshot: Snapshot, call: ToolCall, candidates: tuple[PreparedTool, ...] = (), at_once: bool = False) -> Bound:
    """Resolve and check one call; raises `UnknownToolError` or `InvalidArguments`.

    `candidates` are what its name stands for, where somebody has found that out already. With `at_once`, it raises
    `TakesLong` for what may take more than a few milliseconds.
    """
    candidates = candidates or snapshot.names.get(call.name) or find(snapshot, call.name)
    if call.overload is not None:
        candidates = pin_overload(candidates, call)
    arguments = call.arguments
    if len(candidates) == 1 and type(arguments) is dict and (not at_once or candidates[0].is_ready):
        bound = _bind_small(candidates[0], arguments)
        if bound is not None:
            return bound
    if at_once and takes_long(candidates, arguments):
        raise TakesLong
    arguments = read_arguments(arguments)
    sent = json_text(arguments)
    try:
        return _bind_slowly(candidates, arguments, sent)
    except InvalidArguments as error:
        if arguments is call.arguments:
            error.sent = sent
        raise


def _bind_small(prepared: PreparedTool, arguments: Arguments) -> Bound | None:
    """The hot half of `bind`, for a few values that fit as they are; None where only the other half can tell."""
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
        # Equal to what was sent: nothing in it was dropped or changed by writing and reading.
        if not judge(copy) or copy != arguments:
            return None
    except (ValueError, TypeError):
        return None
    repairs: tuple[Coercion, ...] = ()
    if integers is not None and (float in kinds or not is_flat) and _has_integral(sent):
        if len(sent) > QUICK_BYTES:
            return None
        copy, repairs = integral_floats(copy, integers)
    return Bound(prepared.tool, prepared.with_defaults(copy) if defaults else copy, prepared, repairs, sent)


def _bind_slowly(candidates: tuple[PreparedTool, ...], arguments: Arguments, sent: bytes) -> Bound:
    arguments = plain_copy(arguments, sent)
    winner = _most_specific(candidates, arguments, len(sent)) if len(candidates) > 1 else None
    repairs: Sequence[Coercion] = ()
    if winner is None:
        winner, arguments, repairs = _coerced(candidates, arguments)
    if winner.integers is not None and _has_integral(sent):
        arguments, integers = integral_floats(arguments, winner.integers)
        repairs = (*repairs, *integers)
    return Bound(winner.tool, winner.with_defaults(arguments), winner, tuple(repairs), sent)


def choose_overload(candidates: tuple[PreparedTool, ...], arguments: Arguments) -> PreparedTool:
    """The one that accepts the arguments as they are."""
    winner = _most_specific(candidates, arguments)
    if winner is None:
        raise refusal(candidates, arguments)
    return winner


def find(
    snapshot: Snapshot,
    name: str,
    *,
    sees: Callable[[Tool], bool] | None = None,
    hints: bool | Callable[[Tool], bool] = True,
) -> tuple[PreparedTool, ...]:
    """Every overload of a qualified name, an alias, or a bare name that only one namespace has.

    With `sees`, tools for which it is False are not there. Hints cost more than everything else here: there are none,
    or they name those tools alone for which `hints` is True.
    """
    found = snapshot.names.get(name) or snapshot.names.get(snapshot.aliases.get(name, ""))
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
    near = closest(str(name), names)
    hint = hint_missing(snapshot if hints is True else None, name, near)
    raise UnknownToolError(f"no tool is called {show(name)}", hint=hint, details={"candidates": near} if near else {})


def hint_missing(snapshot: Snapshot | None, name: str, near: Sequence[str] = ()) -> str | None:
    """That an entry of that name was rejected, and why, for whoever sees the whole snapshot; or names that are near."""
    rejected = None if snapshot is None else snapshot.report.explain_missing(str(name))
    return rejected or (f"did you mean {' or '.join(near)}?" if near else None)


def pin_overload(candidates: tuple[PreparedTool, ...], call: ToolCall) -> tuple[PreparedTool, ...]:
    """Those of the candidates that the call is pinned to."""
    chosen = tuple(c for c in candidates if c.tool.fingerprint.startswith(call.overload or ""))
    if not chosen:
        raise UnknownToolError(f"{show(call.name)} has no overload with fingerprint {show(call.overload)}")
    return chosen


def _most_specific(
    candidates: Sequence[PreparedTool], arguments: Arguments, size: int | None = None
) -> PreparedTool | None:
    # With the arguments given, "fewest undeclared" is the same order as "most declared used".
    best, most = None, -1
    for candidate in candidates:
        if candidate.accepts(arguments, size) and (used := _used(candidate, arguments)) > most:
            best, most = candidate, used
            if used == len(arguments):
                break
    return best


def _used(candidate: PreparedTool, arguments: Arguments) -> int:
    declared = candidate.declared
    return len(arguments) if arguments.keys() <= declared else len(arguments.keys() & declared)


def _coerced(
    candidates: tuple[PreparedTool, ...], arguments: Arguments
) -> tuple[PreparedTool, Arguments, Sequence[Coercion]]:
    best: tuple[int, PreparedTool, Arguments, Sequence[Coercion]] | None = None
    violations: list[list[Violation]] = []
    for candidate in candidates:
        faults: list[Misfit] = []
        repaired = coerce(candidate.compiled, arguments, faults)
        violations.append([fault.violation for fault in faults[:MAX_VIOLATIONS]])
        if repaired is not None:
            used = _used(candidate, repaired[0])
            if best is None or used > best[0]:
                best = (used, candidate, *repaired)
    if best is None:
        raise refusal(candidates, arguments, violations)
    return best[1:]


def refusal(
    candidates: tuple[PreparedTool, ...], arguments: Arguments, violations: Sequence[list[Violation]] = ()
) -> InvalidArguments:
    """The error for arguments that none of the candidates accepts, with the violations of each."""
    violations = violations or [candidate.compiled.violations(arguments) for candidate in candidates]
    if len(candidates) == 1:
        return candidates[0].refusal(arguments, violations[0])
    overloads = [(candidate.tool.fingerprint, found) for candidate, found in zip(candidates, violations, strict=True)]
    text = " | ".join(f"overload {print_[:8]}: {describe(found)}" for print_, found in overloads)
    return InvalidArguments(
        f"no overload of {candidates[0].tool.qualified_name} accepts the arguments: {text}",
        details={
            "overloads": [
                {"fingerprint": print_, "violations": [violation.to_dict() for violation in found]}
                for print_, found in overloads
            ]
        },
    )
