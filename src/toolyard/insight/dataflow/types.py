"""Whether a value of one type can be given where another is asked for, and how."""

from __future__ import annotations

from functools import lru_cache

from toolyard.insight.dataflow.settle import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING
from toolyard.insight.sample import How

_SCALARS = {
    (STRING, STRING): 1.0,
    (INTEGER, INTEGER): 1.0,
    (NUMBER, NUMBER): 1.0,
    (BOOLEAN, BOOLEAN): 1.0,
    (INTEGER, NUMBER): 1.0,
    (NUMBER, INTEGER): 0.8,
    (INTEGER, STRING): 0.9,
    (NUMBER, STRING): 0.8,
    (STRING, INTEGER): 0.75,
    (STRING, NUMBER): 0.6,
    (OBJECT, OBJECT): 0.8,
}
_BITS = (STRING, INTEGER, NUMBER, BOOLEAN, OBJECT)
Listed = frozenset[str] | None
"""The values that are allowed, if they are listed."""

_NEAR = {("date", "date-time"): 0.9, ("date-time", "date"): 0.9, ("date-time", "time"): 0.7}


@lru_cache(maxsize=65536)
def fit(
    kinds: int, items: int, lists: int, wanted: int, wanted_items: int, wanted_lists: int, required: bool
) -> tuple[float, How]:
    """How well a value fits (0 to 1), and how it is handed on."""
    inside = wanted_lists > 0
    options: list[tuple[float, How]] = [(0.0, "direct")]
    plain, asked = kinds & ~ARRAY, wanted & ~ARRAY
    many = lists > 0
    if plain and asked:
        how: How = "direct" if not many or inside else ("each" if required else "first")
        options.append((_best(plain, asked) * (1.0 if how == "direct" else 0.96), how))
    if kinds & ARRAY and items and asked:
        options.append((_best(items, asked) * 0.95, "each" if required else "first"))
    if wanted & ARRAY and wanted_items:
        if kinds & ARRAY and items:
            options.append((_best(items, wanted_items), "direct"))
        if plain:
            options.append((_best(plain, wanted_items) * 0.95, "direct" if many else "wrap"))
    return max(options, key=lambda option: option[0])


def _best(given: int, asked: int) -> float:
    sure = 1.0 if given.bit_count() == asked.bit_count() == 1 else 0.95
    return sure * max(
        (_SCALARS.get((one, other), 0.0) for one in _BITS if given & one for other in _BITS if asked & other),
        default=0.0,
    )


def details_fit(form: str, enum: Listed, wanted_form: str, wanted_enum: Listed) -> float:
    """Whether formats and listed values agree: 1 if nothing speaks against it, 0 if they cannot."""
    score = 1.0
    if form and wanted_form and form != wanted_form:
        score *= _NEAR.get((form, wanted_form), 0.15)
    if wanted_enum is not None:
        score *= 0.85 if enum is None else len(enum & wanted_enum) / len(enum)
    return score
