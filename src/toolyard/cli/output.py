"""Output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from toolyard.model.errors import CallError, ErrorInfo, InvalidArguments, ToolyardError, UnknownToolError
from toolyard.model.names import find_similar_tools

_log = logging.getLogger("toolyard")


_WRITTEN_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:\+00:00|Z)$")
_GAP, _NARROWEST = 2, 8


class NotFoundError(ToolyardError, KeyError):
    """A name that does not exist here; the exit status is that of an unknown tool."""


def describe_missing(what: str, name: str, known: Iterable[str], command: str) -> str:
    """A message about a missing name, with similar names or the command that lists the existing ones."""
    near = find_similar_tools(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"`{command}` lists those there are"
    return f"no {what} is called {name!r}; {hint}"


def set_verbosity(*, quiet: bool, verbose: bool) -> None:
    """Set how much is logged on standard error beside errors; the log of a server has the same level."""
    _log.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.NOTSET)
    if logging.lastResort is not None:
        logging.lastResort.setLevel(logging.DEBUG if verbose else logging.WARNING)


def prepare_streams() -> None:
    """Escape characters that the terminal cannot show, instead of failing on them.

    Streams that the parent process has closed are replaced by the null device.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_json(value: Any) -> None:
    """Print one JSON document on standard output; in ASCII if the terminal does not use UTF-8."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    plain = msgspec.to_builtins(value)
    try:
        text = json.dumps(plain, indent=2, ensure_ascii=not utf8)
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(plain, indent=2)
    sys.stdout.write(text + "\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for a person, or tab-separated lines for a pipe; text from catalogs is never markup."""
    if not sys.stdout.isatty():
        for row in ([column.upper() for column in columns], *rows):
            sys.stdout.write("\t".join(visible(cell).replace("\n", " ") for cell in row) + "\n")
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[_WRITTEN_TIME.sub(r"\1 \2", visible(cell)) for cell in row] for row in rows]
    # A terminal is narrow: columns that say nothing are left out.
    shown = [index for index in range(len(columns)) if not cells or any(row[index] for row in cells)]
    console = Console()
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    texts = ["\n".join([columns[index], *(row[index] for row in cells)]) for index in shown]
    widths = _fit_columns(texts, console.width - 2 - _GAP * len(shown))
    for index, width in zip(shown, widths, strict=True):
        table.add_column(columns[index], overflow="fold", width=width)
    for row in cells:
        table.add_row(*(Text(row[index]) for index in shown))
    console.print(table)


def _fit_columns(texts: list[str], room: int) -> list[int]:
    """As wide as each needs to be, or where that is too much together, none wider than the others must bear.

    Words are cut only if there is no room for the longest of every column, and then not those of the first column: it
    has names or ids to type.
    """
    widths = [max(map(len, text.splitlines())) for text in texts]
    least = [max(map(len, text.split())) for text in texts]
    if sum(least) > room:
        least = [width if index == 0 and width <= room // 2 else 0 for index, width in enumerate(least)]
    most = max(widths, default=0)
    while True:
        fitted = [max(few, min(width, most)) for few, width in zip(least, widths, strict=True)]
        if most <= _NARROWEST or sum(fitted) <= room:
            return fitted
        most -= 1


def print_text(text: str) -> None:
    """Print a line for a person."""
    sys.stdout.write(visible(text) + "\n")


def print_either(as_json: bool, value: Any, text: str) -> int:
    """Print what was done, `value` as JSON for a program or `text` for a person, and return exit status 0."""
    print_json(value) if as_json else print_text(text)
    return 0


def print_list(
    as_json: bool, what: str, entries: Iterable[Any], columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> int:
    """Print a list, entries as JSON for a program or a table with their number for a person, and return 0.

    Only one of `entries` and `rows` is consumed, since creating the entries of a large catalog takes time.
    """
    if as_json:
        print_json(list(entries))
    else:
        shown = list(rows)
        print_table(f"{what.capitalize()}s", columns, shown)
        print_text(counted(len(shown), what))
    return 0


def counted(number: int, what: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def shorten(value: Any, width: int) -> str:
    """A value as JSON, truncated to that many characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def write_time(seconds: float) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def visible(text: str) -> str:
    """Text with control characters escaped, so that a catalog cannot control the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def write_command(config: Path | None, *words: str) -> str:
    """A command to type, on the same file."""
    return shlex.join(["toolyard", *words, *(() if config is None else ("-c", str(config)))])


def fail(error: Exception, *, as_json: bool = False, config: Path | None = None) -> None:
    """Print an error: on standard error with its hint, or as one JSON document on standard output."""
    if as_json:
        info = error.info.to_dict() if isinstance(error, CallError) else {"message": str(error)}
        print_json({"error": {"type": type(error).__name__, **info}})
        return
    sys.stderr.write(f"toolyard: {visible(str(error))}\n")
    if isinstance(error, CallError):
        _print_hint(error.info, "NAME", config)


def fail_call(info: ErrorInfo, tool: str, config: Path | None) -> None:
    """Print a failed call for a person: on standard error with its code and hint."""
    effect = "" if info.effect == "none" else f" (effect: {info.effect})"
    sys.stderr.write(f"toolyard: {info.code}: {visible(info.message)}{effect}\n")
    _print_hint(info, tool, config)


def _print_hint(info: ErrorInfo, tool: str, config: Path | None) -> None:
    others = {
        UnknownToolError.code: f"`{write_command(config, 'tools')}` lists those there are",
        InvalidArguments.code: f"`{write_command(config, 'show', tool)}` shows its arguments",
    }
    if hint := info.hint or others.get(info.code):
        sys.stderr.write(f"  hint: {visible(hint)}\n")


def warn(text: str) -> None:
    """Print a warning on standard error, unless --quiet."""
    if _log.isEnabledFor(logging.WARNING):
        sys.stderr.write(f"toolyard: {visible(text)}\n")


@contextmanager
def working(what: str, *, spins: bool = True) -> Iterator[None]:
    """Show a spinner on the terminal during a longer operation, unless `spins` is false, as when a prompt may follow.

    What tools print meanwhile goes to standard error, since standard output is for the result.
    """
    with redirect_stdout(sys.stderr):
        if not (spins and sys.stderr.isatty() and _log.isEnabledFor(logging.WARNING)):
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield
