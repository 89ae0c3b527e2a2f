"""Text that matches a regular expression, generated from the tree of Python's own parser.

Look-around and back-references are ignored, so callers must check the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import _parser  # type: ignore[attr-defined]  # nothing public gives the tree
from typing import Any

from toolyard.engines.simulator.draw import Draw

Write = Callable[[Draw, int, bool], str]
"""Writes text with about that many repetitions where the pattern allows it; exactly that many if the flag is set."""

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGITS = "0123456789"
_WORD = _LOWER + _UPPER + _DIGITS + "_"
_PRINTED = "".join(map(chr, range(32, 127)))
_FOREIGN = "\u00e9\u00df\u00f1\u00fc\u03bb\u0436\u4e2d\u6587"
_CATEGORIES = {"CATEGORY_DIGIT": _DIGITS, "CATEGORY_WORD": _WORD, "CATEGORY_SPACE": " "}
_PROPERTIES = {"L": "a-zA-Z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9", "Z": " ", "Zs": " "}
_PROPERTIES |= {"Alphabetic": "a-zA-Z", "Letter": "a-zA-Z", "P": r"\-.,:;!?", "S": "+=$", "Punct": r"\-.,:"}
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_MOST = 2000
"""Maximum number of repetitions."""
_DEEPEST = 50
_TOKEN = re.compile(
    r"(?P<open>\[\^?\]?)|(?P<close>\])|(?P<named>\(\?<(?![=!]))|(?P<flags>\(\?[a-zA-Z-]+\))|(?P<loose>--|[&~|])"
    r"|\\(?:(?P<sign>[pP])(?:\{(?P<property>[^{}]*)\}|(?P<short>\w))"
    r"|[ux]\{(?P<code>[0-9A-Fa-f]+)\}|(?P<control>c[A-Za-z])|(?P<end>z))|\\.|.",
    re.DOTALL,
)
"""Syntax that other dialects spell differently from Python, and the tokens to skip while looking for it."""


class Unreadable(ValueError):
    """The expression uses syntax that is not supported."""


def writer_of(pattern: str) -> Write:
    """A writer of text that usually matches the pattern; raises `Unreadable`."""
    try:
        return _sequence_writer(_parser.parse(_spell_for_python(pattern)), _DEEPEST)
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        raise Unreadable(f"{pattern!r}: {error}") from None


def _spell_for_python(pattern: str) -> str:
    """The expression in Python's syntax, as far as possible."""
    written, in_set = "", False
    for token in _TOKEN.finditer(pattern):
        text, kind = token[0], token.lastgroup
        if kind == "open":
            # Escape a bracket inside a set, which Python warns about; directly after `[` or `[^`, a `]` may close it.
            text, in_set = (f"\\{text}", text[-1] != "]") if in_set else (text, True)
        elif kind == "close":
            in_set = False
        elif kind == "flags" and not in_set:
            text = ""
        elif kind == "named" and not in_set:
            text = "(?P<"
        elif kind == "loose" and in_set:
            text = rf"{text[:-1]}\{text[-1]}"
        elif kind in ("property", "short"):
            text = _spell_property(token["property"] or token["short"] or "", token["sign"] == "P", in_set)
        elif kind == "code":
            text = re.escape(chr(int(token["code"], 16)))
        elif kind == "control":
            text = rf"\x{ord(text[-1]) % 32:02x}"
        elif kind == "end":
            text = r"\Z"
        written += text
    return written


def _spell_property(name: str, negated: bool, in_set: bool) -> str:
    """Some characters with that Unicode property."""
    name = name.rpartition("=")[2]
    letters = _PROPERTIES.get(name) or _PROPERTIES.get(name[:1], "a-z")
    if negated:
        kept = re.compile(f"[{letters}]")
        letters = re.escape("".join(letter for letter in _PRINTED if not kept.match(letter)))
    return letters if in_set else f"[{letters}]"


def _sequence_writer(tree: Any, depth: int) -> Write:
    if not depth:
        raise Unreadable("the pattern nests too deep")
    parts = [_part_writer(str(kind), value, depth - 1) for kind, value in tree]
    if len(parts) == 1:
        return parts[0]
    return lambda draw, spread, exact: "".join([part(draw, spread, exact) for part in parts])


def _part_writer(kind: str, value: Any, depth: int) -> Write:
    if kind == "BRANCH":
        branches = [_sequence_writer(branch, depth) for branch in value[1]]
        return lambda draw, spread, exact: branches[draw.below(len(branches))](draw, spread, exact)
    if kind in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _sequence_writer(value[-1] if kind == "SUBPATTERN" else value, depth)
    if kind in _REPEATS:
        return _repeat_writer(_sequence_writer(value[2], depth), value[0], value[1])
    # Anchors and look-around produce no text.
    letters = {"LITERAL": [("LITERAL", value)], "NOT_LITERAL": [("NEGATE", None), ("LITERAL", value)], "IN": value}
    return _one_of(_WORD if kind == "ANY" else _letters_of(letters.get(kind, ())))


def _letters_of(members: Any) -> str:
    """Some characters of a set, readable ones if it has any."""
    found: list[str] = []
    negated = False
    for member, value in members:
        kind, name = str(member), str(value)
        if kind == "NEGATE":
            negated = True
        elif kind == "LITERAL":
            found.append(chr(value))
        elif kind == "RANGE":
            found.extend(map(chr, range(value[0], min(value[1], value[0] + 500) + 1)))
        elif name in _CATEGORIES:
            found.extend(_CATEGORIES[name])
        else:
            left_out = _CATEGORIES[name.replace("_NOT_", "_")]
            found.extend(letter for letter in _PRINTED if letter not in left_out)
    if negated:
        return "".join(letter for letter in _PRINTED + _FOREIGN if letter not in found)[:95] or "\n"
    return "".join(letter for letter in found if letter in _PRINTED) or "".join(found)


def _one_of(letters: str) -> Write:
    if len(letters) <= 1:
        return lambda draw, spread, exact: letters
    return lambda draw, spread, exact: letters[draw.below(len(letters))]


def _repeat_writer(write: Write, low: int, high: int) -> Write:
    most = min(_MOST, low + _MOST, int(high))

    def repeat(draw: Draw, spread: int, exact: bool) -> str:
        longest = max(low, min(most, low + spread)) if draw.room > 0 else low
        count = longest if exact else draw.between(low, longest)
        draw.room -= count
        return "".join([write(draw, spread, exact) for _ in range(count)])

    return repeat
