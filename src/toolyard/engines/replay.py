"""`ReplayToolEngine`: records another engine to a cassette and plays it back without it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, structs

from toolyard.calls.attempts import answer_flow, behind_a_cassette
from toolyard.calls.call_path import Answerer
from toolyard.calls.faults import Fault, FaultPlan
from toolyard.calls.flow import drive_or_await
from toolyard.calls.invocation import Invocation
from toolyard.calls.result import is_own_exception, plain_answer, redact_info
from toolyard.calls.waits import Flow, deadline_error
from toolyard.engines.base import ToolEngine
from toolyard.engines.cassette import ALL, Cassette, ChangedTool, Drift, MovedCall, Recording, call_key, find_nearest
from toolyard.loop.threads import loop_runs_here
from toolyard.model.call import Content, ToolCall
from toolyard.model.errors import (
    CallError,
    ConfigError,
    Denied,
    ErrorInfo,
    Interrupted,
    InvalidArguments,
    NoEngine,
    SourceUnavailable,
    ToolFailed,
    UnknownToolError,
)
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import bind
from toolyard.registry.function_call import current_simulation
from toolyard.schema.options import check_kinds, expand_place, read_arguments
from toolyard.sessions.history import Entry, read_entry

if TYPE_CHECKING:
    from toolyard.calls.call_path import CallPath

ReplayMode = Literal["replay", "record", "auto", "passthrough"]
ReplayMatch = Literal["arguments", "strict", "fifo"]

_MAX_MISSES = 1000
_UNPLAYED_CODES = frozenset(kind.code for kind in (Denied, Interrupted, InvalidArguments, NoEngine, UnknownToolError))


@register_tool_engine("replay")
class ReplayToolEngine(ToolEngine):
    """Replays recorded calls, and records those of another engine in a readable file.

    `mode` "replay" answers from the cassette alone; "record" sends every call to `engine` and adds it to the cassette;
    "auto" replays what is recorded and records the rest, except for failures that a retry may avoid; "passthrough" does
    not use the cassette. In a config `engine` is the name of another engine under `tools.engines`. Its limits and its
    fault plan apply to the calls it answers.

    `match` "arguments" finds a call by its tool and canonical arguments; recordings of the same call play in order,
    and the last one is repeated unless `repeat` is false. "fifo" plays a tool's recordings in order, whatever the
    arguments. "strict" requires the calls of a session to be in the order of the cassette, with unchanged definitions.
    The position is derived from the session's history, so every session starts at the beginning.

    Secrets are redacted before anything is written: they are replayed as `[redacted]`, and calls that differ only in
    secrets count as the same call.
    """

    type_name = "replay"

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        cassette: Annotated[str | Path, Meta(description="Path of the cassette.")],
        mode: Annotated[
            ReplayMode,
            Meta(
                description="replay: answer from the cassette only. record: call and record. auto: record "
                "what is missing. passthrough: call without recording."
            ),
        ] = "replay",
        engine: Annotated[
            ToolEngine | str | None, Meta(description="The engine that answers what is recorded.")
        ] = None,
        match: Annotated[
            ReplayMatch,
            Meta(description="How recorded calls are matched: by arguments, by everything, or by order."),
        ] = "arguments",
        repeat: Annotated[bool, Meta(description="Whether a recorded result may be used more than once.")] = True,
        **settings: Any,
    ) -> None:
        read_arguments(ReplayToolEngine, mode=mode, match=match, repeat=repeat)
        if isinstance(engine, str):
            raise ConfigError(
                "engine by name works in a config, where engines have names; here, give the engine itself"
            )
        check_kinds({"engine": ToolEngine}, engine=engine)
        if engine is None and mode != "replay":
            raise ConfigError(f"mode {mode!r} needs an engine, which answers what is to be recorded")
        if engine is not None:
            settings.setdefault("timeout", engine.settings.timeout)
        super().__init__(registry, **settings)
        self.mode: ReplayMode = mode
        self.match: ReplayMatch = match
        self.repeat = repeat
        self.recorded_engine = engine
        self.reaches_out = mode != "replay" and engine is not None and engine.reaches_out
        self.cassette = _open_cassette(expand_place(cassette, "cassette"), mode)
        self._alone: Counter[str] = Counter()
        """Number of calls without a session, by slot."""
        self._lock = threading.Lock()
        self._played: set[int] = set()
        self._misses: dict[str, MovedCall] = {}
        self._changed: dict[tuple[str, str], ChangedTool] = {}
        if engine is not None:
            self._live = self._keep_part(engine.as_part())
            engine.joined(cast(ToolEngine, _OuterEngine(self, engine)))
            self._hide_secrets(engine.secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the recorded engine."""
        return () if self.recorded_engine is None else self.recorded_engine.secrets

    def blocks(self, tool: Tool) -> bool:
        """False: on an event loop `answer` returns a coroutine instead of blocking."""
        return False

    def takes(self, tool: Tool) -> bool:
        """True if the recorded engine takes the tool, or if no engine is needed."""
        return self.recorded_engine is None or self.mode == "replay" or self.recorded_engine.takes(tool)

    def drift(self) -> Drift:
        """Differences between the calls so far and the cassette: not played, not found, or changed."""
        with self._lock:
            unplayed = [
                recording
                for number, recording in enumerate(self.cassette.recordings)
                if number not in self._played
                and (recording.simulated is not True or number in self.cassette.find(recording.key))
            ]
            moved, changed = list(self._misses.values()), list(self._changed.values())
        return Drift(str(self.cassette.path), len(self.cassette), unplayed, moved, changed)

    def answer(self, invocation: Invocation) -> Any:
        """The recorded result, or the engine's; on an event loop possibly a coroutine for it."""
        if self.mode == "passthrough":
            return drive_or_await(self._live_flow(invocation, None))
        wanted = Recording(name=invocation.tool.qualified_name, arguments=self._redact_value(invocation.arguments))
        if self.mode != "record":
            number = self._find_next(invocation, wanted)
            if number is not None:
                return self._play_recording(number, invocation)
            if self.mode == "replay":
                raise self._note_miss(wanted)
        return drive_or_await(self._live_flow(invocation, wanted))

    def _redact_value(self, value: Any) -> Any:
        known = self._root._path.redactor.value(value)
        return known if self.recorded_engine is None else self.recorded_engine._path.redactor.value(known)

    def _count_before(self, invocation: Invocation, slot: str) -> int:
        """How many calls of that slot were played before in the session; requires the session's turn."""
        if invocation.session_id:
            return invocation.session.count_entries(self, self._count_entry)[slot]
        # Calls without a session are counted across the engine; simulated ones do not count.
        with self._lock:
            count = self._alone[slot]
            if invocation.mode == "execute":
                self._alone[slot] += 1
            return count

    def _count_entry(self, _place: int, text: bytes, counts: Counter[str]) -> None:
        entry = read_entry(text)
        slot, info = self._slot_of(entry), entry.tool_output.error_info
        if slot is None:
            return
        # An error that is not in the recording was raised before the cassette was reached, so nothing was played.
        if info is None or info.code not in _UNPLAYED_CODES or self._is_recorded(info, slot, counts[slot]):
            counts[slot] += 1

    def _slot_of(self, entry: Entry) -> str | None:
        """The slot that an earlier call of a session counts towards; None if it counts towards none."""
        name = entry.tool_output.name
        if self.match == "fifo":
            return name
        if self.match == "strict":
            return ALL if self.cassette.find(name) else None
        if not self.cassette.find(name):
            return None
        try:
            bound = bind(self.tool_registry.snapshot, ToolCall(name, entry.tool_call.arguments))
        except CallError:
            return None  # the tool no longer accepts this call
        return call_key(name, self._redact_value(bound.arguments))

    def _is_recorded(self, info: ErrorInfo, slot: str, place: int) -> bool:
        """True if the recording at that place is this very error."""
        numbers = self.cassette.find_executed(slot) if self.match == "strict" else self.cassette.find(slot)
        due = self.cassette.recordings[numbers[place]].error if place < len(numbers) else None
        return isinstance(due, ErrorInfo) and (due.code, due.message) == (info.code, info.message)

    def _find_next(self, invocation: Invocation, wanted: Recording) -> int | None:
        """The number of the recording to play next; None if there is none."""
        if self.match == "strict":
            place = self._count_before(invocation, ALL)
            due = self.cassette.find_executed(ALL)[place : place + 1]
            if invocation.mode == "simulate":
                due += self.cassette.find_simulated(wanted.key)
            hashes = ("", invocation.tool.definition_hash)
            recordings = self.cassette.recordings
            fitting = [n for n in due if recordings[n].key == wanted.key and recordings[n].definition_hash in hashes]
            return fitting[0] if fitting else None
        slot = wanted.name if self.match == "fifo" else wanted.key
        numbers = self.cassette.find(slot)
        if not numbers:
            return None
        if len(numbers) == 1 and self.repeat:
            return numbers[0]
        place = self._count_before(invocation, slot)
        if place < len(numbers):
            return numbers[place]
        return numbers[-1] if self.repeat else None

    def _play_recording(self, number: int, invocation: Invocation) -> Any:
        recording, tool = self.cassette.recordings[number], invocation.tool
        with self._lock:
            self._played.add(number)
            if recording.definition_hash not in ("", tool.definition_hash):
                change = ChangedTool(recording.name, recording.definition_hash, tool.definition_hash)
                self._changed[change.name, change.recorded] = change
        if isinstance(recording.fault, dict):
            invocation.fault = Fault(str(recording.fault.get("type")), int(recording.fault.get("rule", 0)))
        invocation.replayed = True
        return recording.play()

    def _note_miss(self, wanted: Recording) -> NoEngine:
        near = find_nearest(self.cassette, wanted.name, wanted.arguments)
        with self._lock:
            if len(self._misses) < _MAX_MISSES:
                self._misses.setdefault(wanted.key, MovedCall(wanted.name, wanted.arguments, near))
        what = "is not recorded" if near is None else "is not recorded with these arguments"
        if self.cassette.find(wanted.key):
            what = "is recorded, but not as the next call" if self.match == "strict" else "is not recorded that often"
        return NoEngine(
            f"{wanted.name} {what} in {self.cassette.path.name}",
            hint="record it: mode auto adds what is missing, mode record adds every call",
            details={} if near is None else {"recorded_arguments": near},
        )

    def _live_flow(self, invocation: Invocation, wanted: Recording | None) -> Flow:
        """Let the engine answer, and record the outcome if `wanted` is given."""
        answerer, faults, wanted = self._choose_engine(invocation, wanted)
        began = time.perf_counter()
        with behind_a_cassette(invocation):
            try:
                value = yield from answer_flow(answerer, invocation, faults, on_loop=loop_runs_here())
            except CallError as error:
                self._keep_outcome(wanted, invocation, began, error=error.info, unforeseen=is_own_exception(error))
                raise
            except BaseException as error:
                # A cancellation at the deadline may arrive here before the timeout is reported.
                if type(error).__name__ == "CancelledError" and invocation.remaining == 0.0:
                    self._keep_outcome(wanted, invocation, began, error=deadline_error(invocation).info)
                raise
            return self._keep_value(wanted, invocation, began, value, answerer)

    def _choose_engine(
        self, invocation: Invocation, wanted: Recording | None
    ) -> tuple[Answerer, FaultPlan | None, Recording | None]:
        """The engine that answers, its fault plan, and the recording to add, if any."""
        if self.recorded_engine is None:
            raise NoEngine(f"nothing here answers {invocation.tool.qualified_name}")
        live = self._live.route(invocation.tool)
        if invocation.mode == "execute":
            return live, live.settings.faults, wanted
        simulator = live.simulator(invocation.tool, current_simulation() is not False)
        if simulator is not live:
            invocation.simulated_by = simulator.name
        # Record a simulation only if nothing is recorded yet, and only if the live engine itself ran it.
        known = wanted is not None and self.cassette.find(wanted.key)
        return simulator, live.settings.faults, None if known or simulator is not live else wanted

    def _keep_value(
        self, wanted: Recording | None, invocation: Invocation, began: float, value: Any, answerer: Answerer
    ) -> Any:
        if wanted is None:
            return value
        content: Any = UNSET
        inner = value
        if type(value) is Content:
            inner, blocks = value.result, value.kept
            content = UNSET if blocks is None else blocks
        plain = plain_answer(inner, invocation, answerer.settings.max_result_bytes)[0]
        self._keep_outcome(wanted, invocation, began, result=plain, content=content)
        # Values such as generators can be consumed only once, so return the copy.
        return value if type(value) is Content else plain

    def _keep_outcome(self, wanted: Recording | None, invocation: Invocation, began: float, **outcome: Any) -> None:
        if wanted is None:
            return
        if isinstance(info := outcome.get("error"), ErrorInfo):
            if self.mode == "auto" and invocation.fault is None and (info.retryable or info.code == Denied.code):
                return  # a transient error must not be replayed forever
            outcome["unforeseen"] = outcome.get("unforeseen") or UNSET
            outcome["error"] = redact_info(info, self._redact_value)
        else:
            outcome["result"] = self._redact_value(outcome["result"])
            if isinstance(outcome["content"], list):
                outcome["content"] = self._redact_value(outcome["content"])
        made = structs.replace(
            wanted,
            simulated=UNSET if invocation.mode == "execute" else True,
            fault=UNSET if invocation.fault is None else invocation.fault.metadata,
            definition_hash=invocation.tool.definition_hash,
            when=datetime.now(UTC).isoformat(timespec="milliseconds"),
            duration=round(time.perf_counter() - began, 6),
            **outcome,
        )
        try:
            number = self.cassette.add(made)
        except OSError as error:
            raise ToolFailed(
                f"{made.name} was answered, but {self.cassette.path.name} did not take it: {error.strerror or error}",
                hint="make room for the cassette, or let it be written",
                effect="done",
            ) from error
        with self._lock:
            self._played.add(number)


class _OuterEngine:
    """The outer engine as seen by the recorded engine: it owns the tools that are routed to the cassette."""

    def __init__(self, front: ReplayToolEngine, engine: ToolEngine) -> None:
        self._front = front
        self._engine = engine

    @property
    def tool_registry(self) -> ToolRegistry:
        """All tools of the outer engine."""
        return self._front._root.tool_registry

    @property
    def _path(self) -> CallPath:
        return self._front._root._path

    def route(self, tool: Tool) -> Answerer:
        """The recorded engine for tools of the cassette; else the engine that the tool is routed to."""
        routed = self._front._root.route(tool)
        return self._engine.route(tool) if routed is self._front else routed


def _open_cassette(path: str | Path, mode: ReplayMode) -> Cassette:
    if mode == "passthrough":
        return Cassette(path)
    try:
        return Cassette.load(path)
    except SourceUnavailable as error:
        if Path(path).exists():
            raise
        if mode == "replay":
            raise ConfigError(f"no cassette to replay: {error}; record one with mode: record") from None
        return Cassette(path)
