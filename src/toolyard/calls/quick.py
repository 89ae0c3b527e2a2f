"""The short way of `execute`: plain Python tools, sessions in memory, nobody limiting or listening.

`run_batch` and `CallPath.invoke` say what a call goes through. This says it again for the commonest case, because a
benchmark holds `execute` within 3x of `dispatch`. What is not common goes the long way, from where it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.calls.batch import Root, check_calls, session_alone
from toolyard.calls.events import Mode
from toolyard.calls.flights import Flights
from toolyard.calls.request import CallRequest
from toolyard.calls.settings import Settings
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import ToolCall, ToolResult
from toolyard.registry.arguments import SURELY_SMALL
from toolyard.registry.bind import Bound
from toolyard.registry.candidate import Candidate
from toolyard.registry.snapshot import Snapshot
from toolyard.schema.shape import Shape, shape_of
from toolyard.sessions.entry import read_entry
from toolyard.sessions.session import Session

if TYPE_CHECKING:
    from toolyard.calls.invoke import CallPath

QuickRunner = Callable[[str, Sequence[ToolCall]], list[ToolResult] | None]

Quick = Callable[[Session, ToolCall], ToolResult | None]
"""Answers a call and records it; None if it was not begun, so that the long way has to."""

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_SCALARS = frozenset({str, int, bool})
_LEAVES = frozenset({str, int, float, bool, type(None)})


def quick_runner(path: CallPath, root: Root, mode: Mode) -> QuickRunner:
    """Answers batches in sessions that are free; None, and nothing was begun, where this is not the place to do it."""
    at_hand, registry, simulates = path.sessions.at_hand, path.registry, mode == "simulate"

    def run(session_id: str, calls: Sequence[ToolCall]) -> list[ToolResult] | None:
        session = at_hand.get(session_id)
        if session is None or session.durable or session.flights or session.gate.line:
            return None
        free = session.gate.free
        try:
            # As in `Gate.enter_at_once`: no interrupt comes between taking the place and the `try` that gives it back.
            del free[-1]
        except IndexError:
            return None
        try:
            if session.over:
                return None
            session.holder = get_ident()
            answers = path.quick_answers
            if answers.snapshot is not registry._snapshot:
                answers = path.renew_quick_answers(root)
            where = session.draft() if simulates else session
            results: list[ToolResult] = []
            for call in calls:
                if call.call_id is not None and where is session:
                    return results + _with_flights(path, root, session, calls[len(results) :], answers)
                results.append(answers[call.name](where, call) or path.invoke_here(root, where, call))
            return results
        except (AttributeError, TypeError):
            check_calls(calls)
            raise
        finally:
            # The first call in here gives the place back; only behind a call can an interrupt come.
            session.holder = None
            free.append(None)
            if session.gate.line:
                session.gate.hand_over()

    return run


def quick_alone(path: CallPath, root: Root, request: CallRequest) -> ToolResult | None:
    """One call by itself, of a tool that may run where it is called; None, and nothing was begun, if it is not that."""
    call, scope = request.calls[0], request.scope
    answers = path.quick_answers
    if answers.snapshot is not path.registry._snapshot:
        answers = path.renew_quick_answers(root)
    if type(call) is not ToolCall or answers.snapshot is None:
        return None
    candidates = answers.snapshot.names.get(call.name)
    if not candidates or request.mode != "execute" or request.definitions is not None:
        return None
    tool = candidates[0].tool
    if type(tool.binding) is not PythonBinding or tool.binding.blocking:
        return None
    if scope is not None and not (scope.sees(tool) and scope.may("execute", tool)):
        return None
    return answers[call.name](session_alone(request.owner or "", "execute"), call)


def _with_flights(
    path: CallPath, root: Root, session: Session, calls: Sequence[ToolCall], answers: QuickAnswers
) -> list[ToolResult]:
    """Whoever sends one of the calls again meanwhile, to join it, must find it under way."""
    flights = Flights(session, calls)
    try:
        results = []
        for call in calls:
            before = len(session.history)
            try:
                result = answers[call.name](session, call) or path.invoke_here(root, session, call)
            except BaseException:
                for entry in session.history.since(before):
                    # Cut off, and perhaps in effect: whoever joined must not run it again unasked.
                    flights.landed(call, read_entry(entry).tool_output)
                raise
            flights.landed(call, result)
            results.append(result)
        return results
    finally:
        flights.over()


def _not_quick(session: Session, call: ToolCall) -> None:
    """Stands in for a tool without a short way."""


class QuickAnswers(dict[str, Quick]):
    """Short ways to tools of one snapshot by qualified name, found when first asked for."""

    __slots__ = ("_path", "_root", "snapshot")

    def __init__(self, path: CallPath, snapshot: Snapshot | None, root: Root | None) -> None:
        super().__init__()
        self._path, self._root = path, root
        self.snapshot = snapshot

    def __missing__(self, name: str) -> Quick:
        candidates = () if self.snapshot is None else self.snapshot.names.get(name, ())
        if len(candidates) != 1 or self._root is None:
            return _not_quick
        self[name] = found = quick_answer(self._path, self._root, candidates[0]) or _not_quick
        return found


def quick_answer(path: CallPath, root: Root, candidate: Candidate) -> Quick | None:
    """The short way to one tool, or None if the tool needs more than that."""
    binding, shape = candidate.tool.binding, shape_of(candidate.tool.parameters)
    if type(binding) is not PythonBinding or not _is_simple(binding) or shape is None:
        return None
    return _answer(path, root, candidate, binding, shape)


def _answer(path: CallPath, root: Root, candidate: Candidate, binding: PythonBinding, shape: Shape) -> Quick:
    tool, settings = candidate.tool, root.route(candidate.tool).settings
    validate, integers, run = candidate.compiled.validate, shape.integers, _runner(candidate, binding)
    # What is flat is copied anyway, when it is handed over as keywords.
    copied = None if shape.is_flat else shape.copier()
    recorded = _recorder(candidate, settings)

    def answer(session: Session, call: ToolCall) -> ToolResult | None:
        copy: Any = call.arguments
        if type(copy) is not dict or call.overload is not None:
            return None
        try:
            validate(copy)
            for name in integers:
                if type(copy.get(name)) is float:
                    return None
            if copied is not None:
                copy = copied(copy)
                if copy is None:
                    return None
            sent = _encode(copy)
            # Before it runs: an id that cannot be recorded is refused, and the long way says so.
            call_id = b"" if call.call_id is None else _encode(call.call_id)
        except (ValueError, TypeError):
            return None
        if len(sent) > SURELY_SMALL or (call_id and type(call.call_id) is not str):
            return None
        try:
            value = run(**copy)
        except BaseException as error:  # noqa: BLE001 - the long way tells them apart
            return path.finish(root, session, call, Bound(tool, copy, (), sent, candidate), error, failed=True)
        kind = type(value)
        if kind in _SCALARS or (kind is dict and _LEAVES.issuperset(map(type, value.values()))):
            result = recorded(session, call, call_id, sent, value, kind)
            if result is not None:
                return result
        return path.finish(root, session, call, Bound(tool, copy, (), sent, candidate), value)

    return answer


def _recorder(
    candidate: Candidate, settings: Settings
) -> Callable[[Session, ToolCall, bytes, bytes, Any, type], ToolResult | None]:
    """Records a flat answer and makes a result of it; None if the long way has something to say about it."""
    checked = candidate.tool.output_parameters and settings.output_check != "off"
    fits_output: Callable[[Any], bool] | None = candidate.output.is_valid if checked else None
    name, most = candidate.tool.qualified_name, settings.max_result_bytes
    head, middle, with_id = _frame(name)

    def record(
        session: Session, call: ToolCall, call_id: bytes, sent: bytes, value: Any, kind: type
    ) -> ToolResult | None:
        try:
            text = _encode(value)
            plain = value if kind in _SCALARS else _decode(text)
        except (ValueError, TypeError):
            return None  # no JSON after all
        if plain != value or len(text) > most or (fits_output is not None and not fits_output(plain)):
            return None
        between = with_id(call_id) if call_id else middle
        session.history.append(b"".join((head, sent, between, text, b"}}")))
        return ToolResult(call.call_id, name, plain)

    return record


def _runner(candidate: Candidate, binding: PythonBinding) -> Callable[..., Any]:
    candidate.decode  # noqa: B018 - finds the defaults
    function, filled = binding.callable, candidate.with_defaults
    if not candidate.defaults:
        return function
    return lambda **arguments: function(**filled(arguments))


def _is_simple(binding: PythonBinding) -> bool:
    special = binding.is_async or binding.takes_ctx or binding.prepare is not None or binding.returns is not None
    return not special and (binding.plain or binding.finish is None)


def _frame(name: str) -> tuple[bytes, bytes, Callable[[bytes], bytes]]:
    """What stands before the arguments of an entry, and between them and the result, without and with a call id."""
    quoted = _encode(name)
    before, after = b'},"tool_output":{"call_id":', b',"name":%b,"result":' % quoted

    def with_id(call_id: bytes) -> bytes:
        return b"".join((b',"call_id":', call_id, before, call_id, after))

    return b'{"tool_call":{"name":%b,"arguments":' % quoted, b"%bnull%b" % (before, after), with_id
