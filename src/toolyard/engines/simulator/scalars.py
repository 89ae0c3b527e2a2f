"""Makers of text, numbers and flags."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any, Protocol

from toolyard.engines.simulator.draw import ROOM, Check, Draw, GaveUp, Make, one_of
from toolyard.engines.simulator.formats import PLAIN_WORDS, Text, format_for, range_for, text_of, words_for
from toolyard.engines.simulator.patterns import Unreadable, writer_of
from toolyard.model.names import copied
from toolyard.words.identifiers import split_identifier


class MakerSource(Protocol):
    """Who makes and checks the parts of one schema."""

    root: dict[str, Any]

    def maker(self, node: dict[str, Any] | bool, name: str = "") -> Make:
        """Who makes values of that part, for a property of that name."""

    def checker(self, node: dict[str, Any] | bool) -> Check:
        """Whether a value is one of that part."""


_LONGEST = 20_000
_LARGEST = 500_000
"""Characters of the longest text that is ever asked for."""
_FEW = 3
_COUNTABLE = 1 << 48
_ROUNDED = 1e15
"""Numbers above it are not told apart by their decimals."""
_GREATEST = 1.7e308
_IDS = frozenset({"id", "ids", "uuid", "guid", "sid", "key", "number", "sha", "token", "etag"})
OWN = frozenset(("id", "sid", "uuid", "guid", "gid", "uid"))
"""Names, in plain letters, by which most things are called."""
_WHOLE: Mapping[str, tuple[int, int]] = {
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
    """One of some values, which are copied where somebody could change them."""
    if any(isinstance(value, (list, dict)) for value in values):
        return lambda draw: copied(values[draw.below(len(values))])
    return one_of(values)


flag = one_of((False, True))
"""True or false."""


def example_values(schema: Mapping[str, Any], kind: str, check: Check) -> list[Any]:
    """Examples and defaults of a schema that it allows itself."""
    examples = schema.get("examples")
    found = list(examples) if isinstance(examples, list) else []
    found += [schema[key] for key in ("example", "default") if key in schema]
    return [value for value in found[:20] if _is_kind(value, kind) and value != "" and check(value)]


def _is_kind(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, int) or (kind == "number" and isinstance(value, float))


def may_repeat(name: str) -> bool:
    """Whether two values of that name may well be the same: not ids."""
    return _IDS.isdisjoint(split_identifier(name)[-1:])


def mix_values(make: Make, values: list[Any], name: str) -> Make:
    """What a schema gives as examples, some of the time; never for ids, which must differ."""
    if not values or not may_repeat(name):
        return make
    if len(values) > _FEW:
        return one_of(values)
    return lambda draw: values[draw.below(len(values))] if draw.byte() & 1 else make(draw)


def text_maker(schema: Mapping[str, Any], name: str, check: Check) -> Make:
    """Text by pattern, format and name, of the right length."""
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
    """So many letters; long texts repeat themselves."""
    draw.worked(count // 8)
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
            draw.worked(1 + len(found) // 8)
            if check(found):
                return found
            longer = found + _pad_letters(draw, max(0, low - len(found)))
            if check(longer):
                return longer
        if values:
            return str(values[draw.below(len(values))])
        raise GaveUp(f"no text was found for the pattern {pattern!r}")

    return make


def integer_maker(schema: Mapping[str, Any], name: str, check: Check) -> Make:
    """A whole number within its bounds, of a size that fits its name."""
    low, high = _read_bounds(schema)
    least = None if low is None else ceil(low)
    most = None if high is None else floor(high)
    known = _WHOLE.get(str(schema.get("format")))
    if known is not None:
        least = known[0] if least is None else max(least, known[0])
        most = known[1] if most is None else min(most, known[1])
    step = _read_step(schema)
    if step is not None:
        # The smallest whole number that is a multiple: 3 for 1.5, 1 for 0.5.
        step = Fraction(step.numerator)
    return mix_values(
        _multiples_between(least, most, int(step or 1), name), example_values(schema, "integer", check), name
    )


def _multiples_between(least: int | None, most: int | None, step: int, name: str) -> Make:
    first, last = _range_by_name(least, most, name)
    low, high = -(-first // step), last // step
    if low > high:
        low, high = _range_of_multiples(least, most, step)
    return lambda draw: draw.between(low, high) * step


def _range_by_name(least: int | None, most: int | None, name: str) -> tuple[int, int]:
    """The range to choose from: what the name suggests, as far as it is allowed."""
    wanted = range_for(name) or (1, 1000)
    first, last = ceil(wanted[0]), floor(wanted[1])
    low = first if least is None else max(first, least)
    high = last if most is None else min(last, most)
    if low <= high:
        return low, high
    if least is not None and most is not None:
        return least, most
    return (least, least + 1000) if least is not None else ((most or 0) - 1000, most or 0)


def _range_of_multiples(least: int | None, most: int | None, step: int) -> tuple[int, int]:
    low = None if least is None else -(-least // step)
    high = None if most is None else most // step
    if low is None and high is None:
        return 0, 1000
    if low is None or high is None:
        return (low, low + 1000) if low is not None else ((high or 0) - 1000, high or 0)
    if low > high:
        raise GaveUp("no whole number is within its bounds")
    return low, high


def number_maker(schema: Mapping[str, Any], name: str, check: Check) -> Make:
    """A number within its bounds, with two decimals where that is fine enough."""
    low, high = _read_bounds(schema)
    values = example_values(schema, "number", check)
    step = _read_step(schema)
    if step is not None:
        return mix_values(_fraction_maker(step, low, high, check), values, name)
    first, last = range_for(name) or (0, 1000)
    least = first if low is None else max(first, low)
    most = last if high is None else min(last, high)
    if least > most or (least == most and low != high):
        least = low if low is not None else (high or 0) - 1000
        most = high if high is not None else least + 1000
    if least > most:
        raise GaveUp("no number is within its bounds")
    if max(abs(least), abs(most)) > _ROUNDED:
        least, most = max(least, -_GREATEST), min(most, _GREATEST)
        if least > most:
            raise GaveUp("no number is that great")
        return mix_values(_float_maker(float(least), float(most), check), values, name)
    hundredths = (ceil(least * 100), floor(most * 100))
    inside = (not _is_exclusive(schema, "Minimum")) and (not _is_exclusive(schema, "Maximum"))
    if inside and 0 < hundredths[1] - hundredths[0] < _COUNTABLE:
        return mix_values(lambda draw: draw.between(*hundredths) / 100, values, name)
    return mix_values(_float_maker(float(least), float(most), check), values, name)


def _float_maker(least: float, most: float, check: Check) -> Make:
    span = most - least

    def make(draw: Draw) -> float:
        part = draw.between(1, 999) / 1000
        for value in (round(least + span * part, 2), least + span * part, least + span / 2, least, most):
            if check(value):
                return value
        raise GaveUp("no number was found within its bounds")

    return make


def _fraction_maker(step: Fraction, low: float | None, high: float | None, check: Check) -> Make:
    first = None if low is None else ceil(Fraction(low) / step)
    last = None if high is None else floor(Fraction(high) / step)
    if first is None:
        first = 0 if last is None else last - 1000
    if last is None:
        last = first + 1000
    if first > last:
        raise GaveUp("no multiple is within its bounds")
    base, size = first, last - first + 1

    def make(draw: Draw) -> int | float:
        for _ in range(8):
            found = step * (base + draw.below(size))
            value = int(found) if found.denominator == 1 else float(found)
            if check(value):
                return value
        # Whole multiples come out exactly where fractions may not.
        return int(step.numerator * ceil(Fraction(base) / step.denominator))

    return make


def _read_step(schema: Mapping[str, Any]) -> Fraction | None:
    value = schema.get("multipleOf")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        return None
    return Fraction(str(value))


def _is_exclusive(schema: Mapping[str, Any], end: str) -> bool:
    value = schema.get(f"exclusive{end}")
    return value is not None and value is not False


def _read_bounds(schema: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The least and the greatest number; for an excluded end of whole numbers, the next one inside."""
    low, high = _read_number(schema.get("minimum")), _read_number(schema.get("maximum"))
    above, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    whole = "integer" in (schema.get("type") or ())
    if above is True and low is not None:  # as draft 4 has it
        above = low
    if under is True and high is not None:
        under = high
    edge, top = _read_number(above), _read_number(under)
    if edge is not None and (low is None or edge >= low):
        low = floor(edge) + 1 if whole else edge
    if top is not None and (high is None or top <= high):
        high = ceil(top) - 1 if whole else top
    return low, high


def _read_number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
