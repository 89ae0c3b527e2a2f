"""Parse YAML strictly to plain data, without recursion, checking toolyard's rules at each event.

PyYAML is only imported to parse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.constants import MAX_DIGITS
from toolyard.model.errors import MalformedSource
from toolyard.parsing.files import BOM, LARGE, decode_utf8, encode_utf8, paused_gc

if TYPE_CHECKING:
    from yaml.events import AliasEvent, CollectionStartEvent, Event, ScalarEvent

    from toolyard.parsing.yaml_events import NextEvent, Substitution

Scalar = str | int | float | bool | None

_LARGEST_INT = 10**MAX_DIGITS
"""Integers must be strictly between this and its negative."""

_WORDS: dict[str, Scalar] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST = frozenset("~nNtTfF+-.0123456789")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_HASH = re.compile(r"[0-9]{2,}[eE][0-9]{2,}")
"""A hash in hexadecimal that happens to look like a number, such as 600e27371700; text if no float is that large."""
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"0o": 8, "0x": 16}
CORE_TAG = "tag:yaml.org,2002:"
"""The expansion of `!!`."""
_MAP_TAG, _SEQ_TAG = f"{CORE_TAG}map", f"{CORE_TAG}seq"

_MERGE = "<<"
_MERGE_TAGS = (None, f"{CORE_TAG}merge")
_UNSPECIFIC_TAG = "!"
"""The non-specific tag: makes a scalar text, and leaves lists and mappings unchanged."""


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag; ValueError for a number that JSON cannot represent."""
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _read_int(text)
    if _HASH.fullmatch(text) and math.isinf(float(text)):
        return text
    if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return _read_float(text)
    return text


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag; ValueError if the tag is unknown or does not fit."""
    kind = tag.removeprefix(CORE_TAG) if tag.startswith(CORE_TAG) else ""
    if kind == "str" or tag == _UNSPECIFIC_TAG or (kind == "merge" and text == _MERGE):
        return text
    if kind == "binary":
        return "".join(text.split())  # base64, as JSON writes bytes
    if kind == "null" and text in _WORDS and _WORDS[text] is None:
        return None
    if kind == "bool" and isinstance(word := _WORDS.get(text), bool):
        return word
    if kind == "int" and _INT.fullmatch(text):
        return _read_int(text)
    if kind == "float" and (_FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        return _read_float(text)
    if kind in ("null", "bool", "int", "float"):
        raise ValueError(f"{text[:40]!r} is not a !!{kind}; correct it, or remove the tag")
    raise _unknown_tag(tag)


def _unknown_tag(tag: str) -> ValueError:
    """The error for a tag without a meaning in plain data. Tags never construct objects."""
    name = f"!!{tag.removeprefix(CORE_TAG)}" if tag.startswith(CORE_TAG) else tag
    return ValueError(f"tag {name[:60]} does not fit this value in plain data; remove it")


def _read_int(text: str) -> int:
    base = _BASES.get(text[:2], 10)
    digits = text[2:] if base != 10 else text.lstrip("+-").lstrip("0") or "0"
    # Python refuses to convert longer decimals, and counts leading zeros as digits.
    value = _LARGEST_INT if base == 10 and len(digits) > MAX_DIGITS else int(digits, base)
    if value >= _LARGEST_INT:
        raise ValueError(f"an integer of more than {MAX_DIGITS:,} digits; write it in quotes")
    return -value if text[0] == "-" else value


def _read_float(text: str) -> float:
    value = math.inf if _NOT_FINITE.fullmatch(text) else float(text)
    if math.isfinite(value):
        return value
    raise ValueError(f"{text[:40]} has no place in JSON, which knows finite numbers only; use null or quote it")


ALIAS_ALLOWANCE = 250_000
"""Budget for values added by aliases, in units of `LONG` characters; each character of the document adds one."""

LONG = 32
"""Each `LONG` characters of a string count as one more value, so that aliases of a huge string use up the budget."""


def parse_yaml(
    data: str | bytes, *, what: str = "document", max_depth: int = 200, repeated: list[str] | None = None
) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None; an empty one is None.

    Scalars follow the core schema of YAML 1.2: `on`, `2024-01-02` and `1_000` are text, `010` is ten. Keys are text as
    written, so `200:` becomes "200". Aliases are copied and `<<` is merged, within a budget that no legitimate
    document reaches. A missing line feed at the end is added.

    Raises `MalformedSource`, whose `where` is `{what}:{line}:{column}`, for anything that is not YAML, for what JSON
    cannot express (`.nan`, keys that are collections), and for non-standard tags, repeated keys, a second document and
    nesting deeper than `max_depth`. If `repeated` is given, repeated keys are allowed: the last value stays, and their
    places are added to the list.
    """
    from toolyard.parsing.yaml_events import read_events

    def build(next_event: NextEvent, safe: Substitution) -> Any:
        if repeated is not None:
            repeated.clear()
        return _Builder(next_event, safe, what, max_depth, repeated).build()

    source = _normalise_lines(data if isinstance(data, bytes) else encode_utf8(data, what))
    text = decode_utf8(source, what)
    with paused_gc() if len(source) >= LARGE else nullcontext():
        return read_events(text, build, what)


def _normalise_lines(source: bytes) -> bytes:
    """The text without a byte order mark and with every line ended by a line feed, as the YAML scanners expect."""
    source = source.removeprefix(BOM)
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return source if source.endswith(b"\n") else source + b"\n"


@dataclass(slots=True)
class _OpenContainer:
    """A sequence or mapping that has not ended."""

    container: Any
    start: Event
    anchor: str | None
    size_before: int
    awaits_key: bool
    height: int = 1
    key: str = ""
    merging: bool = False
    merged: list[dict[str, Any]] | None = None


@dataclass(slots=True, frozen=True)
class _Anchored:
    """The target of an alias; `text` is a scalar as written, for use as a key."""

    value: Any
    size: int
    height: int = 0
    text: str | None = None


class _Builder:
    """Builds plain data from the events of one document."""

    def __init__(
        self, next_event: NextEvent, text: Substitution, what: str, max_depth: int, repeated: list[str] | None
    ) -> None:
        self.next_event = next_event
        self.text = text
        self.restore = text.restore if text.used else None
        self.what = what
        self.max_depth = max_depth
        self.repeated = repeated
        self.allowance = ALIAS_ALLOWANCE + len(text.text)
        self.size = 0
        self.anchors: dict[str, _Anchored | None] = {}
        self.stack: list[_OpenContainer] = []
        self.documents = 0
        self.root: Any = None

    def build(self) -> Any:
        from yaml import events

        handlers: dict[type[Event], Callable[[Any], None]] = {
            events.ScalarEvent: self.read_scalar,
            events.MappingStartEvent: partial(self.open_container, dict, _MAP_TAG),
            events.SequenceStartEvent: partial(self.open_container, list, _SEQ_TAG),
            **dict.fromkeys((events.MappingEndEvent, events.SequenceEndEvent), self.close_container),
            events.AliasEvent: self.read_alias,
            events.DocumentStartEvent: self.start_document,
        }
        while (event := self.next_event()) is not None:
            if handle := handlers.get(type(event)):
                handle(event)
        return self.root

    def start_document(self, event: Event) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self.error_at(event, "a second document begins here; put each in its own file")

    def read_scalar(self, event: ScalarEvent) -> None:
        stack = self.stack
        text = self.restore(event.value, event.style) if self.restore else event.value
        size = 1 + len(text) // LONG
        self.size += size
        is_key = bool(stack) and stack[-1].awaits_key
        value: Any = text
        try:
            if event.tag is not None:
                value = tagged_scalar(event.tag, text)
            elif not event.style and (not is_key or event.anchor is not None):
                value = plain_scalar(text)
        except ValueError as error:
            raise self.error_at(event, str(error)) from error
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(value, size, text=text)
        if is_key:
            self.read_key(event, text, merging=text == _MERGE and not event.style and event.tag in _MERGE_TAGS)
        else:
            self.add_value(event, value)

    def read_key(self, event: Event, text: str, *, merging: bool = False) -> None:
        top = self.stack[-1]
        if text in top.container or (merging and top.merged is not None):
            fault = self.error_at(event, f"key {text[:80]!r} appears twice in one mapping; remove or rename one")
            if self.repeated is None:
                raise fault
            self.repeated.append(str(fault))
        top.key = text
        top.merging = merging
        top.awaits_key = False

    def add_value(self, event: Event, value: Any) -> None:
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if type(top.container) is list:
            top.container.append(value)
            return
        if top.merging:
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(source, dict) for source in sources):
                raise self.error_at(event, "<< merges a mapping or a list of mappings, and this is neither")
            top.merged = sources
        else:
            top.container[top.key] = value
        top.awaits_key = True

    def open_container(self, kind: type, own_tag: str, event: CollectionStartEvent) -> None:
        self.size += 1
        if event.tag not in (None, own_tag, _UNSPECIFIC_TAG):
            raise self.error_at(event, str(_unknown_tag(event.tag)))
        self.require_depth(event, 1)
        if self.stack and self.stack[-1].awaits_key:
            raise self.error_at(event, "a key must be a scalar, not a list or a mapping; write it as text")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_OpenContainer(kind(), event, event.anchor, self.size - 1, kind is dict))

    def close_container(self, _event: Event) -> None:
        done = self.stack.pop()
        if done.merged is not None:
            explicit = dict(done.container)
            done.container.clear()
            for source in done.merged:
                done.container.update({key: source[key] for key in source if key not in done.container})
            done.container.update(explicit)
        if done.anchor is not None:
            self.anchors[done.anchor] = _Anchored(done.container, self.size - done.size_before, done.height)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, done.height + 1)
        self.add_value(done.start, done.container)

    def read_alias(self, event: AliasEvent) -> None:
        name = event.anchor or ""
        target = self.anchors.get(name)
        if target is None:
            reason = "inside the value it names" if name in self.anchors else f"before any &{name[:60]}"
            raise self.error_at(event, f"alias *{name[:60]} stands {reason}; define the anchor first")
        self.size += target.size
        self.allowance -= target.size
        if self.allowance < 0:
            raise self.error_at(event, "aliases expand to far more data than is written; write it out or cut it down")
        if self.stack and self.stack[-1].awaits_key:
            if target.text is None:
                raise self.error_at(event, "a key must be a scalar, not a list or a mapping; write it as text")
            self.read_key(event, target.text)
            return
        self.require_depth(event, target.height)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, target.height + 1)
        # Copy, so that the document stays a tree and a change in one place does not show in another.
        try:
            copy = msgspec.to_builtins(target.value)
        except RecursionError as error:
            raise self.error_at(
                event, "nested deeper than the interpreter's recursion limit; flatten the data"
            ) from error
        self.add_value(event, copy)

    def require_depth(self, event: Event, levels: int) -> None:
        if len(self.stack) + levels > self.max_depth:
            raise self.error_at(event, f"nested deeper than {self.max_depth} levels; flatten the data")

    def error_at(self, event: Event, message: str) -> MalformedSource:
        mark = event.start_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        return MalformedSource(message, where=self.what + place)
