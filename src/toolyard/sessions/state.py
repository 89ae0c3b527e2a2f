"""`State`: the named JSON values that engines keep in a session, forked without copying.

Values are kept as JSON text in one dict, which forks share until one of them changes something. `read_initial` reads
an `initial_state`, which has the form that `get_session_state` returns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

import msgspec

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import DefinitionError, SessionError
from toolyard.model.json_schema import json_type
from toolyard.model.names import find_similar
from toolyard.parsing.json_text import json_decoder
from toolyard.sessions.history import Entry, Undo, any_call_text, entry_text, result_text

Slot = tuple[str, str]
"""The engine that owns a value, and the value's name."""
Changes = dict[Slot, bytes | None]
"""New values; None removes one."""

_encode = msgspec.json.encode
_decode = json_decoder()


class State:
    """Committed values of every engine. Changed only by `apply`, by the holder of the session's turn."""

    __slots__ = ("_shared", "_values")

    def __init__(self, shared: Changes | None = None) -> None:
        self._values: Changes = {} if shared is None else shared
        self._shared = shared is not None

    def get(self, slot: Slot) -> bytes | None:
        """The value as JSON text; None if there is none."""
        return self._values.get(slot)

    def apply(self, changes: Changes) -> None:
        """Apply the changes of one call."""
        if self._shared:
            self._values = dict(self._items())
            self._shared = False
        # A single C call, so that an interrupt cannot leave it half done.
        self._values.update(changes)

    def undo(self, changes: Changes) -> Undo:
        """What must be kept of the current values to undo these changes later."""
        values = {slot: _shrink_value(self.get(slot), new) for slot, new in changes.items()}
        kept = [old[1] if isinstance(old, tuple) else old for old in values.values() if old is not None]
        return values, sum(map(len, kept))

    def with_undone(self, undos: Iterable[Undo]) -> State:
        """A fork with these changes undone; the latest comes first."""
        values: Changes = {}
        for before, _ in undos:
            for slot, old in before.items():
                if isinstance(old, tuple):
                    start, middle, end = old
                    new = (values[slot] if slot in values else self.get(slot)) or b""
                    old = new[:start] + middle + new[len(new) - end :]
                values[slot] = old
        state = self.fork()
        if values:
            state.apply(values)
        return state

    def fork(self) -> State:
        """A state with the same values, independent from now on."""
        self._shared = True
        return State(self._values)

    @property
    def size(self) -> int:
        """Total bytes of all values."""
        return sum(len(value) for _, value in self._items())

    def slots(self) -> list[Slot]:
        """Every slot with a value, sorted."""
        return sorted(slot for slot, _ in self._items())

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain data: engine to name to value."""
        found: dict[str, dict[str, Any]] = {}
        for (owner, name), value in sorted(self._items()):
            found.setdefault(owner, {})[name] = _decode(value)
        return found

    def digest(self) -> bytes:
        """A hash of all values."""
        pairs = [(*slot, value) for slot, value in sorted(self._items())]
        return hashlib.blake2b(_encode(pairs), digest_size=32).digest()

    def __bool__(self) -> bool:
        return bool(self._items())

    def _items(self) -> list[tuple[Slot, bytes]]:
        # Removed values leave None behind.
        return [(slot, value) for slot, value in list(self._values.items()) if value is not None]


_SHORT = 100
"""Values shorter than this many bytes are kept whole."""


def _shrink_value(old: bytes | None, new: bytes | None) -> bytes | tuple[int, bytes, int] | None:
    """A replaced value, reduced to the part between the prefix and suffix that it shares with the new one.

    An engine that keeps everything in one large value would otherwise fill the memory with copies.
    """
    if old is None or new is None or len(old) < _SHORT:
        return old
    start = _count_alike(old, new)
    end = _count_alike(old[start:][::-1], new[start:][::-1])
    return (start, old[start : len(old) - end], end)


def _count_alike(one: bytes, other: bytes) -> int:
    """Length of the common prefix, by bisection: comparing slices is a thousand times faster than single bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class EngineState(MutableMapping[str, Any]):
    """One engine's JSON values during one call; changes are kept only if the call succeeds.

    Values may be replaced or changed in place. What the engine reads is a private copy.
    """

    __slots__ = ("_changed", "_owner", "_read", "_state")

    def __init__(self, state: State, owner: str) -> None:
        self._state = state
        self._owner = owner
        self._read: dict[str, tuple[bytes, Any]] = {}
        self._changed: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._changed:
            value = self._changed[name]
            if value is _GONE:
                raise KeyError(name)
            return value
        if name not in self._read:
            text = self._state.get((self._owner, name))
            if text is None:
                raise KeyError(name)
            self._read[name] = (text, _decode(text))
        return self._read[name][1]

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"state is kept under names, which are text, not {type(name).__name__}")
        self._changed[name] = value

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._changed[name] = _GONE

    def __iter__(self) -> Iterator[str]:
        stored = {name for owner, name in self._state.slots() if owner == self._owner}
        gone = {name for name, value in self._changed.items() if value is _GONE}
        return iter(sorted((stored | self._changed.keys()) - gone))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def changes(self) -> Changes:
        """All changes made during the call; raises `SessionError` for a value that is not JSON."""
        made: Changes = {}
        for name, (before, value) in self._read.items():
            after = self._encode(name, value)
            if after != before:
                made[(self._owner, name)] = after
        for name, value in self._changed.items():
            made[(self._owner, name)] = None if value is _GONE else self._encode(name, value)
        return made

    def _encode(self, name: str, value: Any) -> bytes:
        return _encode_json(value, f"state {name!r} of engine {self._owner!r}")


_GONE = object()


def exact_json(value: Any) -> bytes:
    """JSON text that decodes to an equal value; ValueError for NaN, dates and anything else that JSON would change.

    Tuples are accepted, although they decode to lists.
    """
    text = _encode(value)
    if _decode(text) != value and _decode(text) != _tuples_to_lists(value):
        raise ValueError("it would come back from JSON as something else")
    return text


def _tuples_to_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_tuples_to_lists(item) for item in value]
    if isinstance(value, dict):
        return {name: _tuples_to_lists(item) for name, item in value.items()}
    return value


def write_changes(changes: Changes) -> bytes:
    """Encode changes as one JSON text for a store; empty if there are none."""
    if not changes:
        return b""
    return _encode([(*slot, msgspec.Raw(value)) if value is not None else slot for slot, value in changes.items()])


def read_changes(text: bytes) -> Changes:
    """Inverse of `write_changes`."""
    if not text:
        return {}
    rows = msgspec.json.decode(text, type=list[list[msgspec.Raw]])
    return {(_decode(owner), _decode(name)): bytes(value[0]) if value else None for owner, name, *value in rows}


EXECUTIONS = "tool_executions"
SETUP = "setup"
"""Owner name of the slots that hold extra arguments of `setup`."""
_POSITIONAL = "*args"
_SETUP_OPTIONS = ("initial_state", "fork_of", "owner")


def initial_schema() -> dict[str, Any]:
    """JSON Schema of `initial_state`, generated from the structs; accepts the same values as `read_initial`."""
    _, structs = msgspec.json.schema_components([Entry])
    known = {name: {key: whole[key] for key in ("type", "properties", "required")} for name, whole in structs.items()}
    call, output = ({**known[name], "additionalProperties": False} for name in ("ToolCall", "ToolResult"))
    output["properties"]["error_info"] = {"anyOf": [known["ErrorInfo"], {"type": "null"}]}
    execution = {**known["Entry"], "properties": {"tool_call": call, "tool_output": output}}
    return {
        "type": "object",
        "description": "What another session's state was.",
        "properties": {EXECUTIONS: {"type": "array", "items": {**execution, "additionalProperties": False}}},
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "object"},
    }


def read_initial(state: dict[str, Any]) -> tuple[tuple[bytes, ...], Changes]:
    """Entries and engine state from an `initial_state`; `SessionError` gives the fault and its place."""
    if not isinstance(state, dict):
        raise SessionError(f"initial_state must be an object as get_session_state gives it, not {json_type(state)}")
    executions = state.get(EXECUTIONS, [])
    if not isinstance(executions, list):
        raise SessionError(f"initial_state[{EXECUTIONS!r}] must be an array, not {json_type(executions)}")
    entries = tuple(
        _read_execution(item, f"initial_state[{EXECUTIONS!r}][{index}]") for index, item in enumerate(executions)
    )
    changes: Changes = {}
    for engine, values in state.items():
        if engine == EXECUTIONS:
            continue
        if not isinstance(engine, str) or not engine:
            raise SessionError(f"initial_state has the key {engine!r}; engines have names, which are text")
        if not isinstance(values, dict):
            raise SessionError(f"initial_state[{engine!r}] must map names to values, not {json_type(values)}")
        if not all(isinstance(name, str) for name in values):
            raise SessionError(f"initial_state[{engine!r}] has a name that is not text")
        for name, value in values.items():
            changes[(engine, name)] = _encode_json(value, f"initial_state[{engine!r}][{name!r}]")
    return entries, changes


def read_setup(args: tuple[Any, ...], keywords: dict[str, Any]) -> Changes:
    """Extra positional and keyword arguments of `setup`, as state values that stay with the session."""
    for name in keywords:
        near = find_similar(name, _SETUP_OPTIONS, cutoff=0.7)
        if near:
            raise SessionError(f"setup has no option {name!r}; did you mean {near[0]!r}?")
    given = {_POSITIONAL: list(args), **keywords} if args else keywords
    return {(SETUP, name): _encode_json(value, f"{name!r} of setup") for name, value in given.items()}


def with_setup(state: dict[str, Any] | None, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """An `initial_state` that includes the extra arguments of `setup`, for a session created on a server."""
    given = {name: _decode(text) for (_, name), text in read_setup(args, keywords).items() if text is not None}
    return {**(state or {}), SETUP: {**(state or {}).get(SETUP, {}), **given}}


def setup_of(state: State) -> tuple[list[Any], dict[str, Any]]:
    """Inverse of `read_setup`: the positional and the keyword arguments."""
    keywords = dict(EngineState(state, SETUP))
    return keywords.pop(_POSITIONAL, []), keywords


def _read_execution(item: Any, where: str) -> bytes:
    if not isinstance(item, dict) or item.keys() != {"tool_call", "tool_output"}:
        raise SessionError(f"{where} must have the keys 'tool_call' and 'tool_output'")
    try:
        call, output = ToolCall.from_dict(item["tool_call"]), ToolResult.from_dict(item["tool_output"])
    except (DefinitionError, TypeError) as error:
        raise SessionError(f"{where}: {error}") from None
    return entry_text(any_call_text(call), result_text(output, _encode_json(output.result, f"{where}['tool_output']")))


def _encode_json(value: Any, where: str) -> bytes:
    try:
        return exact_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError(f"{where} is not JSON: {error}") from None
