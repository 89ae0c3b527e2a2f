"""Tables of a terminal: nothing is cut off, and columns that say nothing are left out."""

import io
import re
import sys

import pytest

from toolyard.cli.output import print_table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    def print_it(*table, width=80):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(*table)
        return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())

    return print_it


ROW = ("2026-11-19T01:22:59.470+00:00", "A" * 25, "B" * 9, "C" * 40, "", "D" * 16)
COLUMNS = ("time", "tool", "ms", "outcome", "session", "id")


@pytest.mark.parametrize("width", [200, 80, 64])
def test_nothing_is_cut_off_at_any_width_and_an_empty_column_is_left_out(shown, width):
    text = shown("Calls", COLUMNS, [ROW, ROW], width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert [text.count(letter) - "Calls".count(letter) for letter in "ABCD"] == [50, 18, 80, 32]
    assert "session" not in text and "470" not in text and text.count("01:22:59") == 2


def test_only_what_is_too_wide_is_folded(shown):
    text = shown("Tools", ("name", "what"), [("a" * 20, "word " * 40)])
    assert "a" * 20 in text and text.count("word") == 40 and len(text.splitlines()) > 6


def test_words_are_cut_only_where_there_is_no_room_for_the_longest_of_each_column(shown):
    row = (
        "2026-11-19 04:20:25",
        "desk::split_bill",
        "tool.invalid_args (none)",
        "simulate",
        "2b61db260ed35d57",
        "c" * 90,
    )
    text = shown("Calls", ("time", "tool", "outcome", "mode", "id"), [row[:5]], width=80)
    assert all(word in text for word in ("2026-11-19", "desk::split_bill", "tool.invalid_args", "2b61db260ed35d57"))
    text = shown("Calls", ("id", "tool", "outcome", "mode", "what"), [(row[4], *row[1:4], row[5])], width=64)
    assert "2b61db260ed35d57" in text and "desk::split_bill" not in text


def test_an_empty_table_has_its_columns(shown):
    assert "session" in shown("Calls", COLUMNS, [])


def test_a_pipe_gets_every_column_as_it_is(capsys):
    print_table("Calls", COLUMNS, [ROW])
    assert capsys.readouterr().out.splitlines() == ["\t".join(map(str.upper, COLUMNS)), "\t".join(ROW)]
