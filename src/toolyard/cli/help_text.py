"""Help in two columns of plain text: names, and what they mean, folded to the width of the terminal."""

from __future__ import annotations

import textwrap
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_WIDEST, _NAMES = 100, 26
"""Columns: of a page, and of the names; what stands beside a longer name begins on the next line."""


def show_default(value: Any) -> str | None:
    """What the help says about a default; of a flag that is off, or of nothing, there is nothing to say."""
    return None if value is False or value in (None, "", ()) else str(value)


class HelpText:
    """A formatter of cyclopts. It imports nothing of that, nor rich, before there is something to print."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """One panel."""
        if panel.entries:
            lines = [f"{'Options' if str(panel.title) == 'Parameters' else panel.title}:"]
            for entry in panel.entries:
                lines += _lay_out(entry, min(console.width, _WIDEST), is_command=panel.format == "command")
            console.out("\n".join([*lines, ""]), highlight=False)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """The first line."""
        console.out(f"Usage: {_to_text(usage).removeprefix('Usage: ')}\n", highlight=False)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """The text above the panels."""
        for paragraph in _to_text(description).split("\n\n"):
            text = textwrap.fill(paragraph, min(console.width, _WIDEST), break_on_hyphens=False)
            console.out(f"{text}\n", highlight=False)


def _to_text(described: Any) -> str:
    """What rich would print, were there room for a paragraph on a line."""
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=10_000, color_system=None).print(described or "", highlight=False, markup=False)
    return "\n".join(line.strip() for line in file.getvalue().splitlines()).strip()


def _lay_out(entry: HelpEntry, width: int, *, is_command: bool) -> list[str]:
    named = (*entry.positive_names, *entry.positive_shorts) if is_command else entry.display_labels_with_metavar
    notes = [f"One of {', '.join(entry.choices)}."] if entry.choices else []
    notes += [f"Default: {entry.default}."] if entry.default is not None else []
    notes += ["Required."] if entry.required else []
    text, names = " ".join([_to_text(entry.description), *notes]), ", ".join(named)
    lines = textwrap.wrap(text, max(width - _NAMES - 4, 20), break_on_hyphens=False, break_long_words=False)
    first = lines.pop(0) if lines and len(names) <= _NAMES else ""
    return [f"  {names:<{_NAMES}}  {first}".rstrip(), *(" " * (_NAMES + 4) + line for line in lines)]
