"""What a model is told about an operation, within a length it can use."""

from __future__ import annotations

import re
from typing import Any

MAX_LENGTH = 1024
_SENTENCE = re.compile(r"[.!?]['\")\]]?(?=\s)|\n\n")


def describe(operation: dict[str, Any]) -> tuple[str, str | None]:
    """Summary and description as one text; and the whole of it, if that had to be cut."""
    summary, description = operation.get("summary"), operation.get("description")
    first = summary.strip() if type(summary) is str else ""
    second = description.strip() if type(description) is str else ""
    if not first or not second or second.startswith(first):
        whole = second or first
    else:
        whole = f"{first}\n\n{second}"
    if len(whole) <= MAX_LENGTH:
        return whole, None
    return _cut_text(whole), whole


def _cut_text(text: str) -> str:
    room = text[: MAX_LENGTH - 1]
    ends = [match.end() for match in _SENTENCE.finditer(room)]
    if ends and ends[-1] > MAX_LENGTH // 3:
        return room[: ends[-1]].rstrip() + " …"
    return (room[:-1].rpartition(" ")[0] or room[:-1]).rstrip() + " …"
