"""The events of a YAML document, read by libyaml or PyYAML, and errors that name the fault, its place and a remedy.

libyaml produces the events; PyYAML's Python scanner takes over for valid YAML that libyaml rejects. libyaml reads YAML
1.1: NEL, LS and PS end a line for it but are ordinary characters in YAML 1.2, and it rejects the surrogate escapes with
which JSON writes an emoji. Both are replaced by private-use characters before it reads the text and restored in each
scalar (`Substitution`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import yaml
from yaml._yaml import CParser
from yaml.events import Event

from toolyard.model.errors import MalformedSource

NextEvent = Callable[[], Event | None]
Read = TypeVar("Read")

MAX_PURE_CHARACTERS = 2_500_000
"""Size limit of a text for PyYAML's Python scanner, which takes some three seconds for each million characters."""

_REFUSED_THOUGH_LEGAL = frozenset(
    {
        # A block scalar may begin with a tab after its indentation.
        "found a tab character where an indentation space is expected",
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


def read_events(text: str, read: Callable[[NextEvent, Substitution], Read], what: str = "document") -> Read:
    """The result of `read` for the events of a text; `MalformedSource` if no scanner accepts the text.

    `read` may be called again, from the start, with another scanner.
    """
    safe = Substitution.for_text(text)
    try:
        return read(scan_by_libyaml(safe.text), safe)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None)
        if problem in _REFUSED_THOUGH_LEGAL and len(text) <= MAX_PURE_CHARACTERS:
            with suppress(yaml.YAMLError):
                return read(scan_in_python(safe.text), safe)
        raise _explain_error(text, error, what) from error


_BREAKS = ("\x85", "\u2028", "\u2029")
_PAIR = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
)
_PRIVATE = range(0xE000, 0xF900)


@dataclass(slots=True, frozen=True)
class Substitution:
    """Text with substitutes that make libyaml read it as YAML 1.2, and how to restore its scalars."""

    text: str
    stands_for: dict[int, str]
    pair: str = ""

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

    @property
    def used(self) -> bool:
        """Whether scalars need restoring."""
        return bool(self.stands_for or self.pair)

    def restore(self, scalar: str, style: str | None) -> str:
        """The original scalar; a surrogate pair is one character in double quotes and literal text elsewhere."""
        if self.pair:
            restored = _decode_pair if style == '"' else r"\\u\1\\u\2"
            scalar = re.sub(f"{self.pair}(.{{4}})(.{{4}})", restored, scalar)
        return scalar.translate(self.stands_for)


def _unused_characters(text: str) -> Iterator[str]:
    return (chr(code) for code in _PRIVATE if chr(code) not in text)


def _decode_pair(pair: re.Match[str]) -> str:
    high, low = int(pair[1], 16), int(pair[2], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


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


def _explain_error(text: str, error: yaml.YAMLError, what: str) -> MalformedSource:
    """The error for a text that libyaml rejected; marks refer to `text`."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        bad = _UNPRINTABLE.search(text)
        if bad is None:
            return MalformedSource(str(error), where=what)
        message = f"the control character U+{ord(bad[0]):04X} is not allowed in YAML"
        remedy = "remove it, or escape it in double quotes"
        return MalformedSource.at_character(text, bad.start(), f"{message}; {remedy}", what)
    mark, problem = error.problem_mark, error.problem or "is not YAML"
    message = _REMEDIES.get(problem, problem)
    line = "".join(text.split("\n")[mark.line : mark.line + 1])
    character = line[mark.column : mark.column + 1]
    if line[: mark.column].endswith("$") and character == "{":
        message = "text with ${...} must be in quotes inside of [] and {}"
    elif problem == "found character that cannot start any token":
        message = _TAB if character == "\t" else f"{character!r} cannot begin a plain value; put it in quotes"
    if error.context_mark is not None and error.context_mark.line != mark.line:
        message += f" ({error.context} from line {error.context_mark.line + 1})"
    return MalformedSource(message, where=f"{what}:{mark.line + 1}:{mark.column + 1}")
