"""Regular expressions: what it costs to run them, and counts of characters as limits of length.

Patterns run in linear time, but for a long one each character may cost as much as the whole pattern has positions:
`(a|b)*a(a|b){5000}` on 40,000 letters takes six seconds. A pattern of few positions becomes a table, which is fast. One
with look-around or back-references anywhere but at the start may restart at every character.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import msgspec

_TABLE = 6
"""Up to this many positions, the table is always small."""
_TABLE_STEPS = 0.4
_POSITION_STEPS = 3
_RESTARTS = 80
"""Characters that a restarting pattern passes in one step."""

_TOKEN = re.compile(
    r"\\(?:[pPux]\{[^}]*\}|k<[^>]*>|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[a-zA-Z-]*:?))?"
    r"|\{(?P<least>\d+)(?P<more>,?)(?P<most>\d*)\}|.",
    re.DOTALL,
)
_LOOKS = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
_LOOKS_FIRST = re.compile(r"\^(?:\(\?[=!](?:\\[^1-9k]|\[(?:\\.|[^\]\\])*\]|[^()\\\[])*\))+")


@lru_cache(maxsize=1024)
def pattern_steps(pattern: str) -> tuple[float, float]:
    """Steps for each character, and steps for each character multiplied by the length of the text."""
    positions = count_positions(pattern)
    steps = _TABLE_STEPS if positions <= _TABLE else float(_POSITION_STEPS * positions)
    first = _LOOKS_FIRST.match(pattern)
    if _LOOKS.search(pattern, first.end() if first else 0):
        return steps, positions / _RESTARTS
    return steps, 0.0


def count_positions(pattern: str) -> int:
    """The number of characters that the pattern describes one by one, with counted repetitions expanded."""
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if token["least"] is not None:
            times = max(int(token["most"] or token["least"]) + (token["more"] != "" and not token["most"]), 1)
            groups[-1] += last * (times - 1)
            last *= times
        elif text[0] == "(":
            groups.append(0)
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif text not in "*+?|^$":
            last = 1
            groups[-1] += 1
    return sum(groups)


_ONE_CHARACTER = re.compile(
    r"\\(?:[pP]\{[^}]*\}|[dDwWsSfnrtv]|[^\w\s])"
    r"|\[(?!\^?\])(?:\\(?!u[dD][89a-fA-F]).|[^\\\[\]])+\]"
    r"|[^\\\[\](){}*+?|^$]",
    re.DOTALL,
)
"""A token that matches exactly one character, which half of a surrogate pair does not."""


class CountedPattern(msgspec.Struct, frozen=True):
    """A pattern without one of its counted repetitions, and the lengths of text that all of it allowed."""

    pattern: str
    least: int
    most: float
    """Infinity for no limit."""


def split_length(pattern: str) -> CountedPattern | None:
    r"""Read `^\p{L}{1,64}$` as `^\p{L}+$` and lengths from 1 to 64, which together mean the same.

    The validator needs tens of kilobytes for each repetition of a Unicode class, so it does not compile such a count.
    None unless the pattern is a sequence of single characters from start to end, of which one at most varies in number.
    """
    tokens = list(_TOKEN.finditer(pattern))
    if len(tokens) < 4 or tokens[0][0] != "^" or tokens[-1][0] != "$":
        return None
    is_group = tokens[1][0] in ("(", "(?:") and tokens[-2][0] == ")"
    least, most = 0, 0.0
    counts: list[tuple[float, int, re.Match[str]]] = []
    may_repeat = False
    for token in tokens[2:-2] if is_group else tokens[1:-1]:
        low, high = 1, 1.0
        if token["least"] is not None and may_repeat:
            low = int(token["least"])
            high = int(token["most"] or low) if token["most"] or not token["more"] else math.inf
            counts.append((high - low, low, token))
            low, high = low - 1, high - 1  # the character itself is counted already
        elif not _ONE_CHARACTER.fullmatch(token[0]):
            return None
        least, most, may_repeat = least + low, most + high, token["least"] is None
    varying = [count for count in counts if count[0]]
    if not counts or len(varying) > 1 or any(count[0] < 0 for count in counts):
        return None
    _, low, chosen = max(counts, key=lambda count: count[:2])
    return CountedPattern(f"{pattern[: chosen.start()]}{'+' if low else '*'}{pattern[chosen.end() :]}", least, most)
