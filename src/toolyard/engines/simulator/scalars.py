"""Makers of text, numbers and booleans.

`writer_of` writes text that matches a regular expression, from the tree of Python's own parser. It ignores look-around
and back-references, so callers must check the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor
from re import _parser  # type: ignore[attr-defined]  # nothing public gives the tree
from typing import Any, Protocol

from toolyard.engines.simulator.draw import ROOM, Check, Draw, GaveUp, Make, one_of
from toolyard.engines.simulator.formats import PLAIN_WORDS, Text, format_for, range_for, text_of, words_for
from toolyard.model.json_schema import copy_json, json_type
from toolyard.words.identifiers import split_identifier


class MakerSource(Protocol):
    """Provides makers and checks for the parts of one schema."""

    root: dict[str, Any]

    def maker(self, node: dict[str, Any] | bool, name: str = "") -> Make:
        """The maker of values for that part, under a property of that name."""

    def checker(self, node: dict[str, Any] | bool) -> Check:
        """A check of values for that part."""


_LONGEST = 20_000
_LARGEST = 500_000
"""Characters of the longest text that can be requested."""
_FEW_EXAMPLES = 3
_GREATEST = Fraction(1.7e308)
_NUMBER_ATTEMPTS = 8
"""Attempts to draw a number that fits."""
_IDS = frozenset({"id", "ids", "uuid", "guid", "sid", "key", "number", "sha", "token", "etag"})
ID_NAMES = ("id", "uuid", "guid", "sid", "gid", "uid", "pk")
"""Normalised names of common id fields."""
_INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32_768, 32_767),
    "uint16": (0, 65_535),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**63 - 1),
    "unixtime": (1_672_531_200, 1_772_531_200),
}


def choose_value(values: list[Any]) -> Make:
    """Make one of these values, copying them if they are mutable."""
    if any(isinstance(value, (list, dict)) for value in values):
        return lambda draw: copy_json(values[draw.below(len(values))])
    return one_of(values)


make_boolean = one_of((False, True))
"""Make true or false."""


def example_values(schema: Mapping[str, Any], kind: str, check: Check) -> list[Any]:
    """Examples and defaults that the schema itself allows."""
    examples = schema.get("examples")
    found = list(examples) if isinstance(examples, list) else []
    found += [schema[key] for key in ("example", "default") if key in schema]
    return [value for value in found[:20] if _is_kind(value, kind) and value != "" and check(value)]


def _is_kind(value: Any, kind: str) -> bool:
    found = json_type(value)
    return found == kind or (found == "integer" and kind == "number")


def may_repeat(name: str) -> bool:
    """True if two values under that name may be equal, which ids must not be."""
    return _IDS.isdisjoint(split_identifier(name)[-1:])


def mix_values(make: Make, values: list[Any], name: str) -> Make:
    """Use a schema's examples some of the time, but never for ids, which must differ."""
    if not values or not may_repeat(name):
        return make
    if len(values) > _FEW_EXAMPLES:
        return one_of(values)
    return lambda draw: values[draw.below(len(values))] if draw.byte() & 1 else make(draw)


def text_maker(schema: Mapping[str, Any], name: str, check: Check) -> Make:
    """Make text by pattern, format and name, within the length limits."""
    low, high = _read_int(schema.get("minLength"), 0), _read_int(schema.get("maxLength"), None)
    if high is not None and high < (low or 0):
        raise GaveUp("no text is that long and that short")
    if (low or 0) > _LARGEST:
        raise GaveUp("no text is that long")
    bounds = (low or 0, max(_LONGEST, low or 0) if high is None else high)
    values = example_values(schema, "string", check)
    if isinstance(schema.get("pattern"), str):
        return _pattern_maker(schema["pattern"], bounds, values, check)
    write = text_of(schema.get("format")) or format_for(name)
    if write is not None:
        return mix_values(_fit_length(write, bounds), values, name)
    words = words_for(name) or PLAIN_WORDS
    fitting = [word for word in words if bounds[0] <= len(word) <= bounds[1]]
    if not fitting:
        return mix_values(_fit_length(one_of(words), bounds), values, name)
    return mix_values(choose_value(fitting), values, name)


def _read_int(value: Any, otherwise: int | None) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return otherwise
    return int(value)


def _fit_length(write: Text, bounds: tuple[int, int]) -> Make:
    low, high = bounds
    if low == 0 and high >= 80:
        return write

    def make(draw: Draw) -> str:
        found = write(draw)
        if len(found) < low:
            found += _pad_letters(draw, low - len(found))
        return found[:high]

    return make


def _pad_letters(draw: Draw, count: int) -> str:
    """A text of that many letters, repeated if it is long."""
    draw.count_work(count // 8)
    return (draw.letters("abcdefghijklmnopqrstuvwxyz", min(count, 64)) * (count // 64 + 1))[:count]


def _pattern_maker(pattern: str, bounds: tuple[int, int], values: list[Any], check: Check) -> Make:
    low = bounds[0]
    spreads = [(6, False), (low, True), (low, False), (1, True), (0, True), (low // 2 + 1, True), (30, False)]
    spreads += [(bounds[1] if bounds[1] < _LONGEST else 64, True), (3, False), (12, False), (2, True), (4, True)]
    try:
        write = writer_of(pattern)
    except Unreadable:
        write = None
    if write is None:
        if not values:
            raise GaveUp(f"no text is known for the pattern {pattern!r}")
        return choose_value(values)

    def make(draw: Draw) -> str:
        for spread, exact in spreads:
            draw.room = ROOM
            found = write(draw, spread, exact)
            if exact and len(found) > bounds[1]:
                found = write(draw, max(spread - len(found) + bounds[1], 0), True)
            draw.count_work(1 + len(found) // 8)
            if check(found):
                return found
            longer = found + _pad_letters(draw, max(0, low - len(found)))
            if check(longer):
                return longer
        if values:
            return str(values[draw.below(len(values))])
        raise GaveUp(f"no text was found for the pattern {pattern!r}")

    return make


def number_maker(schema: Mapping[str, Any], name: str, check: Check, *, whole: bool) -> Make:
    """Make numbers within the bounds, a multiple of the factor, and of a size that fits the name."""
    low, high = _read_bounds(schema, whole=whole)
    factor = _read_factor(schema, whole=whole)
    # Two decimals, unless a factor is given.
    step = factor or Fraction(1, 100)
    wanted = range_for(name) or (1 if whole else 0, 1000)
    narrow = (wanted[0] if low is None else max(wanted[0], low), wanted[1] if high is None else min(wanted[1], high))
    least = low if low is not None else (high or 0) - 1000 * step
    most = high if high is not None else least + 1000 * step
    if not whole:
        least, most = max(least, -_GREATEST), min(most, _GREATEST)
    if least > most:
        raise GaveUp(f"no {'whole ' if whole else ''}number is within its bounds")
    values = example_values(schema, "integer" if whole else "number", check)
    otherwise = None if factor is not None else _float_maker(float(least), float(most), check)
    for bounds in (narrow, (least, most)):
        first, last = ceil(bounds[0] / step), floor(bounds[1] / step)
        if first < last or (first == last and bounds[0] == least):
            return mix_values(_multiple_maker(step, (first, last), check, otherwise), values, name)
    if otherwise is None:
        raise GaveUp("no whole number is within its bounds" if whole else "no multiple is within its bounds")
    return mix_values(otherwise, values, name)


def _multiple_maker(step: Fraction, multiples: tuple[int, int], check: Check, otherwise: Make | None) -> Make:
    above, below = step.numerator, step.denominator

    def make(draw: Draw) -> Any:
        for _ in range(_NUMBER_ATTEMPTS):
            found = draw.between(*multiples) * above
            value = found / below if otherwise is not None or found % below else found // below
            if check(value):
                return value
        # Exact for whole multiples, where fractions may be rounded.
        return otherwise(draw) if otherwise is not None else above * ceil(multiples[0] / below)

    return make


def _float_maker(least: float, most: float, check: Check) -> Make:
    span = most - least

    def make(draw: Draw) -> float:
        part = draw.between(1, 999) / 1000
        for value in (round(least + span * part, 2), least + span * part, least + span / 2, least, most):
            if check(value):
                return value
        raise GaveUp("no number was found within its bounds")

    return make


def _read_factor(schema: Mapping[str, Any], *, whole: bool) -> Fraction | None:
    """The factor that a number must be a multiple of."""
    value = schema.get("multipleOf")
    given = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    if not whole:
        return Fraction(str(value)) if given else None
    # The smallest whole multiple: 3 for 1.5, 1 for 0.5.
    return Fraction(Fraction(str(value)).numerator if given else 1)


def _read_bounds(schema: Mapping[str, Any], *, whole: bool) -> tuple[Fraction | None, Fraction | None]:
    """The least and the greatest allowed number; exclusive bounds of whole numbers are moved inside."""
    low, high = _read_number(schema.get("minimum")), _read_number(schema.get("maximum"))
    above, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    # Draft 4 has booleans here.
    edge = low if above is True else _read_number(above)
    top = high if under is True else _read_number(under)
    if edge is not None and (low is None or edge >= low):
        low = Fraction(floor(edge) + 1) if whole else edge
    if top is not None and (high is None or top <= high):
        high = Fraction(ceil(top) - 1) if whole else top
    known = _INTEGER_RANGES.get(str(schema.get("format"))) if whole else None
    if known is not None:
        least, most = map(Fraction, known)
        low = least if low is None else max(low, least)
        high = most if high is None else min(high, most)
    return low, high


def _read_number(value: Any) -> Fraction | None:
    return Fraction(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


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
