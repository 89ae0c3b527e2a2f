"""`diff_worlds`: where two worlds differ, path by path, within limits of number and size.

A world is what engines keep in a session, as plain data: engine -> name -> value. What a session was set up with, and
how it came to its world, is no part of it. Two worlds are equal if they are the same JSON: the order of keys does
not count, 1 and 1.0 are one number, 1 and true are not.

An engine may keep things one by one, each as `kind#number`. People are told of them by what they are and by their id:
`order 1042` for `shop/orders#3`. What it keeps as `kind` and `kind#page 0`, or under a name that begins with `#`, are
notes by which it finds its things.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from toolyard.model.names import pointer_of
from toolyard.sessions.state import SETUP, Slot, State
from toolyard.words.identifiers import plain_letters, singular, split_identifier

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
    thing: str = ""
    """What people call it that has changed: `order 1042`; empty where only the path can say."""
    is_note: bool = False
    """True if it is only by this that an engine finds its things; left out where the things themselves differ."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `before` unless it was added, `after` unless it was removed."""
        sides = {"added": ("after",), "removed": ("before",), "changed": ("before", "after")}[self.kind]
        plain = {"path": self.path, "kind": self.kind, **{side: getattr(self, side) for side in sides}}
        plain |= {"thing": self.thing} if self.thing else {}
        return plain | ({"shortened": list(self.shortened)} if self.shortened else {})

    @property
    def label(self) -> str:
        """Where it is, for people, on one line: `order 1042: status`, or the path and a colon."""
        inside = ".".join(self.names[2:])
        return " ".join((f"{self.thing}: {inside}" if self.thing else f"{self.path}:").split())

    @property
    def names(self) -> list[str]:
        """The parts of the path."""
        return [name.replace("~1", "/").replace("~0", "~") for name in self.path.split("/")[1:]]

    def describe(self) -> str:
        """One line for people."""
        before, after = (
            f"{value}..." if side in self.shortened else _encode(value).decode()
            for side, value in (("before", self.before), ("after", self.after))
        )
        match self.kind:
            case "added":
                return f"+ {self.label} {after}"
            case "removed":
                return f"- {self.label} {before}"
        return f"~ {self.label} {before} -> {after}"


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


def diff_worlds(
    before: Any,
    after: Any,
    *,
    max_changes: int = MAX_CHANGES,
    max_bytes: int = MAX_BYTES,
    things: Mapping[Slot, str] | None = None,
) -> WorldDiff:
    """Where they differ. Lists are compared item by item between what they begin and what they end with alike.

    `things` are those whose slots have a name for people; an empty one is a note.
    """
    found: list[WorldChange] = []
    size = left_out = 0
    for path, old, new in _find_differences(before, after):
        change = _make_change(
            path, old, new, (things or {}).get((str(path[0]), str(path[1])) if path[1:] else ("", ""))
        )
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
    slots = texts[0].keys() | texts[1].keys()
    differing = [slot for slot in slots if texts[0].get(slot) != texts[1].get(slot)]
    pages = {(engine, name.rpartition("#page ")[0]) for engine, name in slots if _PAGE.fullmatch(name)}
    things = {slot: "" for slot in differing if slot in pages or slot[1].startswith("#") or _PAGE.fullmatch(slot[1])}
    for slot in differing:
        if _THING.fullmatch(slot[1]):
            things[slot] = _name_thing(slot[1], texts[1].get(slot) or texts[0].get(slot) or b"")
    for slot in [slot for slot in differing if things.get(slot) != ""] or differing:
        for text, world in zip(texts, worlds, strict=True):
            # The engine is on both sides, so that what differs is the value.
            values = world.setdefault(slot[0], {})
            if slot in text:
                values[slot[1]] = msgspec.json.decode(text[slot])
    return diff_worlds(*worlds, things=things, **limits)


_THING = re.compile(r"(?P<kind>.*?)(?: \[.*\])?#(?P<number>\d+)", re.DOTALL)
_PAGE = re.compile(r".*#page \d+", re.DOTALL)
_IDS = ("id", "uuid", "guid", "sid", "gid", "uid")


def _name_thing(slot: str, text: bytes) -> str:
    """What people call it: what it is, and its id, its name or else its number."""
    kind, number = _THING.fullmatch(slot).groups()  # type: ignore[union-attr]
    words = split_identifier(next((part for part in kind.split("/")[::-1] if part != "{}"), ""))
    noun = " ".join([*words[:-1], *map(singular, words[-1:])])
    fields = msgspec.json.decode(text)
    known = {plain_letters(name): value for name, value in fields.items()} if isinstance(fields, dict) else {}
    ids = (*_IDS, *[plain_letters(noun) + end for end in _IDS], "name")
    called = next((known[name] for name in ids if isinstance(known.get(name), (str, int))), f"#{number}")
    return f"{noun} {called}"


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


def _make_change(path: tuple[str | int, ...], old: Any, new: Any, thing: str | None) -> WorldChange:
    kind: Kind = "added" if old is _MISSING else "removed" if new is _MISSING else "changed"
    before, after = _shorten_value(old), _shorten_value(new)
    shortened = tuple(side for side, (_, cut) in (("before", before), ("after", after)) if cut)
    return WorldChange(
        pointer_of(path),
        kind,
        before[0],
        after[0],
        shortened,  # type: ignore[arg-type]
        thing or "",
        thing == "",
    )


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
