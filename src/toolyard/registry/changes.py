"""When a registry changes: one change at a time, and sources reloaded in the background once they report a change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from toolyard.model.errors import EnrichmentError, ToolyardError
from toolyard.plugins import Loader

_log = logging.getLogger("toolyard.registry.registry")  # filters of users may name it


class Watcher:
    """Reloads changed sources in one thread, which exists only while sources wait; repeated changes reload once."""

    def __init__(self, refresh: Callable[[Loader], object]) -> None:
        self._refresh = refresh
        self._lock = threading.Lock()
        self._waiting: dict[int, Loader] = {}
        self._running = False
        self._closed = False

    def follow(self, loader: Loader) -> None:
        """Watch the loader for changes, if it supports that."""
        watch = getattr(loader, "watch", None)
        if watch is not None:
            watch(partial(self._changed, loader))

    def close(self) -> None:
        """Stop reloading; a reload in progress is finished."""
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


class ChangeLock:
    """Lock held while a registry changes. Raises instead of deadlocking if an enrichment changes its own registry."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        if self._holder == threading.get_ident():
            raise EnrichmentError(
                "this thread is changing the registry already; an enrichment returns changed tools, and adds none"
            )
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._lock.release()
