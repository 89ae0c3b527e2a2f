"""Which overload runs, and with which arguments: the one bind every path shares.

The candidates whose schema accepts the arguments compete; the most specific wins (most declared
properties used, then fewest undeclared), a tie goes to the first registered. With `coerce`, lossless
repairs are tried only when nothing matches exactly. Arguments that no schema accepts never run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from toolyard.model.call import ToolCall
from toolyard.model.errors import InvalidArguments, UnknownToolError
from toolyard.model.json_words import closest
from toolyard.model.names import show
from toolyard.model.tool import Tool
from toolyard.registry.arguments import SURELY_SMALL, Arguments, json_text, plain_copy, read_arguments
from toolyard.registry.candidate import Candidate
from toolyard.registry.snapshot import Snapshot
from toolyard.schema.coerce import Coercion, coerce, integral_floats
from toolyard.schema.violations import describe

_HINTED = 50
"""Names compared for a hint: comparing is quadratic, and a hint is not worth a stall."""


class Bound(msgspec.Struct, frozen=True):
    """A call ready to run: the overload, the arguments it gets, and what was repaired."""

    tool: Tool
    arguments: Arguments
    """The caller's own object for `coerce=False`; else a copy that shares nothing with it."""
    coercions: tuple[Coercion, ...] = ()
    sent: bytes = b""
    """The arguments as they were sent, as JSON text; empty for `coerce=False`."""
    candidate: Candidate | None = None


def bind(snapshot: Snapshot, call: ToolCall, *, coerce: bool = True, candidates: tuple[Candidate, ...] = ()) -> Bound:
    """Resolve and check one call; raises `UnknownToolError` or `InvalidArguments`.

    `candidates` are what its name stands for, where somebody has found that out already.
    """
    candidates = candidates or find(snapshot, call.name)
    if call.overload is not None:
        candidates = _pinned(candidates, call)
    arguments = read_arguments(call.arguments)
    if not coerce:
        candidate, arguments = bind_exact(candidates, arguments)
        return Bound(candidate.tool, arguments)
    sent = json_text(arguments)
    if len(candidates) == 1 and len(sent) <= SURELY_SMALL:
        winner = candidates[0]
        try:
            copy = winner.decode(sent)
        except ValueError:
            copy = None
        # Equal to what was sent: nothing in it was dropped or changed by writing and reading.
        if copy is not None and copy == arguments:
            return Bound(winner.tool, winner.with_defaults(copy) if winner.defaults else copy, (), sent, winner)
    return _bind_slowly(candidates, arguments, sent)


def _bind_slowly(candidates: tuple[Candidate, ...], arguments: Arguments, sent: bytes) -> Bound:
    arguments = plain_copy(arguments, sent)
    winner = _most_specific(candidates, arguments)
    repairs: Sequence[Coercion] = ()
    if winner is None:
        winner, arguments, repairs = _coerced(candidates, arguments)
    arguments, integers = integral_floats(arguments, winner.integers)
    return Bound(winner.tool, winner.with_defaults(arguments), (*repairs, *integers), sent, winner)


def bind_exact(candidates: tuple[Candidate, ...], arguments: Arguments) -> tuple[Candidate, Arguments]:
    """The hot half of `bind`: no repairs, no copies, no record of either."""
    if len(candidates) == 1:
        winner = candidates[0]
        try:
            winner.validate(arguments)
        except ValueError:
            raise refusal(candidates, arguments) from None
    else:
        best = _most_specific(candidates, arguments)
        if best is None:
            raise refusal(candidates, arguments)
        winner = best
    return winner, winner.with_defaults(arguments) if winner.defaults else arguments


def find(
    snapshot: Snapshot, name: str, *, sees: Callable[[Tool], bool] | None = None, hints: bool = True
) -> tuple[Candidate, ...]:
    """Every overload of a qualified name, an alias, or a bare name that only one namespace has.

    With `sees`, tools for which it is False are not there. Hints cost more than everything else here.
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
    if sees is not None or not hints:
        raise UnknownToolError(f"no tool is called {show(name)}")
    near = closest(str(name), snapshot.names)
    hint = f"did you mean {' or '.join(near)}?" if near else None
    raise UnknownToolError(f"no tool is called {show(name)}", hint=hint, details={"candidates": near})


def _pinned(candidates: tuple[Candidate, ...], call: ToolCall) -> tuple[Candidate, ...]:
    chosen = tuple(c for c in candidates if c.tool.fingerprint.startswith(call.overload or ""))
    if not chosen:
        raise UnknownToolError(f"{show(call.name)} has no overload with fingerprint {show(call.overload)}")
    return chosen


def _most_specific(candidates: Sequence[Candidate], arguments: Arguments) -> Candidate | None:
    best: Candidate | None = None
    most = -1
    for candidate in candidates:
        try:
            candidate.validate(arguments)
        except ValueError:
            continue
        # With the arguments given, "fewest undeclared" is the same order as "most declared used".
        used = _used(candidate, arguments)
        if used > most:
            best, most = candidate, used
    return best


def _used(candidate: Candidate, arguments: Arguments) -> int:
    declared = candidate.declared
    return len(arguments) if arguments.keys() <= declared else len(arguments.keys() & declared)


def _coerced(
    candidates: tuple[Candidate, ...], arguments: Arguments
) -> tuple[Candidate, Arguments, Sequence[Coercion]]:
    best: tuple[int, Candidate, Arguments, Sequence[Coercion]] | None = None
    for candidate in candidates:
        repaired = coerce(candidate.compiled, arguments)
        if repaired is not None:
            used = _used(candidate, repaired[0])
            if best is None or used > best[0]:
                best = (used, candidate, *repaired)
    if best is None:
        raise refusal(candidates, arguments)
    return best[1:]


def refusal(candidates: tuple[Candidate, ...], arguments: Arguments) -> InvalidArguments:
    """The error for arguments that none of the candidates accepts, with every violation of each."""
    name = candidates[0].tool.qualified_name
    if len(candidates) == 1:
        violations = candidates[0].compiled.violations(arguments)
        return InvalidArguments(
            f"invalid arguments for {name}: {describe(violations)}",
            hint=_declared_hint(candidates[0], arguments),
            details={"violations": [violation.to_dict() for violation in violations]},
        )
    overloads = [(candidate.tool.fingerprint, candidate.compiled.violations(arguments)) for candidate in candidates]
    text = " | ".join(f"overload {print_[:8]}: {describe(found)}" for print_, found in overloads)
    return InvalidArguments(
        f"no overload of {name} accepts the arguments: {text}",
        details={
            "overloads": [
                {"fingerprint": print_, "violations": [violation.to_dict() for violation in found]}
                for print_, found in overloads
            ]
        },
    )


def _declared_hint(candidate: Candidate, arguments: Arguments) -> str | None:
    """For an argument nobody declared: the declared name it was probably meant to be."""
    declared = sorted(candidate.declared)[:_HINTED]
    for name in islice(arguments, _HINTED):
        if isinstance(name, str) and name not in candidate.declared:
            near = difflib.get_close_matches(name[:100], declared, n=1)
            if near:
                return f"did you mean {near[0]!r} instead of {show(name[:100])}?"
    return None
