"""`DirectoryWatch`: looks at a script directory every so often, and tells when it is another one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from toolyard.model.errors import ManifestError, SourceError
from toolyard.sources.scripts.files import ScriptDirectory
from toolyard.sources.scripts.manifest import MANIFEST, MAX_MANIFEST_BYTES, name_problem, read_manifest, sha256_of

PERIOD = 0.5
_SETTLED = 2.0
"""Seconds after which a file that is written again has another time: until then, its bytes are looked at."""

Sight = tuple[object, ...]
"""What is seen of a directory: equal if there is nothing new to load."""


class Eyes:
    """Sees a directory by the bytes of its files, but reads only those that may have changed since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, tuple[tuple[int, ...], object]] = {}

    def look(self) -> Sight:
        """The manifest and the files it names, as they are now."""
        try:
            with ScriptDirectory(self._path) as directory:
                names = [name for name in read_manifest(directory).allow if not name_problem(name)]
                return tuple((name, self._seen(directory, name)) for name in (MANIFEST, *names))
        except SourceError as error:
            return (str(error),)
        except OSError as error:
            return (str(error.strerror),)

    def _seen(self, directory: ScriptDirectory, name: str) -> object:
        try:
            found = directory.stat(name)
            if found is None:
                return None
            key = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid)
            known = self._known.get(name)
            if known is not None and known[0] == key and time.time() - found.st_mtime > _SETTLED:
                return known[1]
            seen = (found.st_mode, found.st_uid, sha256_of(directory.read(name, limit=MAX_MANIFEST_BYTES, linked=True)))
        except ManifestError as error:
            return str(error)
        except OSError as error:
            return error.strerror
        self._known[name] = (key, seen)
        return seen


class DirectoryWatch:
    """One thread that does nothing but look, until it is closed."""

    def __init__(self, path: Path, seen: Sight, changed: Callable[[], None], *, period: float = PERIOD) -> None:
        self._eyes = Eyes(path)
        self._seen = seen
        self._changed = changed
        self._period = period
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"toolyard-watch {os.fspath(path)}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_SETTLED)

    def _work(self) -> None:
        while not self._ended.wait(self._period):
            seen = self._eyes.look()
            if seen != self._seen:
                self._seen = seen
                self._changed()
