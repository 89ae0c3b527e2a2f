"""The two scanners side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import yaml

from toolyard.parsing.yaml_events import NextEvent, Substitution, scan_by_libyaml, scan_in_python

Verdict = Literal["same", "refused by one", "refused by both", "different"]


def events_of(
    scan: Callable[[str], NextEvent], text: str, safe: Substitution | None = None
) -> list[tuple[Any, ...]] | None:
    """What is made of each event; None for a text that is refused."""
    found = []
    try:
        next_event = scan(text)
        while (event := next_event()) is not None:
            parts = [getattr(event, name, None) for name in ("anchor", "tag", "value")]
            if safe is not None and isinstance(event, yaml.ScalarEvent):
                parts[2] = safe.restore(event.value, event.style)
            found.append((type(event).__name__, *parts, bool(getattr(event, "style", None))))
    except yaml.YAMLError:
        return None
    return found


def compare_scanners(text: str) -> Verdict:
    """Whether PyYAML's own scanner sees in a text what libyaml sees."""
    safe = Substitution.for_text(text.replace("\r\n", "\n").replace("\r", "\n")).text
    one, other = events_of(scan_by_libyaml, safe), events_of(scan_in_python, safe)
    if one is None and other is None:
        return "refused by both"
    if one is None or other is None:
        return "refused by one"
    return "same" if one == other else "different"
