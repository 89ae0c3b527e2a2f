"""Globs of qualified names: which tools a rule, a limit or a fault is about."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta

from toolyard.model.errors import ConfigError

_REACHES_A_TOOL = re.compile(r"::|[*?\[]")


def check_tool_glob(glob: str, where: str) -> str:
    """The glob, if a name can match it: a deny rule that never holds would pass for protection."""
    if not _REACHES_A_TOOL.search(glob):
        raise ConfigError(f"{where}: {glob!r} matches no tool; write 'namespace::{glob}', or '*::{glob}' for any")
    return glob


ToolGlob = Annotated[
    str,
    Meta(
        min_length=1,
        extra_json_schema={
            "type": "string",
            "pattern": _REACHES_A_TOOL.pattern,
            "description": "Glob of qualified names, case-sensitive; `*` crosses `::` as well.",
        },
        extra={"check": check_tool_glob},
    ),
]
ToolGlobs = Annotated[tuple[ToolGlob, ...], Meta(min_length=1, extra={"one": True})]
"""One glob or several; never none, since a condition on nothing is a mistake."""


def glob_matcher(globs: Sequence[str]) -> Callable[[str], object]:
    """A predicate, truthy for a text that any of the globs matches as a whole; compiled once."""
    if "*" in globs:
        return _match_all
    return re.compile("|".join(map(fnmatch.translate, globs))).match


def _match_all(_text: str) -> bool:
    return True
