"""Help in two columns of plain text: names, and what they mean, folded to the width of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_WIDEST = 100
_NAMES = 26
"""Columns of the names; what stands beside a longer one begins on the next line."""


def show_default(value: Any) -> str | None:
    """What the help says about a default; of a flag that is off, or of nothing, there is nothing to say."""
    return None if value in (False, None, "", ()) else str(value)


class HelpText:
    """A formatter of cyclopts. It imports nothing of that, nor rich, before there is something to print."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """One panel."""
        if not panel.entries:
            return
        _print(console, f"{'Options' if str(panel.title) == 'Parameters' else panel.title}:")
        width = min(console.width, _WIDEST)
        for entry in panel.entries:
            for line in _lay_out(entry, width, is_command=panel.format == "command"):
                _print(console, line)
        _print(console, "")

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """The first line."""
        text = " ".join(_to_text(usage).split())
        _print(console, f"{text if text.startswith('Usage:') else f'Usage: {text}'}\n")

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """The text above the panels."""
        for paragraph in _to_text(description).split("\n\n"):
            text = textwrap.fill(" ".join(paragraph.split()), min(console.width, _WIDEST), break_on_hyphens=False)
            _print(console, f"{text}\n")


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _to_text(described: Any) -> str:
    """What rich would print, paragraphs on a line each."""
    from rich.console import Console

    if not described:
        return ""
    file = StringIO()
    Console(file=file, width=10_000, color_system=None).print(described, highlight=False, markup=False)
    return "\n".join(line.strip() for line in file.getvalue().splitlines()).strip()


def _lay_out(entry: HelpEntry, width: int, *, is_command: bool) -> Iterator[str]:
    named = (*entry.positive_names, *entry.positive_shorts) if is_command else entry.display_labels_with_metavar
    names = ", ".join(named)
    notes = [f"One of {', '.join(entry.choices)}."] if entry.choices else []
    notes += [f"Default: {entry.default}."] if entry.default is not None else []
    notes += ["Required."] if entry.required else []
    text = " ".join([_to_text(entry.description), *notes]).strip()
    lines = textwrap.wrap(text, max(width - _NAMES - 4, 20), break_on_hyphens=False, break_long_words=False)
    first = lines.pop(0) if lines and len(names) <= _NAMES else ""
    yield f"  {names:<{_NAMES}}  {first}".rstrip()
    for line in lines:
        yield " " * (_NAMES + 4) + line
