"""`Drift`: how far calls and tools have moved away from what a cassette has of them."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.engines.replay.cassette import Cassette, Recording
from toolyard.model.call import ToolCall
from toolyard.model.errors import InvalidArguments, UnknownToolError
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import bind, find
from toolyard.words.redactor import hides


class Moved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that the cassette does not have, though it has the tool; or one that the tool no longer accepts."""

    name: str
    arguments: dict[str, Any]
    nearest: dict[str, Any] | None = None
    """What the cassette has in its place; None if the tool is not in it at all."""
    reason: str = ""


class Changed(msgspec.Struct, frozen=True):
    """A tool that is not defined as it was when it was recorded."""

    name: str
    recorded: str
    now: str | None
    """None if the tool is gone."""


class Drift(msgspec.Struct, frozen=True):
    """What a run, or a check, found. `ok` if that is nothing."""

    cassette: str
    recordings: int
    never_played: list[Recording] = []
    arguments_changed: list[Moved] = []
    definitions_changed: list[Changed] = []

    @property
    def ok(self) -> bool:
        """True if nothing has moved."""
        return not (self.never_played or self.arguments_changed or self.definitions_changed)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return {**made, "ok": self.ok}

    def lines(self) -> list[str]:
        """For people: one line for each thing found."""
        said = [f"never played: {_describe_call(item.name, item.arguments)}" for item in self.never_played]
        for moved in self.arguments_changed:
            instead = "" if moved.nearest is None else f"; recorded was {_describe_call(moved.name, moved.nearest)}"
            why = f"; {moved.reason}" if moved.reason else ""
            said.append(f"arguments changed: {_describe_call(moved.name, moved.arguments)}{instead}{why}")
        for changed in self.definitions_changed:
            now = "is gone" if changed.now is None else "has another definition now"
            said.append(f"definition changed: {changed.name} {now}")
        return said


def nearest(cassette: Cassette, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The recorded arguments of that tool that share the most with these; None if there are none."""
    found = [cassette.recordings[number].arguments for number in cassette.of_name(name)[:1000]]
    return max(found, key=lambda other: _count_shared(other, arguments)) if found else None


def _count_shared(one: dict[str, Any], other: dict[str, Any]) -> int:
    return sum(2 if one[key] == other[key] else 1 for key in one.keys() & other.keys())


def drift_of(cassette: Cassette, registry: ToolRegistry) -> Drift:
    """What can be said without making a call: tools that changed or are gone, arguments they no longer accept."""
    changed: dict[tuple[str, str], Changed] = {}
    moved: list[Moved] = []
    snapshot = registry.snapshot
    for recording in cassette.recordings:
        name, known = recording.name, recording.definition_hash
        try:
            hashes = [candidate.tool.definition_hash for candidate in find(snapshot, name)]
        except UnknownToolError:
            changed[name, known] = Changed(name, known, None)
            continue
        if known and known not in hashes:
            changed[name, known] = Changed(name, known, hashes[0])
        try:
            bind(snapshot, ToolCall(name, recording.arguments))
        except InvalidArguments as error:
            if not _only_hidden(recording.arguments, error):
                moved.append(Moved(name, recording.arguments, reason=str(error)))
    return Drift(str(cassette.path), len(cassette), [], moved, list(changed.values()))


def _only_hidden(arguments: dict[str, Any], error: InvalidArguments) -> bool:
    """Whether nothing is wrong but what stands in place of secrets, for any of the tool's overloads."""
    details = error.info.details
    return any(
        all(hides(arguments, violation["pointer"]) for violation in overload.get("violations", [{"pointer": ""}]))
        for overload in details.get("overloads", [details])
    )


def _describe_call(name: str, arguments: dict[str, Any]) -> str:
    text = msgspec.json.encode(arguments).decode()
    return f"{name} {text if len(text) <= 200 else text[:200] + '...'}"
