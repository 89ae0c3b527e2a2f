"""Base classes of enrichments and their progress bar; samples of tools and the edges between them.

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

import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from toolyard.model.tool import Tool
from toolyard.plugins import View

Force = Annotated[bool, Meta(description="Recompute existing results.")]


class ToolEnrichment(ABC):
    """Analyses the tools of a snapshot. Returns changed tools and artifacts; modifies nothing in place.

    `reads` and `writes` name artifacts ("embeddings") and fields of tools ("tool.output_parameters"). They alone
    determine the order in which enrichments run, whatever order they are configured in. An enrichment that reads
    "embeddings?" runs after the one that writes it, and works without if there is none.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """Return the tools (same number, same order; changed ones replaced) and the artifacts to add."""


T = TypeVar("T")

PROGRESS_DELAY = 1.0
"""Seconds of work before a progress bar appears."""
LINE_DELAY, LINE_PAUSE = 10.0, 60.0
"""Seconds of work before the first line about it, and between two, where there is no terminal."""
_log = logging.getLogger(__name__)


def track_progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Yield the items; show a progress bar on standard error after a second. If it is no terminal, log some lines."""
    stream = sys.stderr
    if stream is None or stream.closed or not stream.isatty():
        yield from _log_progress(items, label, total)
        return
    begun, source, done = time.monotonic(), iter(items), 0
    for item in source:
        yield item
        done += 1
        if time.monotonic() - begun > PROGRESS_DELAY:
            break
    else:
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, completed=done)
        for item in source:
            yield item
            progress.advance(task)


def _log_progress(items: Iterable[T], label: str, total: int | None) -> Iterator[T]:
    begun = time.monotonic()
    due = begun + LINE_DELAY
    for done, item in enumerate(items):
        if done and total and (now := time.monotonic()) > due:
            left = (now - begun) / done * (total - done)
            _log.warning("%s: %d%% done, about %.0f s to go", label, 100 * done // total, left)
            due = now + LINE_PAUSE
        yield item


FeedMode = Literal["direct", "first", "each", "wrap"]


class Feed(msgspec.Struct, frozen=True):
    """One value that one tool returns and another accepts: `users[].user_id` -> `user_id`."""

    output: str
    """Path in the source's result: names joined by dots, with `[]` after a list."""
    parameter: str
    """Path in the target's arguments."""
    score: float
    how: FeedMode = "direct"
    """Unchanged; the first item of a list; one call per item of a list; or one value wrapped in a list."""
    signals: Mapping[str, float] = {}
    """The separate signals behind the score: `name`, `type` and `text`, each from 0 to 1."""


class Edge(msgspec.Struct, frozen=True):
    """Results of one tool can be used as parameters of another."""

    source: str
    """Qualified name, as is `target`."""
    target: str
    score: float
    feeds: tuple[Feed, ...] = ()
    """Best first."""
    covers_required: bool = False
    """True if the feeds cover every required parameter of the target."""
    source_overload: str = ""
    """Fingerprint of the source's overload."""
    target_overload: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return _to_plain(self)  # type: ignore[no-any-return]


class Sample(list[Tool]):
    """A list of tools, with how they are related.

    `roles` has one role per tool, in the same order ("chain", "seed", "successor", "distractor", "gold", ...). The same
    registry, options and `seed` give the same sample.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        topology: str,
        seed: int,
        edges: Sequence[Edge] = (),
        roles: Sequence[str] = (),
        score: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tools)
        self.topology = topology
        self.seed = seed
        self.edges = tuple(edges)
        self.roles = tuple(roles) or (topology,) * len(self)
        self.score = score
        """The score of the weakest edge, or a similarity; None if the topology has no score."""
        self.details: dict[str, Any] = dict(details or {})
        """Data specific to the topology, such as the parameter that `tc/missing` removed."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, with the tools' names but not their definitions."""
        return {
            "tools": [tool.qualified_name for tool in self],
            "overloads": [tool.fingerprint for tool in self],
            "topology": self.topology,
            "seed": self.seed,
            "roles": list(self.roles),
            "edges": [edge.to_dict() for edge in self.edges],
            "score": self.score,
            "details": _to_plain(self.details),
        }

    def __repr__(self) -> str:
        return f"Sample({self.topology}, seed={self.seed}, {[tool.qualified_name for tool in self]})"


def _to_plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, list | tuple) else value
