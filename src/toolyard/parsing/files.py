"""Documents on the disk: regular files only, and not more than fits; small files that several processes change.

While a large document is built, the cyclic garbage collector is held still (`paused_gc`): a parser allocates
hundreds of thousands of containers that are all still reachable. Each collection it triggers meanwhile walks them
for nothing, which costs a third to a half of the parse.
"""

from __future__ import annotations

import fcntl
import gc
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolyard.model.errors import MalformedSource, SourceUnavailable

MAX_BYTES = 64 * 1024 * 1024
"""The largest document read unless the caller says otherwise."""

_CHUNK = 1 << 20
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """The whole file.

    `SourceUnavailable` if it cannot be opened or read, `MalformedSource` if it is not a regular file or is larger
    than `max_bytes`. Never waits: a pipe or a device is refused before anything is read from it.
    """
    where = os.fspath(path)
    if not where or "\0" in where:
        raise SourceUnavailable(f"{where!r} is no path; name a file")
    # Without O_NONBLOCK, opening a pipe waits for somebody to write to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(where, flags)
        try:
            return _read_all(descriptor, max_bytes, where)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{where}: no such file; {_explain_missing(where)}") from error
    except OSError as error:
        raise SourceUnavailable(f"{where}: cannot be read: {error.strerror or error}") from error


def _read_all(descriptor: int, max_bytes: int, where: str) -> bytes:
    found = os.fstat(descriptor)
    _require_regular(found.st_mode, where)
    _require_size(found.st_size, max_bytes, where)
    # The size is a hint only: the file may grow, and files under /proc say 0.
    parts: list[bytes] = []
    total = 0
    while part := os.read(descriptor, max(found.st_size - total + 1, _CHUNK)):
        parts.append(part)
        total += len(part)
        _require_size(total, max_bytes, where)
    return b"".join(parts)


def _require_regular(mode: int, where: str) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "not a regular file")
        raise MalformedSource(f"this is {kind}; name a file", where=where)


def _require_size(size: int, max_bytes: int, where: str) -> None:
    if size > max_bytes:
        raise MalformedSource(f"larger than the limit of {max_bytes:,} bytes; split it or raise max_bytes", where=where)


def _explain_missing(where: str) -> str:
    """What there is of the path, for whoever started in the wrong directory."""
    path = Path(where).absolute()
    if path.is_symlink():
        return f"the link leads to {path.readlink()}, which is not there"
    parent = next(folder for folder in path.parents if folder.is_dir())
    return f"{parent} has no {path.relative_to(parent).parts[0]!r}"


class _Pauses:
    """How many pauses are open in the process, and whether the last one to close turns collection on again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open = 0
        self.resume = False

    def begin(self) -> None:
        with self.lock:
            if self.open == 0:
                self.resume = gc.isenabled()
                gc.disable()
            self.open += 1

    def end(self) -> None:
        with self.lock:
            self.open -= 1
            if self.open == 0 and self.resume:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def paused_gc() -> Iterator[None]:
    """No automatic collection inside the block, in any thread.

    Blocks nest and overlap across threads: the last to end restores the state the first one found, so a
    process that runs without the collector is left without it.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold others off between reading the file and replacing it; `OSError` if that cannot be."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A file beside it, since the file itself is another one after each change.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    number = os.open(path.with_name(f".{path.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def replace_file(path: Path, data: bytes) -> None:
    """Put another content in its place, all at once; made by nobody else and readable by nobody else."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
