"""`SessionLocks`: which process has which session, by byte-range locks that the kernel frees when the holder dies."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import weakref
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

from toolyard.model.errors import SessionError
from toolyard.sessions.store.base import Key

# Open-file-description locks belong to the descriptor, not to the process: two stores in one process exclude each
# other, and closing an unrelated descriptor of the file frees nothing. Linux has them; elsewhere see `_Shared`.
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)


def lock_number(*names: str, bits: int) -> int:
    """A number that all processes agree on; the lengths keep ("a", "bc") apart from ("ab", "c")."""
    digest = blake2b(digest_size=8)
    for name in names:
        data = name.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return int.from_bytes(digest.digest(), "big") >> (64 - bits)


class SessionLocks:
    """Locks on one side file. The file stays empty: a lock may lie beyond the end."""

    _all: ClassVar[weakref.WeakSet[SessionLocks]] = weakref.WeakSet()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._held: dict[int, Key] = {}
        self._fd: int | None = None
        self._all.add(self)

    def try_hold(self, key: Key) -> bool:
        """False if another store object or process holds it, or this one does already."""
        at = lock_number(key.owner, key.session_id, bits=62)
        mine = False
        try:
            with self._lock:
                # Also covers two keys with one number (2**-62): the second waits for the first, which is slow but safe;
                # sharing the lock would let go of both when the first is released.
                if at in self._held:
                    return False
                if self._set(at, hold=True):
                    self._held[at] = key
                    mine = True
            return mine
        except OSError as error:
            raise SessionError(f"cannot lock {self._path}: {error}; is it on a local disk?") from error
        except BaseException:
            # Interrupted on the way out: whoever asked would never know that it has to be released.
            if mine:
                self.release(key)
            raise

    def release(self, key: Key) -> None:
        """Does nothing for a key that is not held."""
        at = lock_number(key.owner, key.session_id, bits=62)
        with self._lock:
            if self._held.get(at) != key:
                return
            # In this order: interrupted in between, it is released once more.
            self._set(at, hold=False)
            del self._held[at]

    def holds(self, key: Key) -> bool:
        """True from `try_hold` to `release`."""
        with self._lock:
            return self._held.get(lock_number(key.owner, key.session_id, bits=62)) == key

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for at in self._held:
                self._set(at, hold=False)
            self._held.clear()
            if self._fd is not None and _OFD_SETLK is not None:
                os.close(self._fd)
            self._fd = None

    def _set(self, at: int, *, hold: bool) -> bool:
        if self._fd is None:
            self._fd = _open(self._path) if _OFD_SETLK is not None else _Shared.open(self._path)
        if _OFD_SETLK is None:
            return _Shared.set(self._fd, at, hold=hold)
        kind = fcntl.F_WRLCK if hold else fcntl.F_UNLCK
        try:
            fcntl.fcntl(self._fd, _OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, at, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _after_fork(self) -> None:
        # The child shares the parent's locks as long as it has the descriptor: drop it, so that they end with the
        # parent. The mutex may have been held by a thread that does not exist here.
        self._lock = threading.Lock()
        self._held = {}
        if self._fd is not None and _OFD_SETLK is not None:
            os.close(self._fd)
        self._fd = None

    @classmethod
    def after_fork(cls) -> None:
        """In a forked child: the locks are the parent's."""
        for locks in list(cls._all):
            locks._after_fork()
        _Shared.held.clear()


class _Shared:
    """Where there are only process-wide locks: a table makes the stores of one process exclude each other.

    One descriptor per file, never closed: closing any descriptor of a file frees all of the process's locks on it.
    """

    lock = threading.Lock()
    files: ClassVar[dict[tuple[int, int], int]] = {}
    held: ClassVar[set[tuple[int, int]]] = set()

    @classmethod
    def open(cls, path: Path) -> int:
        with cls.lock:
            if path.exists():
                stat = path.stat()
                known = cls.files.get((stat.st_dev, stat.st_ino))
                if known is not None:
                    return known
            fd = _open(path)
            stat = os.fstat(fd)
            return cls.files.setdefault((stat.st_dev, stat.st_ino), fd)

    @classmethod
    def set(cls, fd: int, at: int, *, hold: bool) -> bool:
        with cls.lock:
            if hold and (fd, at) in cls.held:
                return False
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if hold else fcntl.LOCK_UN, 1, at)
            except (BlockingIOError, PermissionError):
                return False
            (cls.held.add if hold else cls.held.discard)((fd, at))
            return True


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


os.register_at_fork(after_in_child=SessionLocks.after_fork)
