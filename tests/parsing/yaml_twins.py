"""The two YAML parsers side by side."""

from __future__ import annotations

from typing import Any, Literal

from toolyard.model.errors import MalformedSource
from toolyard.parsing.yaml_exact import load_exact
from toolyard.parsing.yaml_fast import UNDECIDED, load_fast
from toolyard.parsing.yaml_text import normal_lines

Verdict = Literal["same", "undecided", "different", "accepted a malformed text"]


def identical(one: Any, other: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, 0.0 from -0.0, and one order of keys from another."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(identical, one.values(), other.values()))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(repr(one) == repr(other) if isinstance(one, float) else one == other)


def twins(text: str, max_depth: int = 200) -> Verdict:
    """What the fast parser makes of a text, measured by the exact one."""
    source = normal_lines(text.encode())
    text = source.decode()
    fast = load_fast(text, source, max_depth)
    if fast is UNDECIDED:
        return "undecided"
    try:
        exact = load_exact(text, "text", max_depth)
    except MalformedSource:
        return "accepted a malformed text"
    return "same" if identical(fast, exact) else "different"
