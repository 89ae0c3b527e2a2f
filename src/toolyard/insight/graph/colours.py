"""Colours that can be told from a light page and from a dark one."""

from __future__ import annotations

import colorsys
from typing import Final

_COUNT = 18
_GOLDEN = 0.618034
_LUMINANCE = 0.19
"""Half way, as eyes see it, between the two grounds."""
_SATURATION = 0.62


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`, from 0 to 1."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _colour(hue: float) -> str:
    low, high, found = 0.0, 1.0, "#000000"
    for _ in range(16):
        middle = (low + high) / 2
        found = "#" + "".join(f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(hue, middle, _SATURATION))
        low, high = (middle, high) if luminance(found) < _LUMINANCE else (low, middle)
    return found


PALETTE: Final = tuple(_colour((0.44 + place * _GOLDEN) % 1) for place in range(_COUNT))
"""As many namespaces can be told apart by colour; more of them share."""
