"""Read files within limits, as bytes or text, lock them, and replace them atomically; pause the garbage collector."""

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
"""Default size limit of a document."""
LARGE = 64 * 1024
"""Size in bytes from which pausing the garbage collector is worth taking its lock."""
BOM = b"\xef\xbb\xbf"

_CHUNK = 1 << 20
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file.

    Raises `SourceUnavailable` if it cannot be opened or read, `MalformedSource` if it is not a regular file or is
    larger than `max_bytes`. Never blocks: pipes and devices are rejected before anything is read from them.
    """
    where = os.fspath(path)
    if not where or "\0" in where:
        raise SourceUnavailable(f"{where!r} is no path; name a file")
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    try:
        descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _read_all(descriptor, max_bytes, where)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{where}: no such file{_explain_missing(where)}") from error
    except OSError as error:
        raise SourceUnavailable(f"{where}: cannot be read: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, with its line ends unchanged."""
    return decode_utf8(read_bytes(path), str(path))


def _read_all(descriptor: int, max_bytes: int, where: str) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise MalformedSource(f"this is {name_file_kind(found.st_mode)}; name a file", where=where)
    _require_size(found.st_size, max_bytes, where)
    data = read_at_most(descriptor, max_bytes, expected=found.st_size)
    _require_size(len(data), max_bytes, where)
    return data


def read_at_most(descriptor: int, most: int, *, expected: int = 0) -> bytes:
    """Read to the end of the file, or until more than `most` bytes are read.

    `expected` is only a hint: a file may grow while it is read, and files under /proc report a size of 0.
    """
    parts: list[bytes] = []
    total = 0
    while total <= most and (part := os.read(descriptor, max(expected - total + 1, _CHUNK))):
        parts.append(part)
        total += len(part)
    return b"".join(parts)


def file_of(path: Path) -> Path:
    """The file that the path names, or of which it names a part: `tools.py:Shop`."""
    name, part, _ = path.name.partition(".py:")
    return path.with_name(f"{name}.py") if part else path


def name_file_kind(mode: int) -> str:
    """A description of a file that is not a regular file, from its `st_mode`."""
    return next((name for test, name in _KINDS if test(mode)), "no regular file")


def _require_size(size: int, max_bytes: int, where: str) -> None:
    if size > max_bytes:
        raise MalformedSource(f"larger than the limit of {max_bytes:,} bytes; split it or raise max_bytes", where=where)


def _explain_missing(where: str) -> str:
    """What the path itself does not say: where a link points, the working directory, or the part that is missing."""
    path = Path(where).absolute()
    if path.is_symlink():
        return f"; the link points to {path.readlink()}, which does not exist"
    if path.parent.is_dir():
        return "" if Path(where).is_absolute() else f" in {path.parent}"
    parent = next(folder for folder in path.parents if folder.is_dir())
    return f"; {parent} has no {path.relative_to(parent).parts[0]!r}"


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between reading a file and replacing it; `OSError` if it cannot be taken."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Lock a file beside it, since each change replaces the file itself.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    number = os.open(path.with_name(f".{path.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def replace_file(path: Path, data: bytes, *, keep_mode: bool = False) -> None:
    """Replace the content of a file atomically and durably. The new file is private to the user.

    With `keep_mode`, it keeps the permissions of the existing file.
    """
    try:
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path)  # instead of the temporary file, which the user does not know
        raise
    try:
        with os.fdopen(number, "wb") as file:
            if keep_mode and path.exists():
                os.fchmod(number, stat.S_IMODE(path.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def decode_utf8(data: bytes, what: str) -> str:
    """The text of UTF-8 bytes; `MalformedSource` with the place of a byte that is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode().removeprefix("\ufeff")
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8; save the text as UTF-8"
        raise MalformedSource.at_character(before, len(before), message, what) from error


def encode_utf8(text: str, what: str) -> bytes:
    """`text` in UTF-8; `MalformedSource` for lone surrogates, which UTF-8 cannot encode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"U+{code:04X} is half of a surrogate pair, not a character; decode the text with its right encoding"
        raise MalformedSource.at_character(text, error.start, message, what) from error


_MANY = 50_000
"""Number of containers that take the garbage collector milliseconds to traverse."""


class _Pauses:
    """Process-wide count of open pauses, and whether the last one to end enables the collector again."""

    lock = threading.Lock()
    open = 0
    resume = False


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable automatic garbage collection in all threads for the duration of the block.

    A parser allocates hundreds of thousands of containers that are all reachable, and the collections this triggers
    cost a third to a half of the parse for nothing.

    Blocks may nest and overlap across threads: the last to end restores the state that the first one found, so
    the collector stays off in a process that had disabled it.
    """
    with _Pauses.lock:
        if _Pauses.open == 0:
            _Pauses.resume = gc.isenabled()
            gc.disable()
        _Pauses.open += 1
    try:
        yield
    finally:
        with _Pauses.lock:
            _Pauses.open -= 1
            if _Pauses.open == 0 and _Pauses.resume:
                if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                    # Move the new objects to the oldest generation at once; otherwise they are traversed twice.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
