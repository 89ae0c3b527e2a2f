"""`Crew`: the workers that read what scripts declare, for one load of a directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from toolyard.model.errors import CallError, ConfigError, SourceUnavailable

if TYPE_CHECKING:
    from toolyard.links.workers import Code, Declared, ScriptFault, WorkerPool, WorkerSettings


class Crew:
    """Comes while files are still being read, and goes while tools are being made of what it said."""

    def __init__(self, settings: WorkerSettings, source: str) -> None:
        self._settings = settings
        self._source = source
        self._pool: WorkerPool | None = None
        self._leaving: Future[None] | None = None

    def get_ready(self) -> None:
        """Have processes started. What stands against it is said by `declare`, if that is needed at all."""
        try:
            self._called().get_ready_to_declare()
        except (CallError, ConfigError):
            return

    def declare(self, codes: Sequence[Code]) -> list[Declared | ScriptFault]:
        """What each file declares, or why it does not; asked once. `SourceUnavailable` if there are no workers."""
        # Each file has a time of its own; all together have at most what they would take one by one.
        longest = self._settings.start_seconds + self._settings.declare_seconds * (len(codes) + 1)
        pool = self._called()
        try:
            return pool.declare(codes, deadline=time.monotonic() + longest)
        except CallError as error:
            raise SourceUnavailable(f"{self._source}: no worker could read the scripts: {error}") from error
        finally:
            self._leaving = pool.close_soon()

    def close(self) -> None:
        """Wait until every process is gone."""
        if self._leaving is not None:
            self._leaving.result()
        elif self._pool is not None:
            self._pool.close()

    def _called(self) -> WorkerPool:
        if self._pool is None:
            from toolyard.links.workers import WorkerPool

            self._pool = WorkerPool(self._settings, label=self._source)
        return self._pool
