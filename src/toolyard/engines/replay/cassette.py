"""`Cassette`: recorded calls, found by what was asked in the time of one lookup however many there are."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.engines.replay.cassette_file import append_item, check_suffix, read_items
from toolyard.model.content import Content
from toolyard.model.errors import CallError, ErrorInfo, MalformedSource, ToolFailed
from toolyard.model.fingerprint import digest


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call and what came of it. `when` is a moment in UTC, `duration` seconds."""

    name: str
    arguments: dict[str, Any] = {}
    result: Any | UnsetType = UNSET
    error: ErrorInfo | UnsetType = UNSET
    unforeseen: bool | UnsetType = UNSET
    """True if the error is an exception of the tool's own, which not every caller is told."""
    content: list[dict[str, Any]] | str | UnsetType = UNSET
    """The blocks of an answer that is more than JSON; "result" if the result is those blocks."""
    simulated: bool | UnsetType = UNSET
    """True if it was only tried; it counts as long as the call itself is not recorded."""
    fault: dict[str, Any] | UnsetType = UNSET
    """What befell the call on purpose when it was recorded."""
    definition_hash: str = ""
    when: str = ""
    duration: float = 0.0

    @property
    def key(self) -> str:
        """Equal for calls that ask the same."""
        return call_key(self.name, self.arguments)

    def play(self) -> Any:
        """The value once more, or the error raised."""
        if isinstance(self.error, ErrorInfo):
            error: CallError = (
                ToolFailed(self.error.message) if self.unforeseen is True else CallError(self.error.message)
            )
            if isinstance(error, ToolFailed):
                error.unforeseen = True
            error.info = self.error
            raise error
        result = None if self.result is UNSET else self.result
        if isinstance(self.content, list):
            return Content(self.content, result)
        if self.content == "result" and isinstance(result, list):
            return Content(result)
        return result

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as it is written."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def call_key(name: str, arguments: dict[str, Any]) -> str:
    """A hash of the name and the canonical arguments."""
    return digest(name, arguments)


class _Index(defaultdict[str, list[int]]):
    """Numbers of recordings by text."""

    def __init__(self) -> None:
        super().__init__(list)


class Cassette:
    """The recordings of one file, in order. Those that are added are written at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_suffix(self.path)
        self.recordings: list[Recording] = []
        self._lock = threading.Lock()
        self.order: list[int] = []
        """Numbers of those that were executed."""
        self._calls, self._names = _Index(), _Index()
        self._rehearsed, self._rehearsed_names = _Index(), _Index()

    @classmethod
    def load(cls, path: str | Path) -> Cassette:
        """What the file has; `SourceUnavailable` if there is none, `MalformedSource` if it is no cassette."""
        cassette = cls(path)
        for where, item in read_items(cassette.path):
            cassette._index_recording(_read_recording(item, where))
        return cassette

    def __len__(self) -> int:
        return len(self.recordings)

    def __repr__(self) -> str:
        return f"<Cassette {self.path.name} of {len(self)} recordings>"

    def add(self, recording: Recording) -> int:
        """Write one more; its number."""
        with self._lock:
            append_item(self.path, recording.to_dict())
            return self._index_recording(recording)

    def of_call(self, key: str) -> list[int]:
        """Numbers of the recordings of that very call, in order; of one never executed, those of simulations."""
        return self._calls.get(key) or self.rehearsed(key)

    def rehearsed(self, key: str) -> list[int]:
        """Numbers of the simulations of that very call."""
        return self._rehearsed.get(key, [])

    def of_name(self, name: str) -> list[int]:
        """Numbers of the recordings of that tool, in order; of one never executed, those of simulations."""
        return self._names.get(name) or self._rehearsed_names.get(name, [])

    def names(self) -> list[str]:
        """Every tool that occurs, sorted."""
        return sorted(self._names.keys() | self._rehearsed_names.keys())

    def _index_recording(self, recording: Recording) -> int:
        number = len(self.recordings)
        self.recordings.append(recording)
        calls, names = self._calls, self._names
        if recording.simulated is True:
            calls, names = self._rehearsed, self._rehearsed_names
        else:
            self.order.append(number)
        calls[recording.key].append(number)
        names[recording.name].append(number)
        return number


def _read_recording(item: Any, where: str) -> Recording:
    try:
        recording = msgspec.convert(item, Recording)
    except msgspec.ValidationError as error:
        raise MalformedSource(f"no recording: {error}", where=where) from None
    if (recording.result is UNSET) == (recording.error is UNSET):
        raise MalformedSource("a recording has either a result or an error", where=where)
    return recording
