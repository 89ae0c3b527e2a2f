"""What libyaml, a YAML 1.1 reader, would misread in YAML 1.2: three characters and one escape.

NEL, LS and PS end a line for libyaml but are ordinary characters in YAML 1.2, and it refuses the two-part escapes
with which JSON writes an emoji. Both are replaced by private characters before it reads the text, and put back in
each scalar after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BREAKS = ("\x85", "\u2028", "\u2029")
_PAIR = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
)
_PRIVATE = range(0xE000, 0xF900)


@dataclass(slots=True, frozen=True)
class Substitution:
    """A text that libyaml reads as YAML 1.2, and the way back for the scalars it finds."""

    text: str
    stands_for: dict[int, str]
    pair: str = ""

    @classmethod
    def for_text(cls, text: str) -> Substitution:
        """`text` itself, unless it holds something libyaml misreads."""
        breaks = [] if text.isascii() else [char for char in _BREAKS if char in text]
        has_pairs = ("\\ud" in text or "\\uD" in text) and _PAIR.search(text) is not None
        if not breaks and not has_pairs:
            return cls(text, {})
        unused = (chr(code) for code in _PRIVATE if chr(code) not in text)
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
        """Whether scalars have to be restored at all."""
        return bool(self.stands_for or self.pair)

    def restore(self, scalar: str, style: str | None) -> str:
        """The scalar as it was written; a pair is a character between double quotes and text everywhere else."""
        if self.pair:
            restored = _decode_pair if style == '"' else _spell_pair
            scalar = re.sub(f"{self.pair}(.{{4}})(.{{4}})", restored, scalar)
        return scalar.translate(self.stands_for)


def _decode_pair(pair: re.Match[str]) -> str:
    high, low = int(pair[1], 16), int(pair[2], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _spell_pair(pair: re.Match[str]) -> str:
    return f"\\u{pair[1]}\\u{pair[2]}"
