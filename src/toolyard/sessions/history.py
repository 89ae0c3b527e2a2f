"""`History`: the append-only entries of a session, shared with its forks instead of copied.

A history owns a tail and refers to the segment it was forked from. Appending never changes what a fork shares, so the
cost of a fork does not depend on the length of the history. An `Entry` is one call and its result as JSON text, in one
canonical form that is kept, hashed and stored. Its time and duration are kept beside it, so that sessions with the
same calls and results have the same history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import msgspec

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import Interrupted
from toolyard.model.json_schema import is_within_limits
from toolyard.parsing.json_text import json_decoder

_START = b"\0" * 32

Undo = tuple[dict[tuple[str, str], bytes | tuple[int, bytes, int] | None], int]
"""The state values that a call replaced, and the size of what is kept of them in bytes; see `State.undo`."""
EntryRecord = tuple[bytes, float | None, float | None, Undo | None]
"""An entry, the time it was recorded by the sessions' clock, the call's duration in seconds if known, and how to undo
its state changes if it made any."""
_entry_of, _undo_of, _undo_size = itemgetter(0), itemgetter(3), itemgetter(1)


class Segment:
    """The first `count` entries of a tail that forks share, and the segment before them."""

    __slots__ = ("before", "charge", "count", "digest", "end", "entries", "size")

    def __init__(self, before: Segment | None, entries: list[EntryRecord], count: int, charge: object = None) -> None:
        self.before = before
        self.charge = charge
        self.size: int | None = None
        self.entries = entries
        self.count = count
        self.end: int = count + (0 if before is None else before.end)
        self.digest: bytes | None = None


class History:
    """Entries as JSON text, in order. One thread may append at a time, while others read or fork."""

    __slots__ = ("_before", "_digested", "_measured", "_shared", "_tail", "charge", "keep")

    def __init__(self, before: Segment | None = None) -> None:
        self._before = before
        self._tail: list[EntryRecord] = []
        self.keep = self._tail.append
        """Append one `EntryRecord`. It is the list's own method because every call uses it."""
        self._digested: tuple[int, bytes] | None = None
        self._shared = 0
        self._measured = (0, 0)
        self.charge: Any = None
        """The memory charge of the tail, if counted. Segments refer to it, so that it lives as long as the tail."""

    def append(self, entry: bytes) -> None:
        """Append one entry without time, duration or undo data."""
        self.keep((entry, None, None, None))

    @property
    def own_size(self) -> int:
        """Bytes of the tail: all entries since the fork, with their undo data."""
        count, size = self._measured
        if count > len(self._tail):
            count = size = 0
        new = self._tail[count:]
        self._measured = (count + len(new), size + _measure(new))
        return self._measured[1]

    @property
    def size(self) -> int:
        """Bytes of all entries and their undo data."""
        return self.own_size + sum(map(_segment_size, self._segments()))

    def fork(self, at: int | None = None, *, throw_away: bool = False) -> History:
        """A history that begins with all entries of this one, or with its first `at`, which must exist."""
        count = len(self._tail) if at is None else at - self._inherited
        if count <= 0:
            return History(self._before if at is None else _cut_line(self._before, at))
        segment = Segment(self._before, self._tail, count, self.charge)
        if not throw_away:
            self._shared = max(self._shared, count)
            if self.own_size and self._measured[0] == count:
                segment.size = self._measured[1]
        return History(segment)

    def forget(self) -> None:
        """Free the entries that no fork shares; nothing may be appended afterwards."""
        del self._tail[self._shared :]

    @property
    def _inherited(self) -> int:
        return 0 if self._before is None else self._before.end

    def __len__(self) -> int:
        before = self._before
        return len(self._tail) if before is None else before.end + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        return self.since(0)

    def since(self, start: int) -> Iterator[bytes]:
        """The current entries from index `start` on."""
        return map(_entry_of, self.records_since(start))

    def records_since(self, start: int) -> Iterator[EntryRecord]:
        """As `since`, with times and undo data."""
        count = len(self._tail)
        for segment in self._segments():
            if segment.end > start:
                first = segment.end - segment.count
                yield from segment.entries[max(start - first, 0) : segment.count]
        yield from self._tail[max(start - self._inherited, 0) : count]

    def undos_since(self, start: int) -> list[Undo]:
        """Undo data of the entries from index `start` on, the latest first."""
        return list(filter(None, map(_undo_of, self.records_since(start))))[::-1]

    def digest(self, length: int | None = None) -> bytes:
        """A hash of all entries in order, or of the first `length`; equal for equal histories, forked or not."""
        count = len(self._tail) if length is None else length - self._inherited
        done, value = self._digested or (0, _digest_segments(self._segments()))
        if done > count:
            done, value = 0, _digest_segments(self._segments())
        for entry in map(_entry_of, self._tail[done:count]):
            value = _chain_digest(value, entry)
        self._digested = (count, value)
        return value

    def _segments(self) -> list[Segment]:
        """Every segment that this history continues, oldest first."""
        line: list[Segment] = []
        segment = self._before
        while segment is not None:
            line.append(segment)
            segment = segment.before
        line.reverse()
        return line


def _cut_line(segment: Segment | None, at: int) -> Segment | None:
    """A segment that ends after `at` entries and continues the same earlier segments."""
    while segment is not None and at < segment.end:
        first = segment.end - segment.count
        if at > first:
            return Segment(segment.before, segment.entries, at - first, segment.charge)
        segment = segment.before
    return segment


def _measure(kept: list[EntryRecord]) -> int:
    undo_sizes: Iterator[int] = map(_undo_size, filter(None, map(_undo_of, kept)))
    return sum(map(len, map(_entry_of, kept))) + sum(undo_sizes)


def _segment_size(segment: Segment) -> int:
    if segment.size is None:
        segment.size = _measure(segment.entries[: segment.count])
    return segment.size


def _digest_segments(line: list[Segment]) -> bytes:
    value = _START
    for segment in line:
        if segment.digest is None:
            for entry in map(_entry_of, segment.entries[: segment.count]):
                value = _chain_digest(value, entry)
            segment.digest = value
        value = segment.digest
    return value


def _chain_digest(value: bytes, entry: bytes) -> bytes:
    return hashlib.blake2b(entry, digest_size=32, key=value).digest()


_encode = msgspec.json.encode
_MAX_VALUES = 1_000_000
_MAX_DEPTH = 900


class Entry(msgspec.Struct, frozen=True):
    """One call and its result."""

    tool_call: ToolCall
    tool_output: ToolResult


read_entry: Callable[[bytes], Entry] = json_decoder(Entry)
"""Decode an entry; each call returns new objects."""

read_call: Callable[[bytes], ToolCall] = json_decoder(ToolCall)


def call_text(call: ToolCall, arguments: bytes) -> bytes:
    """A call as JSON text, from arguments that are JSON text already; fields at their default are omitted."""
    text = b'{"name":%b,"arguments":%b' % (_encode(call.name), arguments)
    if call.call_id is not None:
        text = b'%b,"call_id":%b' % (text, _encode(call.call_id))
    if call.overload is not None:
        text = b'%b,"overload":%b' % (text, _encode(call.overload))
    return text + b"}"


def result_text(result: ToolResult, value: bytes) -> bytes:
    """A result as JSON text, from a value that is JSON text already; fields at their default are omitted."""
    text = b'{"call_id":%b,"name":%b' % (_encode(result.call_id), _encode(result.name))
    if value != b"null":
        text = b'%b,"result":%b' % (text, value)
    for field in ("error", "metadata", "error_info", "overload"):
        item = getattr(result, field)
        if item is not None and item != {}:
            text = b'%b,"%b":%b' % (text, field.encode(), _encode(item))
    return text + b"}"


def entry_text(call: bytes, result: bytes) -> bytes:
    """An entry from a call and a result, both as JSON text."""
    return b'{"tool_call":%b,"tool_output":%b}' % (call, result)


def entry_frame(name: str) -> tuple[bytes, bytes]:
    """The fixed parts of one tool's entries: the text before the arguments, and between call id and value.

    For calls by the tool's qualified name whose result has a value and no other optional field.
    """
    quoted = _encode(name)
    return b'{"tool_call":{"name":%b,"arguments":' % quoted, b',"name":%b,"result":' % quoted


def fill_frame(frame: tuple[bytes, bytes], arguments: bytes, call_id: str | None, value: bytes) -> bytes:
    """The entry for a frame of `entry_frame`; the same text as `entry_text` produces."""
    before, between = frame
    if call_id is None:
        return b"".join((before, arguments, b'},"tool_output":{"call_id":null', between, value, b"}}"))
    mine = _encode(call_id)
    called, answered = b',"call_id":', b'},"tool_output":{"call_id":'
    return b"".join((before, arguments, called, mine, answered, mine, between, value, b"}}"))


def any_call_text(call: ToolCall) -> bytes:
    """A call with arbitrary arguments as JSON text; values that are not JSON are replaced by their type's name."""
    if not is_within_limits(call.arguments, max_values=_MAX_VALUES, max_depth=_MAX_DEPTH):
        return call_text(call, b'"<too large or too deep to record>"')
    try:
        text = _encode(call.arguments, enc_hook=_describe_type)
        if text[:1] not in b'{"':
            # Not an object: recorded as text, as other invalid arguments are.
            text = _encode(text.decode())
        return call_text(call, text)
    except (TypeError, ValueError, RecursionError):
        return call_text(call, b'"<not JSON>"')


def interrupted(call: bytes, why: str) -> bytes:
    """The entry for a call that was started and never completed."""
    info = Interrupted(why, hint="find out whether it took effect before you call it again").info
    result = ToolResult.failed(read_call(call), info)
    return entry_text(call, result_text(result, b"null"))


def _describe_type(value: object) -> str:
    return f"<{type(value).__name__}>"
