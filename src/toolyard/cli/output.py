"""What people and programs see: tables for the one, JSON for the other."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from toolyard.model.errors import CallError


def print_json(value: Any) -> None:
    """One JSON document on standard output, nothing else."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for a person; text from catalogs is shown as text, never as markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=False, ratio=None if index == 0 else 1)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    Console().print(table)


def print_text(text: str) -> None:
    """One line for a person."""
    sys.stdout.write(visible(text) + "\n")


def visible(text: str) -> str:
    """Text without control characters, so that a catalog cannot drive the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def fail(error: Exception) -> None:
    """An error on standard error, with its hint where it has one."""
    sys.stderr.write(f"toolyard: {visible(str(error))}\n")
    if isinstance(error, CallError) and error.info.hint:
        sys.stderr.write(f"  hint: {visible(error.info.hint)}\n")


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on the terminal while something may take longer than a blink."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
