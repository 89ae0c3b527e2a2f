"""Who turns text into events: libyaml, and PyYAML's own scanner for the legal YAML that libyaml refuses."""

from __future__ import annotations

from collections.abc import Callable

import yaml
from yaml._yaml import CParser
from yaml.events import Event

NextEvent = Callable[[], Event | None]

MAX_PURE_CHARACTERS = 1024 * 1024
"""Of a text for PyYAML's own scanner, which takes seconds for each million."""

_REFUSED_THOUGH_LEGAL = frozenset(
    {
        # A block scalar may begin with a tab, behind the spaces that indent it.
        "found a tab character where an indentation space is expected",
        # `{a:[1]}`: a bracket cannot be part of the text before it, so the colon ends that.
        "found unexpected ':'",
    }
)


def scan_by_libyaml(text: str) -> NextEvent:
    """The events of a text, one a call; None at the end."""
    next_event: NextEvent = CParser(text.encode(errors="replace")).get_event
    return next_event


def scan_in_python(text: str) -> NextEvent:
    """The same by PyYAML's own scanner, thirty times as slow."""
    next_event: NextEvent = yaml.SafeLoader(text).get_event
    return next_event


def may_be_legal(text: str, error: yaml.YAMLError) -> bool:
    """Whether libyaml refused a text that the other scanner may read, and that is not too long for it."""
    problem = getattr(error, "problem", None)
    return problem in _REFUSED_THOUGH_LEGAL and len(text) <= MAX_PURE_CHARACTERS
