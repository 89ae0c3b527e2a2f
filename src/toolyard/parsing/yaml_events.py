"""Build plain data from the events of a YAML document, without recursion, checking toolyard's rules at each event.

libyaml produces the events; PyYAML's Python scanner takes over for valid YAML that libyaml rejects. libyaml reads YAML
1.1: NEL, LS and PS end a line for it but are ordinary characters in YAML 1.2, and it rejects the surrogate escapes with
which JSON writes an emoji. Both are replaced by private-use characters before it reads the text and restored in each
scalar (`Substitution`); a tab that begins a block scalar is handled alike. Scalars follow the core schema of YAML 1.2,
less what JSON cannot express: `yes`, `on`, dates, `1_000` and `0b1` are text, unlike in YAML 1.1.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import yaml
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from toolyard.constants import MAX_DIGITS
from toolyard.model.errors import MalformedSource

Scalar = str | int | float | bool | None

LARGEST_INT = 10**MAX_DIGITS
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
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"0o": 8, "0x": 16}
CORE_TAG = "tag:yaml.org,2002:"
"""The expansion of `!!`."""
_MAP_TAG, _SEQ_TAG = f"{CORE_TAG}map", f"{CORE_TAG}seq"

UNSPECIFIC_TAG = "!"
"""The non-specific tag: makes a scalar text, and leaves lists and mappings unchanged."""


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag; ValueError for a number that JSON cannot represent."""
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _read_int(text)
    if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return _read_float(text)
    return text


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag; ValueError if the tag is unknown or does not fit."""
    kind = tag.removeprefix(CORE_TAG) if tag.startswith(CORE_TAG) else ""
    if kind == "str" or tag == UNSPECIFIC_TAG:
        return text
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
    raise unknown_tag(tag)


def unknown_tag(tag: str) -> ValueError:
    """The error for a tag without a meaning in plain data. Tags never construct objects."""
    name = f"!!{tag.removeprefix(CORE_TAG)}" if tag.startswith(CORE_TAG) else tag
    return ValueError(f"tag {name[:60]} does not fit this value in plain data; remove it")


def _read_int(text: str) -> int:
    base = _BASES.get(text[:2], 10)
    digits = text[2:] if base != 10 else text.lstrip("+-").lstrip("0") or "0"
    # Python refuses to convert longer decimals, and counts leading zeros as digits.
    value = LARGEST_INT if base == 10 and len(digits) > MAX_DIGITS else int(digits, base)
    if value >= LARGEST_INT:
        raise ValueError(f"an integer of more than {MAX_DIGITS:,} digits; write it in quotes")
    return -value if text[0] == "-" else value


def _read_float(text: str) -> float:
    value = math.inf if _NOT_FINITE.fullmatch(text) else float(text)
    if math.isfinite(value):
        return value
    raise ValueError(f"{text[:40]} has no place in JSON, which knows finite numbers only; use null or quote it")


NextEvent = Callable[[], Event | None]
Read = TypeVar("Read")

MAX_PURE_CHARACTERS = 1024 * 1024
"""Size limit of a text for PyYAML's Python scanner, which takes seconds for each million characters."""

_TAB_REFUSED = "found a tab character where an indentation space is expected"
_REFUSED_THOUGH_LEGAL = frozenset(
    {
        # A block scalar may begin with a tab after its indentation.
        _TAB_REFUSED,
        # `{a:[1]}`: a bracket cannot be part of the key, so the colon ends it.
        "found unexpected ':'",
    }
)


def scan_by_libyaml(text: str) -> NextEvent:
    """An event reader on libyaml: each call returns the next event, None at the end."""
    next_event: NextEvent = CParser(text.encode(errors="replace")).get_event
    return next_event


def scan_in_python(text: str) -> NextEvent:
    """An event reader on PyYAML's Python scanner, thirty times slower."""
    next_event: NextEvent = yaml.SafeLoader(text).get_event
    return next_event


def read_events(text: str, read: Callable[[NextEvent, Substitution], Read]) -> Read:
    """The result of `read` for the events of a text; raises libyaml's error if no scanner accepts the text.

    `read` may be called again, from the start, with another scanner.
    """
    safe = Substitution.for_text(text)
    try:
        return read(scan_by_libyaml(safe.text), safe)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None)
        if problem == _TAB_REFUSED:
            with suppress(yaml.YAMLError):
                marked = safe.mark_tabs()
                return read(scan_by_libyaml(marked.text), marked)
        if problem in _REFUSED_THOUGH_LEGAL and len(text) <= MAX_PURE_CHARACTERS:
            with suppress(yaml.YAMLError):
                return read(scan_in_python(safe.text), safe)
        raise


_BREAKS = ("\x85", "\u2028", "\u2029")
_PAIR = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
)
_PRIVATE = range(0xE000, 0xF900)
_LINE_BEFORE_TAB = re.compile(r"^( *[^ \n].*)\n(?=(?: *\n)*+( +)\t)", re.MULTILINE)
_BLOCK_HEADER = re.compile(r"(?:^ *|[:?-][ \t]+|[ \t][!&]\S*[ \t]+)[|>][-+]?[ \t]*(?:(?<=[ \t])#.*)?$")


@dataclass(slots=True, frozen=True)
class Substitution:
    """Text with substitutes that make libyaml read it as YAML 1.2, and how to restore its scalars."""

    text: str
    stands_for: dict[int, str]
    pair: str = ""
    marker: str = ""
    marked_lines: tuple[int, ...] = ()

    @classmethod
    def for_text(cls, text: str) -> Substitution:
        """Substitute the characters that libyaml misreads; `text` is unchanged if it has none."""
        breaks = [] if text.isascii() else [char for char in _BREAKS if char in text]
        has_pairs = ("\\ud" in text or "\\uD" in text) and _PAIR.search(text) is not None
        if not breaks and not has_pairs:
            return cls(text, {})
        unused = _unused_characters(text)
        stands_for: dict[int, str] = {}
        for char in breaks:
            substitute = next(unused)
            stands_for[ord(substitute)] = char
            text = text.replace(char, substitute)
        if not has_pairs:
            return cls(text, stands_for)
        pair = next(unused)
        return cls(_PAIR.sub(rf"\g<before>{pair}\g<high>\g<low>", text), stands_for, pair)

    def mark_tabs(self) -> Substitution:
        """A copy with an extra line before each tab that seems to begin a block scalar.

        libyaml takes the indentation from that line and the tab in the next one as content.
        """
        marker = next(_unused_characters(self.text))
        pieces, lines, end, line = [], [], 0, 0
        for found in _LINE_BEFORE_TAB.finditer(self.text):
            if _BLOCK_HEADER.search(found[1]):
                pieces.append(self.text[end : found.end(2)])
                end, line = found.end(2), line + pieces[-1].count("\n")
                lines.append(line)
                pieces.append(f"{marker}\n{found[2]}")
                line += 1
        return replace(self, text="".join((*pieces, self.text[end:])), marker=marker, marked_lines=tuple(lines))

    def original_line(self, line: int) -> int:
        """The 1-based line in the original text for the 0-based `line` of a mark in `text`."""
        return line + 1 - bisect_left(self.marked_lines, line)

    @property
    def used(self) -> bool:
        """Whether scalars need restoring."""
        return bool(self.stands_for or self.pair or self.marker)

    def restore(self, scalar: str, style: str | None) -> str:
        """The original scalar; a surrogate pair is one character in double quotes and literal text elsewhere."""
        if self.marker and self.marker in scalar:
            # Removable anywhere in a literal scalar; in other styles it is folded with the lines around it.
            if style != "|" and (style != ">" or scalar.lstrip("\n").rfind(self.marker) > 0):
                raise yaml.YAMLError("a tab within other text was taken for the beginning of a block scalar")
            scalar = re.sub(f" *{self.marker}\n", "", scalar)
        if self.pair:
            restored = _decode_pair if style == '"' else _spell_pair
            scalar = re.sub(f"{self.pair}(.{{4}})(.{{4}})", restored, scalar)
        return scalar.translate(self.stands_for)


def _unused_characters(text: str) -> Iterator[str]:
    return (chr(code) for code in _PRIVATE if chr(code) not in text)


def _decode_pair(pair: re.Match[str]) -> str:
    high, low = int(pair[1], 16), int(pair[2], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _spell_pair(pair: re.Match[str]) -> str:
    return f"\\u{pair[1]}\\u{pair[2]}"


_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAB = "a tab cannot indent YAML; use spaces"
_REMEDIES = {
    "found a tab character that violates indentation": _TAB,
    "found a tab character where an indentation space is expected": _TAB,
    "mapping values are not allowed in this context": "': ' is not allowed here; quote the text or fix the indentation",
    "block sequence entries are not allowed in this context": "'- ' is not allowed here; begin the list on a new line",
    "could not find expected ':'": "expected ': ' after the key above, on its line",
    "did not find expected key": "the indentation fits no line above",
    "did not find expected '-' indicator": "the indentation fits no line above, or a '- ' is missing",
    "did not find expected ',' or ']'": "expected ',' or ']' here",
    "did not find expected ',' or '}'": "expected ',' or '}' here",
    "did not find expected alphabetic or numeric character": "'*' and '&' begin a name here; quote a text with them",
    "found unexpected end of stream": "the quoted text never ends; add its closing quote",
    "found unknown escape character": "no such escape in double quotes; double the backslash or use single quotes",
    "found invalid Unicode character escape code": "half of a surrogate pair is no character; write both halves",
    "found undefined tag handle": "the tag's prefix is not declared; remove the tag",
}


def explain_yaml_error(text: str, error: yaml.YAMLError, what: str) -> MalformedSource:
    """The error for a text that libyaml rejected; marks refer to `text`."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return _explain_unreadable(text, error, what)
    mark, problem = error.problem_mark, error.problem or "is not YAML"
    message = _REMEDIES.get(problem, problem)
    if problem == "found character that cannot start any token":
        character = text.split("\n")[mark.line][mark.column : mark.column + 1]
        message = _TAB if character == "\t" else f"{character!r} cannot begin a plain value; put it in quotes"
    if error.context_mark is not None and error.context_mark.line != mark.line:
        message += f" ({error.context} from line {error.context_mark.line + 1})"
    return MalformedSource(message, where=f"{what}:{mark.line + 1}:{mark.column + 1}")


def _explain_unreadable(text: str, error: yaml.YAMLError, what: str) -> MalformedSource:
    bad = _UNPRINTABLE.search(text)
    if bad is None:
        return MalformedSource(str(error), where=what)
    message = (
        f"the control character U+{ord(bad[0]):04X} is not allowed in YAML; remove it, or escape it in double quotes"
    )
    return MalformedSource.at_character(text, bad.start(), message, what)


ALIAS_ALLOWANCE = 250_000
"""Budget for values added by aliases, in units of `LONG` characters; each character of the document adds one."""

LONG = 32
"""Each `LONG` characters of a string count as one more value, so that aliases of a huge string use up the budget."""

_MERGE = "<<"


def build_document(text: str, what: str, max_depth: int, repeated: list[str] | None = None) -> Any:
    """The single document in `text`, None if it is empty; raises `MalformedSource`.

    If `repeated` is given, repeated keys are allowed: the last value stays, and their places are added to the list.
    """

    def build(next_event: NextEvent, safe: Substitution) -> Any:
        if repeated is not None:
            repeated.clear()
        return _Builder(next_event, safe, what, max_depth, repeated).build()

    try:
        return read_events(text, build)
    except yaml.YAMLError as error:
        raise explain_yaml_error(text, error, what) from error


@dataclass(slots=True)
class _Open:
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
        self.stack: list[_Open] = []
        self.documents = 0
        self.root: Any = None

    def build(self) -> Any:
        handlers: dict[type[Event], Callable[[Any], None]] = {
            ScalarEvent: self.scalar,
            **dict.fromkeys((MappingStartEvent, SequenceStartEvent), self.open),
            **dict.fromkeys((MappingEndEvent, SequenceEndEvent), self.close),
            AliasEvent: self.alias,
            DocumentStartEvent: self.document,
        }
        while (event := self.next_event()) is not None:
            if handle := handlers.get(type(event)):
                handle(event)
        return self.root

    def document(self, event: DocumentStartEvent) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self.refusal(event, "a second document begins here; put each in its own file")

    def scalar(self, event: ScalarEvent) -> None:
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
            raise self.refusal(event, str(error)) from error
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(value, size, text=text)
        if is_key:
            self.key(event, text, merging=text == _MERGE and not event.style and event.tag is None)
        else:
            self.add(event, value)

    def key(self, event: Event, text: str, *, merging: bool = False) -> None:
        top = self.stack[-1]
        if text in top.container or (merging and top.merged is not None):
            fault = self.refusal(event, f"key {text[:80]!r} appears twice in one mapping; remove or rename one")
            if self.repeated is None:
                raise fault
            self.repeated.append(str(fault))
        top.key = text
        top.merging = merging
        top.awaits_key = False

    def add(self, event: Event, value: Any) -> None:
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
                raise self.refusal(event, "<< merges a mapping or a list of mappings, and this is neither")
            top.merged = sources
        else:
            top.container[top.key] = value
        top.awaits_key = True

    def open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        is_mapping = type(event) is MappingStartEvent
        self.size += 1
        if event.tag not in (None, _MAP_TAG if is_mapping else _SEQ_TAG, UNSPECIFIC_TAG):
            raise self.refusal(event, str(unknown_tag(event.tag)))
        self.require_depth(event, 1)
        if self.stack and self.stack[-1].awaits_key:
            raise self.refusal(event, "a key must be a scalar, not a list or a mapping; write it as text")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open({} if is_mapping else [], event, event.anchor, self.size - 1, is_mapping))

    def close(self, event: MappingEndEvent | SequenceEndEvent) -> None:
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
        self.add(done.start, done.container)

    def alias(self, event: AliasEvent) -> None:
        name = event.anchor or ""
        target = self.anchors.get(name)
        if target is None:
            reason = "inside the value it names" if name in self.anchors else f"before any &{name[:60]}"
            raise self.refusal(event, f"alias *{name[:60]} stands {reason}; define the anchor first")
        self.size += target.size
        self.allowance -= target.size
        if self.allowance < 0:
            raise self.refusal(event, "aliases expand to far more data than is written; write it out or cut it down")
        if self.stack and self.stack[-1].awaits_key:
            if target.text is None:
                raise self.refusal(event, "a key must be a scalar, not a list or a mapping; write it as text")
            self.key(event, target.text)
            return
        self.require_depth(event, target.height)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, target.height + 1)
        # Copy, so that the document stays a tree and a change in one place does not show in another.
        try:
            copy = msgspec.to_builtins(target.value)
        except RecursionError as error:
            raise self.refusal(
                event, "nested deeper than the interpreter's recursion limit; flatten the data"
            ) from error
        self.add(event, copy)

    def require_depth(self, event: Event, levels: int) -> None:
        if len(self.stack) + levels > self.max_depth:
            raise self.refusal(event, f"nested deeper than {self.max_depth} levels; flatten the data")

    def refusal(self, event: Event, message: str) -> MalformedSource:
        mark = event.start_mark
        place = f":{self.text.original_line(mark.line)}:{mark.column + 1}" if mark else ""
        return MalformedSource(message, where=self.what + place)
