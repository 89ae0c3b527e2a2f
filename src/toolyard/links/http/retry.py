"""Which answers ask for another try, and when."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

RETRYABLE = frozenset({408, 425, 429, 502, 503, 504})
"""Not now, these say, rather than no."""
_LONGEST = 86_400.0
_DIGITS = 9


def retry_after(text: str, now: float) -> float | None:
    """Seconds that `Retry-After` asks to wait, at most a day; None if it says nothing that can be understood."""
    text = text.strip()
    if not text:
        return None
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text[:_DIGITS]), _LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return min(max(moment.timestamp() - now, 0.0), _LONGEST)
    except (ValueError, OverflowError):
        return None
