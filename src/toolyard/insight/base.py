"""What an enrichment is, and the progress bar of those that take long.

```python
@register_tool_enrichment("word_counts")
class WordCounts(ToolEnrichment):
    writes = ("word_counts",)

    def enrich(self, snapshot):
        counts = {tool.qualified_name: len(tool.description.split()) for tool in snapshot.tools}
        return snapshot.tools, {"word_counts": counts}
```
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from toolyard.model.tool import Tool
from toolyard.plugins import View


class EnrichmentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every enrichment has."""

    force: Annotated[bool, Meta(description="Work out again what is there already.")]
    cache: Annotated[
        str | Path | bool | None,
        Meta(
            description="Folder that keeps what was worked out; false for none, null for the usual one.",
        ),
    ]


class VectorOptions(EnrichmentOptions, frozen=True, kw_only=True):
    """Of enrichments that compare tools by meaning."""

    model: Annotated[
        Any,
        Meta(
            description="What makes vectors: a name, or a mapping that says where it is; the built-in one if none.",
        ),
    ]


class ToolEnrichment(ABC):
    """Studies the tools of a snapshot; returns changed tools and artifacts, and mutates nothing.

    `reads` and `writes` name artifacts ("embeddings") and fields of tools ("tool.output_parameters"). They alone
    decide the order in which enrichments run, whatever the order in which they are given.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools (same number, same order; changed ones replaced) and the artifacts to add."""


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
