"""A progress bar for work that takes long enough to want one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds of work before a bar appears."""


def track_progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """The items; once that has taken a second, with a bar on standard error if somebody sits there."""
    if not _is_watched():
        yield from items
        return
    begun = time.monotonic()
    source = iter(items)
    done = 0
    for item in source:
        yield item
        done += 1
        if time.monotonic() - begun > PATIENCE:
            break
    else:
        return
    yield from _with_bar(source, label, total, done)


def _is_watched() -> bool:
    stream = sys.stderr
    return stream is not None and not stream.closed and stream.isatty()


def _with_bar(items: Iterator[T], label: str, total: int | None, done: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, completed=done)
        for item in items:
            yield item
            progress.advance(task)
