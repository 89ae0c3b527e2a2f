"""`Cassette`: a file of recorded calls, indexed by tool and arguments."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.model.call import Content, ToolCall
from toolyard.model.errors import (
    CallError,
    ConfigError,
    ErrorInfo,
    InvalidArguments,
    MalformedSource,
    ToolFailed,
    UnknownToolError,
)
from toolyard.model.tool import digest
from toolyard.parsing import iter_json_lines, parse_json, parse_yaml, read_bytes
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import bind, find_overloads
from toolyard.words.redactor import is_redacted_at

JSONL = (".jsonl", ".ndjson")
YAML = (".yaml", ".yml")
_MAX_BYTES = 1024 * 1024 * 1024
_MAX_DEPTH = 600
_OWN_LAST = re.compile(rb"\n  duration: [0-9][-+.e0-9]*\n\Z")
_OWN_FIRST, _OWN_SECOND = b"- name: ", b"  when: "
_LAST_BYTES = 64
_LARGE = 20_000
_WIDEST = 2**31 - 1
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:::?[A-Za-z_][A-Za-z0-9_]*)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})


def read_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Each recording as plain data, with its location for messages."""
    data = read_bytes(path, max_bytes=_MAX_BYTES)
    # Leave out an incomplete recording whose writer was interrupted.
    data = data[: _find_append_position(lambda start, end: data[start:end], len(data), path)[0]]
    if path.suffix.lower() in YAML:
        items = parse_yaml(data, what=str(path), max_depth=_MAX_DEPTH)
        if items is not None and not isinstance(items, list):
            raise MalformedSource("a cassette is a list of recordings", where=str(path))
        for number, item in enumerate(items or []):
            yield f"{path}[{number}]", item
        return
    for number, line in iter_json_lines(data):
        where = f"{path}:{number}"
        yield where, parse_json(line, what=where, max_depth=_MAX_DEPTH)


def append_item(path: Path, item: dict[str, Any]) -> None:
    """Append one recording; safe for several processes at once."""
    text = _dump_yaml(item) if path.suffix.lower() in YAML else msgspec.json.encode(item) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # released when the descriptor is closed
        size = os.fstat(descriptor).st_size
        whole, between = _find_append_position(lambda start, end: os.pread(descriptor, end - start, start), size, path)
        if between is None:
            raise OSError("it is not a list with each recording behind a '-' at the start of a line")
        if whole < size:
            os.ftruncate(descriptor, whole)
        text = between + text
        written = os.write(descriptor, text)
        if written < len(text):
            os.ftruncate(descriptor, whole)
            raise OSError(f"only {written} of {len(text)} bytes fitted into {path}")
    finally:
        os.close(descriptor)


_Read = Callable[[int, int], bytes]


def _find_append_position(read: _Read, size: int, path: Path) -> tuple[int, bytes | None]:
    """The length without an incomplete last item, and the separator before the next one; None if none may be added.

    A last line without a line feed may have been edited by hand, so that alone does not make it incomplete.
    """
    if path.suffix.lower() in YAML:
        return _yaml_append_position(read, size, path)
    start = _find_behind_last(b"\n", read, size)
    rest = read(start, size)
    if not rest.strip():
        return size, b""
    try:
        return (
            (size, b"\n") if isinstance(parse_json(rest, what=str(path), max_depth=_MAX_DEPTH), dict) else (start, b"")
        )
    except MalformedSource:
        return start, b""


def _yaml_append_position(read: _Read, size: int, path: Path) -> tuple[int, bytes | None]:
    end = read(max(size - _LAST_BYTES, 0), size)
    if not size or _OWN_LAST.search(end):
        return size, b""
    start = _find_behind_last(b"\n-", read, size)
    start -= 1 if start else 0
    rest = read(start, size)
    feed = b"" if rest.endswith(b"\n") else b"\n"
    before = _parse_items(rest, path)
    if _begins_own_item(rest) and not (
        before and isinstance(before[-1], dict) and before[-1].get("duration") is not None
    ):
        return start, b""
    after = _parse_items(rest + feed + b"- 0\n", path)
    return size, feed if before is not None and after == [*before, 0] else None


def _parse_items(text: bytes, path: Path) -> list[Any] | None:
    try:
        items = parse_yaml(text, what=str(path), max_depth=_MAX_DEPTH)
    except MalformedSource:
        return None
    return items if isinstance(items, list) else [] if items is None else None


def _begins_own_item(text: bytes) -> bool:
    """True if the text begins, as far as it goes, like an item that `_dump_yaml` wrote: with `name` and `when`."""
    first, _, rest = text.partition(b"\n")
    begun = len(rest) < len(_OWN_SECOND) and _OWN_SECOND.startswith(rest)
    return first[: len(_OWN_FIRST)] == _OWN_FIRST[: len(first)] and (begun or rest.startswith(_OWN_SECOND))


def _find_behind_last(mark: bytes, read: _Read, size: int) -> int:
    """The position after the last mark; 0 if there is none."""
    end = size
    while end > 0:
        start = max(end - 65536, 0)
        at = read(start, min(end + len(mark) - 1, size)).rfind(mark)
        if at >= 0:
            return start + at + len(mark)
        end = start
    return 0


def _dump_yaml(item: dict[str, Any]) -> bytes:
    import yaml

    # With `when` second and `duration` last, a truncated recording can be recognised.
    parts = {"name": item["name"], "when": item["when"], **item}
    parts["duration"] = parts.pop("duration")
    large = yaml.__with_libyaml__ and len(msgspec.json.encode(item)) > _LARGE
    # libyaml is faster, but escapes more than necessary.
    dumper: Any = type("Dumper", (yaml.CSafeDumper if large else yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, _represent_text)
    written = yaml.dump([parts], Dumper=dumper, sort_keys=False, allow_unicode=True, width=_WIDEST)
    return str(written).encode()


def _represent_text(dumper: Any, value: str) -> Any:
    """Quote every text that some YAML reader could take for another type."""
    plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call and its outcome. `when` is a time in UTC, `duration` is in seconds."""

    name: str
    arguments: dict[str, Any] = {}
    result: Any | UnsetType = UNSET
    error: ErrorInfo | UnsetType = UNSET
    unforeseen: bool | UnsetType = UNSET
    """True if the error is an exception raised by the tool, whose message may be hidden from callers."""
    content: list[dict[str, Any]] | str | UnsetType = UNSET
    """Content blocks of a result that is more than JSON; "result" if the result consists of these blocks."""
    simulated: bool | UnsetType = UNSET
    """True for a simulated call; used only if the call was never executed in the cassette."""
    fault: dict[str, Any] | UnsetType = UNSET
    """The fault that was injected into the call when it was recorded."""
    definition_hash: str = ""
    when: str = ""
    duration: float = 0.0

    @property
    def key(self) -> str:
        """Equal for calls of the same tool with the same arguments."""
        return call_key(self.name, self.arguments)

    def play(self) -> Any:
        """Return the recorded value, or raise the recorded error."""
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
        """Plain JSON, as written to the file."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def call_key(name: str, arguments: dict[str, Any]) -> str:
    """A hash of the name and the canonical arguments."""
    return digest(name, arguments)


ALL = ""
"""The key of all recordings of a cassette."""


class Cassette:
    """The recordings of one file, in order. Added recordings are written immediately."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() not in (*JSONL, *YAML):
            raise ConfigError(f"cassette {path}: its name must end in .jsonl or .yaml, which say how it is written")
        self.recordings: list[Recording] = []
        self._lock = threading.Lock()
        self._executed: dict[str, list[int]] = {}
        """Numbers of the recordings of a tool, of a call (by `call_key`), and of all; without simulated calls."""
        self._simulated: dict[str, list[int]] = {}

    @classmethod
    def load(cls, path: str | Path) -> Cassette:
        """Read a file; raises `SourceUnavailable` if there is none, `MalformedSource` if it is not a cassette."""
        cassette = cls(path)
        for where, item in read_items(cassette.path):
            cassette._index_recording(_read_recording(item, where))
        return cassette

    def __len__(self) -> int:
        return len(self.recordings)

    def __repr__(self) -> str:
        return f"<Cassette {self.path.name} of {len(self)} recordings>"

    def add(self, recording: Recording) -> int:
        """Write a recording and return its number."""
        with self._lock:
            append_item(self.path, recording.to_dict())
            return self._index_recording(recording)

    def find(self, key: str) -> list[int]:
        """Numbers of the recordings of a tool or of a call, in order; of simulations if it was never executed."""
        return self.find_executed(key) or self.find_simulated(key)

    def find_executed(self, key: str) -> list[int]:
        """Numbers of the executed calls of a tool, of those with that `call_key`, or of `ALL`."""
        return self._executed.get(key, [])

    def find_simulated(self, key: str) -> list[int]:
        """Numbers of the simulated calls of a tool, of those with that `call_key`, or of `ALL`."""
        return self._simulated.get(key, [])

    def names(self) -> list[str]:
        """All tools in the cassette, sorted."""
        return sorted({recording.name for recording in self.recordings})

    def _index_recording(self, recording: Recording) -> int:
        number = len(self.recordings)
        self.recordings.append(recording)
        index = self._simulated if recording.simulated is True else self._executed
        for key in (recording.key, recording.name, ALL):
            index.setdefault(key, []).append(number)
        return number


def _read_recording(item: Any, where: str) -> Recording:
    try:
        recording = msgspec.convert(item, Recording)
    except msgspec.ValidationError as error:
        raise MalformedSource(f"no recording: {error}", where=where) from None
    if (recording.result is UNSET) == (recording.error is UNSET):
        raise MalformedSource("a recording has either a result or an error", where=where)
    return recording


class MovedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that is not in the cassette, or a recorded call that its tool no longer accepts."""

    name: str
    arguments: dict[str, Any]
    nearest: dict[str, Any] | None = None
    """The arguments of the most similar recording; None if the tool is not in the cassette."""
    reason: str = ""


class ChangedTool(msgspec.Struct, frozen=True):
    """A tool whose definition differs from the recorded one."""

    name: str
    recorded: str
    now: str | None
    """None if the tool no longer exists."""


class Drift(msgspec.Struct, frozen=True):
    """Differences found between a cassette and a run or the current definitions."""

    cassette: str
    recordings: int
    never_played: list[Recording] = []
    arguments_changed: list[MovedCall] = []
    definitions_changed: list[ChangedTool] = []

    @property
    def ok(self) -> bool:
        """True if there are no differences."""
        return not (self.never_played or self.arguments_changed or self.definitions_changed)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return {**made, "ok": self.ok}

    def lines(self) -> list[str]:
        """One readable line for each difference."""
        said = [f"never played: {_describe_call(item.name, item.arguments)}" for item in self.never_played]
        for moved in self.arguments_changed:
            instead = "" if moved.nearest is None else f"; recorded was {_describe_call(moved.name, moved.nearest)}"
            why = f"; {moved.reason}" if moved.reason else ""
            said.append(f"arguments changed: {_describe_call(moved.name, moved.arguments)}{instead}{why}")
        for changed in self.definitions_changed:
            now = "is gone" if changed.now is None else "has another definition now"
            said.append(f"definition changed: {changed.name} {now}")
        return said


def find_nearest(cassette: Cassette, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The recorded arguments of that tool that are most similar to these; None if there are none."""
    found = [cassette.recordings[number].arguments for number in cassette.find(name)[:1000]]

    def count_shared(other: dict[str, Any]) -> int:
        return sum(2 if other[key] == arguments[key] else 1 for key in other.keys() & arguments.keys())

    return max(found, key=count_shared) if found else None


def drift_of(cassette: Cassette, registry: ToolRegistry) -> Drift:
    """Drift that can be found without calls: tools that changed or are gone, and arguments no longer accepted."""
    changed: dict[tuple[str, str], ChangedTool] = {}
    moved: list[MovedCall] = []
    snapshot = registry.snapshot
    for recording in cassette.recordings:
        name, known = recording.name, recording.definition_hash
        try:
            hashes = [candidate.tool.definition_hash for candidate in find_overloads(snapshot, name)]
        except UnknownToolError:
            changed[name, known] = ChangedTool(name, known, None)
            continue
        if known and known not in hashes:
            changed[name, known] = ChangedTool(name, known, hashes[0])
        try:
            bind(snapshot, ToolCall(name, recording.arguments))
        except InvalidArguments as error:
            if not _is_only_redacted(recording.arguments, error):
                moved.append(MovedCall(name, recording.arguments, reason=str(error)))
    return Drift(str(cassette.path), len(cassette), [], moved, list(changed.values()))


def _is_only_redacted(arguments: dict[str, Any], error: InvalidArguments) -> bool:
    """True if all violations, for any one overload, are at redacted values."""
    details = error.info.details
    return any(
        all(
            is_redacted_at(arguments, violation["pointer"])
            for violation in overload.get("violations", [{"pointer": ""}])
        )
        for overload in details.get("overloads", [details])
    )


def _describe_call(name: str, arguments: dict[str, Any]) -> str:
    text = msgspec.json.encode(arguments).decode()
    return f"{name} {text if len(text) <= 200 else text[:200] + '...'}"
