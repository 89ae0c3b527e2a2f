"""Help is read by people: two columns, within the width, and nothing said of flags that are off."""

from io import StringIO

import pytest
from rich.console import Console

from toolyard.cli.help_text import show_default
from toolyard.cli.main import app, run


@pytest.mark.parametrize("verb", [[], ["call"], ["serve"], ["install"], ["add"], ["session", "fork"], ["search"]])
def test_help_keeps_to_the_width_and_folds_no_line_twice(verb):
    console = Console(file=StringIO(), width=80, color_system=None)
    app.help_print(verb, console=console)
    lines = console.file.getvalue().splitlines()
    assert lines[0].startswith("Usage: toolyard") and max(map(len, lines)) <= 80
    entries = lines[lines.index("Commands:" if not verb else "Options:") + 1 :]
    beside = [line for line in entries if line]
    assert all(line.startswith("  ") for line in beside)
    # Beside the names, or below them in the same column: nothing begins at the left edge.
    assert all(len(line) - len(line.lstrip()) in (2, 30) for line in beside)


def test_defaults_are_said_where_they_say_something(capsys):
    run(["search", "--help"])
    shown = capsys.readouterr().out
    assert "Default: 5." in shown and "False" not in shown and "()" not in shown
    assert [show_default(value) for value in (False, (), None, "", 0, 0.5)] == [*[None] * 4, "0", "0.5"]
    run(["install", "--help"])
    assert "Required." in capsys.readouterr().out
