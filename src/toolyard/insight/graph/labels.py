"""Names that fit. Width is counted in cells of monospaced letters, of which some characters take two."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_LINE_BREAKING = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))
_WORTH = 6


def plain(text: str) -> str:
    """Text without what a picture cannot show, or what would turn its order round: each such character as U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _odd(char) else char for char in text)


def _odd(char: str) -> bool:
    return unicodedata.category(char) in _LINE_BREAKING or unicodedata.bidirectional(char) in _TURNS


_TURNS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))


def cells(text: str) -> int:
    """How many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WF" or ord(char) >= 0x1F000 else 1


def fitted(text: str, most: int) -> str:
    """The text, or its beginning and its end: names that begin alike often differ there."""
    if cells(text) <= most:
        return text
    head, tail = _taken(text, most // 2), _taken(text[::-1], most - 1 - most // 2)
    return f"{head}…{tail[::-1]}"


def _taken(text: str, most: int) -> str:
    used = 0
    for end, char in enumerate(text):
        used += _cells(char)
        if used > most:
            return text[:end]
    return text


def shared(names: Sequence[str]) -> int:
    """How many characters all names begin with, up to a separator; 0 if they are too few to be worth leaving out."""
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)
    same = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    end = max(first.rfind(separator, 0, same) for separator in "._-/:") + 1
    return end if end >= _WORTH and all(len(name) > end for name in names) else 0
