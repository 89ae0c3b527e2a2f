"""`Watcher`: loads a source again when it says that it has changed, behind everybody's back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from toolyard.model.errors import ToolyardError
from toolyard.plugins import Loader

_log = logging.getLogger(__name__)


class Watcher:
    """One thread at most, there only while something is to be done; what changes twice meanwhile is loaded once."""

    def __init__(self, refresh: Callable[[Loader], object]) -> None:
        self._refresh = refresh
        self._lock = threading.Lock()
        self._waiting: dict[int, Loader] = {}
        self._running = False
        self._closed = False

    def follow(self, loader: Loader) -> None:
        """Have the loader tell when it has changed, if it can."""
        watch = getattr(loader, "watch", None)
        if watch is not None:
            watch(partial(self._changed, loader))

    def close(self) -> None:
        """Load nothing any more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _changed(self, loader: Loader) -> None:
        with self._lock:
            if self._closed:
                return
            self._waiting[id(loader)] = loader
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="toolyard-refresh", daemon=True).start()

    def _work(self) -> None:
        while (loader := self._next()) is not None:
            try:
                self._refresh(loader)
            except (ToolyardError, OSError) as error:
                _log.warning("%s has changed, and could not be loaded again: %s", loader.source, error)

    def _next(self) -> Loader | None:
        with self._lock:
            if not self._waiting:
                self._running = False
                return None
            return self._waiting.pop(next(iter(self._waiting)))
