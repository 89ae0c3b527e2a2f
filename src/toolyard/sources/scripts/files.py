"""A directory of scripts: opened once, and read without following links or blocking."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from toolyard.model.bases import Closing
from toolyard.model.errors import ManifestError, SourceUnavailable
from toolyard.parsing.files import name_file_kind, read_at_most

MAX_SCRIPT_BYTES = 4 * 1024 * 1024


class ScriptDirectory(Closing):
    """An open directory that only its owner can change.

    Files are opened relative to its descriptor, so replacing the directory at the path has no effect.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if "\0" in str(path) or not str(path):
            raise SourceUnavailable(f"{str(path)!r} is no path; name a directory")
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            raise SourceUnavailable(f"{self.path} is no directory; name the one that holds the scripts") from None
        except OSError as error:
            raise SourceUnavailable(f"{self.path}: the directory cannot be opened: {error.strerror}") from error
        try:
            found = os.fstat(self.fd)
            self._owner = found.st_uid
            self._require_owned(found, str(self.path))
        except BaseException:
            os.close(self.fd)
            raise

    def names(self) -> list[str]:
        """The names of all files in the directory, sorted."""
        return sorted(os.listdir(self.fd))

    def stat(self, name: str) -> os.stat_result | None:
        """The status of a file, without following links; None if it does not exist."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, name: str, *, limit: int = MAX_SCRIPT_BYTES, linked: bool = False) -> bytes:
        """The content of a file; `ManifestError` if it must not be used, FileNotFoundError if it does not exist.

        `linked` allows hard links to the file, which are harmless if its hash is known.
        """
        where = f"{self.path / name}"
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            # Checked before it is opened, since opening a device may have an effect, and again afterwards.
            self._require_safe(os.stat(name, dir_fd=self.fd, follow_symlinks=False), where, limit, linked)
            descriptor = os.open(name, flags, dir_fd=self.fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
            raise ManifestError(f"{where}: cannot be read: {reason}") from error
        try:
            self._require_safe(os.fstat(descriptor), where, limit, linked)
            data = read_at_most(descriptor, limit)
        except OSError as error:
            raise ManifestError(f"{where}: cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)
        _require_size(len(data), limit, where)
        return data

    def _require_safe(self, found: os.stat_result, where: str, limit: int, linked: bool) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise ManifestError(f"{where}: this is {name_file_kind(found.st_mode)}; only regular files are read")
        self._require_owned(found, where)
        if found.st_nlink > 1 and not linked:
            raise ManifestError(
                f"{where}: the file has {found.st_nlink} names (hard links), so it may change from elsewhere; copy it, "
                "or have the manifest keep hashes (`toolyard manifest add --hashed`)"
            )
        _require_size(found.st_size, limit, where)

    def _require_owned(self, found: os.stat_result, where: str) -> None:
        if found.st_mode & stat.S_IWOTH:
            raise ManifestError(f"{where}: it is writable by everyone; change that with chmod o-w")
        mine = os.geteuid()
        # Root may load files of another user if that user owns the directory too.
        if found.st_uid not in (0, mine) and not (mine == 0 and found.st_uid == self._owner):
            raise ManifestError(f"{where}: belongs to user {found.st_uid}, not to user {mine} or to root")

    def close(self) -> None:
        """Close the descriptor once, since its number may be reused."""
        descriptor, self.fd = self.fd, -1
        if descriptor >= 0:
            os.close(descriptor)


def _require_size(size: int, limit: int, where: str) -> None:
    if size > limit:
        raise ManifestError(f"{where}: larger than the limit of {limit:,} bytes")
