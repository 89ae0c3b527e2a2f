"""`diff_worlds`: the differences between two worlds, path by path, within limits of number and size.

A world is the engines' state in a session as plain data: engine to name to value. Arguments of `setup`, and the calls
that led to the world, are not part of it. Worlds are equal if they are the same JSON: the order of keys does not
matter, 1 equals 1.0, and 1 differs from true.

An engine may keep entities in one value each, named `kind#number`. Diffs call them by their kind and id: `order 1042`
for `shop/orders#3`. Values named `kind` or `kind#page 0`, or with a name that begins with `#`, are the engine's
indexes of its entities, called notes here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from toolyard.model.json_schema import pointer_of, split_pointer
from toolyard.parsing.json_text import json_decoder
from toolyard.sessions.state import SETUP, Slot, State
from toolyard.words.identifiers import plain_letters, singular, split_identifier

MAX_CHANGES = 500
MAX_BYTES = 1_000_000
"""Most bytes of all listed changes together."""
MAX_VALUE_BYTES = 2000
"""Size in bytes from which only the beginning of a value is shown."""
_EXACT = 2**53
_MISSING: Any = object()

Kind = Literal["added", "removed", "changed"]


class WorldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place where two worlds differ; an entity that is in only one of them is one change."""

    path: str
    """JSON pointer from the root of the world."""
    kind: Kind
    before: Any = None
    """None if the value was added."""
    after: Any = None
    """None if the value was removed."""
    shortened: tuple[Literal["before", "after"], ...] = ()
    """Sides with a value that is too large, replaced by the beginning of its JSON text."""
    thing: str = ""
    """Readable name of the changed entity, such as `order 1042`; empty if there is only the path."""
    is_note: bool = False
    """True for an engine's index of its entities; such changes are omitted if the entities themselves differ."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `before` is omitted if the value was added, `after` if it was removed."""
        sides = {"added": ("after",), "removed": ("before",), "changed": ("before", "after")}[self.kind]
        plain = {"path": self.path, "kind": self.kind, **{side: getattr(self, side) for side in sides}}
        plain |= {"thing": self.thing} if self.thing else {}
        return plain | ({"shortened": list(self.shortened)} if self.shortened else {})

    @property
    def label(self) -> str:
        """The place in readable form, on one line: `order 1042: status`, or the path and a colon."""
        inside = ".".join(self.names[2:])
        return " ".join((f"{self.thing}: {inside}" if self.thing else f"{self.path}:").split())

    @property
    def names(self) -> list[str]:
        """The unescaped parts of the path."""
        return split_pointer(self.path)

    def describe(self) -> str:
        """One readable line."""
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
    """Changes in the order of their paths, up to the limits."""

    changes: list[WorldChange] = []
    left_out: int = 0
    """Number of further changes beyond the limits."""

    @property
    def equal(self) -> bool:
        """True if the worlds are equal."""
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
    """The differences. Lists are compared item by item between their common beginning and common end.

    `things` maps slots to readable names of entities; an empty name marks a note.
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
    """`diff_worlds` for two states; decodes only values that differ."""
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
            # Add the engine to both sides, so that the difference is reported at the value.
            values = world.setdefault(slot[0], {})
            if slot in text:
                values[slot[1]] = _decode(text[slot])
    return diff_worlds(*worlds, things=things, **limits)


_THING = re.compile(r"(?P<kind>.*?)(?: \[.*\])?#(?P<number>\d+)", re.DOTALL)
_PAGE = re.compile(r".*#page \d+", re.DOTALL)
_IDS = ("id", "uuid", "guid", "sid", "gid", "uid")


def _name_thing(slot: str, text: bytes) -> str:
    """A readable name of an entity: its kind with its id, its name or its number."""
    kind, number = _THING.fullmatch(slot).groups()  # type: ignore[union-attr]
    words = split_identifier(next((part for part in kind.split("/")[::-1] if part != "{}"), ""))
    noun = " ".join([*words[:-1], *map(singular, words[-1:])])
    fields = _decode(text)
    known = {plain_letters(name): value for name, value in fields.items()} if isinstance(fields, dict) else {}
    ids = (*_IDS, *[plain_letters(noun) + end for end in _IDS], "name")
    called = next((known[name] for name in ids if isinstance(known.get(name), (str, int))), f"#{number}")
    return f"{noun} {called}"


def hash_world(state: State) -> str:
    """A hash of the world; equal for equal worlds, whatever calls led to them."""
    pairs = [(*slot, _canonical_text(text)) for slot, text in sorted(_world_texts(state).items())]
    return hashlib.blake2b(_encode(pairs), digest_size=32).hexdigest()


def plain_world(state: State) -> dict[str, dict[str, Any]]:
    """The world as plain data."""
    plain = state.to_dict()
    plain.pop(SETUP, None)
    return plain


def _world_texts(state: State) -> dict[Slot, bytes]:
    values = {slot: state.get(slot) for slot in state.slots() if slot[0] != SETUP}
    return {slot: text for slot, text in values.items() if text is not None}


def _find_differences(before: Any, after: Any) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    # Iterative, since values may nest deeper than the recursion limit.
    stack: list[tuple[tuple[str | int, ...], Any, Any]] = [((), before, after)]
    while stack:
        path, old, new = stack.pop()
        if len(path) == 1:
            # An engine without values equals a missing engine.
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
_decode = json_decoder()
_decode_canonical = msgspec.json.Decoder(float_hook=_read_number).decode


def _canonical(value: Any) -> bytes:
    return _canonical_text(_encode(value))


def _canonical_text(text: bytes) -> bytes:
    return _encode(_decode_canonical(text))
