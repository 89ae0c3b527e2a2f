"""Reading a config block strictly: what is not understood is an error that says where and what was meant.

Every function takes `where`, the place of the value it reads (`yard.yaml: policy.rules[1]`). What these
functions accept, the JSON Schemas beside the parsers accept too, and nothing else.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type

_REACHES_A_TOOL = re.compile(r"::|[*?\[]")

TEXTS_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
    ]
}
"""What `read_texts` accepts."""

TOOL_GLOB_SCHEMA: dict[str, Any] = {
    "type": "string",
    "pattern": _REACHES_A_TOOL.pattern,
    "description": "Glob of qualified names, case-sensitive; `*` crosses `::` as well.",
}
TOOL_GLOBS_SCHEMA: dict[str, Any] = {
    "anyOf": [TOOL_GLOB_SCHEMA, {"type": "array", "minItems": 1, "items": TOOL_GLOB_SCHEMA}]
}
"""What `read_tool_globs` accepts. Without `$ref`, so that it holds wherever it is put."""


def read_mapping(value: Any, known: Sequence[str], where: str) -> dict[str, Any]:
    """The value, if it is a mapping with known keys alone; an unknown key is told its nearest neighbour."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be a mapping, not {json_type(value)}")
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
    return value


def read_list(value: Any, where: str) -> list[Any]:
    """The value, if it is a list."""
    if not isinstance(value, list):
        raise ConfigError(f"{where}: must be a list, not {json_type(value)}")
    return value


def read_text(value: Any, where: str) -> str:
    """The value, if it is text and not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: must be text, not {'empty' if value == '' else json_type(value)}")
    return value


def read_texts(value: Any, where: str) -> tuple[str, ...]:
    """One text or a list of them; never none, since a condition on nothing is a mistake."""
    if isinstance(value, str):
        return (read_text(value, where),)
    if not isinstance(value, list) or not value:
        raise ConfigError(
            f"{where}: must be text or a list of text, not {'empty' if value == [] else json_type(value)}"
        )
    return tuple(read_text(item, f"{where}[{index}]") for index, item in enumerate(value))


def read_flag(value: Any, where: str) -> bool:
    """The value, if it is true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: must be true or false, not {json_type(value)}")
    return value


def read_count(value: Any, where: str, *, least: int) -> int:
    """A whole number, `least` or more. True is none, 100.0 is one: JSON does not tell it from 100."""
    whole = isinstance(value, float) and value.is_integer()
    if isinstance(value, bool) or not (whole or isinstance(value, int)):
        raise ConfigError(f"{where}: must be a whole number, not {json_type(value)}")
    if value < least:
        raise ConfigError(f"{where}: must be {least} or more, not {value}")
    return int(value)


def read_choice(value: Any, choices: Sequence[str], where: str) -> str:
    """The value, if it is one of `choices`, spelt as there."""
    if not isinstance(value, str):
        raise ConfigError(f"{where}: must be one of {', '.join(choices)}; not {json_type(value)}")
    if value not in choices:
        near = difflib.get_close_matches(value.lower(), choices, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(choices)}"
        raise ConfigError(f"{where}: no such choice {value[:80]!r}; {hint}")
    return value


def read_tool_globs(value: Any, where: str) -> tuple[str, ...]:
    """Globs of qualified names; one that no name can match is refused.

    A deny rule that never holds would pass for protection.
    """
    globs = read_texts(value, where)
    for glob in globs:
        if not _REACHES_A_TOOL.search(glob):
            raise ConfigError(f"{where}: {glob!r} matches no tool; write 'namespace::{glob}', or '*::{glob}' for any")
    return globs


def listed(value: str | Iterable[str]) -> str | list[str]:
    """What code wrote for one text or several, in the form a config has, for the readers above."""
    return value if isinstance(value, str) else list(value)


def glob_matcher(globs: Sequence[str]) -> Callable[[str], object]:
    """A predicate, truthy for a text that any of the globs matches as a whole; compiled once."""
    if "*" in globs:
        return _always
    return re.compile("|".join(map(fnmatch.translate, globs))).match


def _always(_text: str) -> bool:
    return True
