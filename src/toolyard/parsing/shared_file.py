"""Small files that several processes change: one at a time, and nobody ever sees one half written."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
