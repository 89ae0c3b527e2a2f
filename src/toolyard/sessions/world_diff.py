"""`diff_worlds`: where two worlds differ, path by path, within limits of number and size.

A world is what engines keep in a session, as plain data: engine -> name -> value. What a session was set up with, and
how it came to its world, is no part of it. Two worlds are equal if they are the same JSON: the order of keys does
not count, 1 and 1.0 are one number, 1 and true are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from toolyard.model.names import pointer_of
from toolyard.sessions.state import SETUP, Slot, State

MAX_CHANGES = 500
MAX_BYTES = 1_000_000
"""Of all paths and values together."""
MAX_VALUE_BYTES = 2000
"""Of one value; of a longer one only the beginning is shown."""
_EXACT = 2**53
_MISSING: Any = object()

Kind = Literal["added", "removed", "changed"]


class WorldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place where two worlds differ; a whole thing that is only in one of them is one change."""

    path: str
    """JSON pointer from the root of the world."""
    kind: Kind
    before: Any = None
    """None where it was added."""
    after: Any = None
    """None where it was removed."""
    shortened: tuple[Literal["before", "after"], ...] = ()
    """Sides that are too large: there the value is the beginning of its JSON text."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `before` unless it was added, `after` unless it was removed."""
        sides = {"added": ("after",), "removed": ("before",), "changed": ("before", "after")}[self.kind]
        plain = {"path": self.path, "kind": self.kind, **{side: getattr(self, side) for side in sides}}
        return plain | ({"shortened": list(self.shortened)} if self.shortened else {})

    def describe(self) -> str:
        """One line for people."""
        before, after = (
            f"{value}..." if side in self.shortened else _encode(value).decode()
            for side, value in (("before", self.before), ("after", self.after))
        )
        match self.kind:
            case "added":
                return f"+ {self.path}: {after}"
            case "removed":
                return f"- {self.path}: {before}"
        return f"~ {self.path}: {before} -> {after}"


class WorldDiff(msgspec.Struct, frozen=True):
    """All changes in the order of their paths, or the first of them."""

    changes: list[WorldChange] = []
    left_out: int = 0
    """How many more there are; not listed, because these are enough."""

    @property
    def equal(self) -> bool:
        """True if the worlds are."""
        return not self.changes and not self.left_out

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "equal": self.equal,
            "changes": [change.to_dict() for change in self.changes],
            "left_out": self.left_out,
        }


def diff_worlds(before: Any, after: Any, *, max_changes: int = MAX_CHANGES, max_bytes: int = MAX_BYTES) -> WorldDiff:
    """Where they differ. Lists are compared item by item between what they begin and what they end with alike."""
    found: list[WorldChange] = []
    size = left_out = 0
    for path, old, new in _find_differences(before, after):
        change = _make_change(path, old, new)
        size += len(_encode(change))
        if len(found) < max_changes and size <= max_bytes:
            found.append(change)
        else:
            left_out += 1
    return WorldDiff(found, left_out)


def diff_states(before: State, after: State, **limits: int) -> WorldDiff:
    """The same for what two sessions keep; only values that differ are read."""
    texts = _world_texts(before), _world_texts(after)
    worlds: list[dict[str, dict[str, Any]]] = [{}, {}]
    for slot in texts[0].keys() | texts[1].keys():
        if texts[0].get(slot) == texts[1].get(slot):
            continue
        for text, world in zip(texts, worlds, strict=True):
            # The engine is on both sides, so that what differs is the value.
            values = world.setdefault(slot[0], {})
            if slot in text:
                values[slot[1]] = msgspec.json.decode(text[slot])
    return diff_worlds(*worlds, **limits)


def hash_world(state: State) -> str:
    """Equal for equal worlds, whatever path led there."""
    pairs = [(*slot, _canonical_text(text)) for slot, text in sorted(_world_texts(state).items())]
    return hashlib.blake2b(_encode(pairs), digest_size=32).hexdigest()


def plain_world(state: State) -> dict[str, dict[str, Any]]:
    """What engines keep, as plain data."""
    plain = state.to_dict()
    plain.pop(SETUP, None)
    return plain


def _world_texts(state: State) -> dict[Slot, bytes]:
    values = {slot: state.get(slot) for slot in state.slots() if slot[0] != SETUP}
    return {slot: text for slot, text in values.items() if text is not None}


def _find_differences(before: Any, after: Any) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    # Not by recursion: values nest as deep as JSON may.
    stack: list[tuple[tuple[str | int, ...], Any, Any]] = [((), before, after)]
    while stack:
        path, old, new = stack.pop()
        if len(path) == 1:
            # An engine that keeps nothing is no thing of its own.
            old, new = ({} if side is _MISSING else side for side in (old, new))
        if isinstance(old, dict) and isinstance(new, dict):
            pairs = [(key, old.get(key, _MISSING), new.get(key, _MISSING)) for key in sorted(old.keys() | new.keys())]
        elif isinstance(old, list) and isinstance(new, list):
            pairs = _pair_items(old, new)
        else:
            if old is _MISSING or new is _MISSING or _canonical(old) != _canonical(new):
                yield path, old, new
            continue
        stack.extend(((*path, key), one, other) for key, one, other in reversed(pairs))


def _pair_items(old: list[Any], new: list[Any]) -> list[tuple[str | int, Any, Any]]:
    mine, theirs = [_canonical(item) for item in old], [_canonical(item) for item in new]
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and mine[start] == theirs[start]:
        start += 1
    end = 0
    while end < shorter - start and mine[-1 - end] == theirs[-1 - end]:
        end += 1
    left, right = len(old) - end, len(new) - end
    return [
        (at, old[at] if at < left else _MISSING, new[at] if at < right else _MISSING)
        for at in range(start, max(left, right))
    ]


def _make_change(path: tuple[str | int, ...], old: Any, new: Any) -> WorldChange:
    kind: Kind = "added" if old is _MISSING else "removed" if new is _MISSING else "changed"
    before, after = _shorten_value(old), _shorten_value(new)
    shortened = tuple(side for side, (_, cut) in (("before", before), ("after", after)) if cut)
    return WorldChange(pointer_of(path), kind, before[0], after[0], shortened)  # type: ignore[arg-type]


def _shorten_value(value: Any) -> tuple[Any, bool]:
    if value is _MISSING:
        return None, False
    text = _encode(value)
    if len(text) <= MAX_VALUE_BYTES:
        return value, False
    return text[:MAX_VALUE_BYTES].decode(errors="ignore"), True


def _read_number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(float_hook=_read_number).decode


def _canonical(value: Any) -> bytes:
    return _canonical_text(_encode(value))


def _canonical_text(text: bytes) -> bytes:
    return _encode(_decode(text))
