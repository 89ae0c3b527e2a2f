"""What a regular expression may cost for each character of a text, in the steps of `weight`.

Patterns run in linear time, but for a long one each character may take as long as the whole pattern has positions:
`(a|b)*a(a|b){5000}` on 40,000 letters takes six seconds. A pattern of few positions becomes a table, which is quick.
One that looks around or back anywhere but at the start may begin anew at every character.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TABLE = 6
"""Positions that always make a small table."""
_TABLE_STEPS = 0.4
_POSITION_STEPS = 3
_RESTARTS = 80
"""Characters that a pattern passes in a step where it begins anew at each."""

_TOKEN = re.compile(
    r"\\(?:[pPux]\{[^}]*\}|k<[^>]*>|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[a-zA-Z-]*:?))?"
    r"|\{(?P<least>\d+)(?P<more>,?)(?P<most>\d*)\}|.",
    re.DOTALL,
)
_LOOKS = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
_LOOKS_FIRST = re.compile(r"\^(?:\(\?[=!](?:\\[^1-9k]|\[(?:\\.|[^\]\\])*\]|[^()\\\[])*\))+")


@lru_cache(maxsize=1024)
def pattern_steps(pattern: str) -> tuple[float, float]:
    """Steps for each character, and steps for each character times those of its text."""
    positions = count_positions(pattern)
    steps = _TABLE_STEPS if positions <= _TABLE else float(_POSITION_STEPS * positions)
    first = _LOOKS_FIRST.match(pattern)
    if _LOOKS.search(pattern, first.end() if first else 0):
        return steps, positions / _RESTARTS
    return steps, 0.0


def count_positions(pattern: str) -> int:
    """How many characters the pattern describes one by one, with what is repeated a number of times written out."""
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
