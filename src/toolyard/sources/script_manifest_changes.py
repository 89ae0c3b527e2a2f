"""Changes to a manifest: one writer at a time, whole or not at all, and never over one that cannot be read."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from toolyard.model.errors import ManifestError, SourceUnavailable
from toolyard.model.json_words import closest
from toolyard.model.names import show
from toolyard.sources.script_files import ScriptDirectory
from toolyard.sources.script_manifest import (
    MANIFEST,
    Manifest,
    NoManifestError,
    check_name,
    fold,
    name_problem,
    read_manifest,
    sha256_of,
)
from toolyard.sources.script_review import is_script

LOCK = f".{MANIFEST}.lock"
_TEMPORARY = f".{MANIFEST}.new-"
_WAIT = 30.0
_LOOK = 0.005
_READABLE = 0o644

Path = str | os.PathLike[str]


def append(name: str, path: Path) -> None:
    """Allow one more file, which need not be there yet; its hash is kept where the manifest keeps hashes.

    `NoManifestError`, a FileNotFoundError, if there is no manifest; `ManifestError` if it is corrupt.
    """
    try:
        add(path, [name])
    except SourceUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NoManifestError(str(error)) from None
        raise


def add(path: Path, names: Sequence[str], *, hashed: bool | None = None) -> Manifest:
    """Allow files, or approve what they say now. `hashed` has the manifest keep hashes from now on."""
    for name in names:
        check_name(name)

    def edit(directory: ScriptDirectory, manifest: Manifest) -> Manifest:
        pins = manifest.hashed if hashed is None else hashed
        allow = dict(manifest.allow)
        _refuse_twins(allow, names)
        for name in names:
            allow[name] = _pin(directory, name, pins)
        if pins and not manifest.hashed:
            allow = {name: pin or _pin_if_usable(directory, name) for name, pin in allow.items()}
        return msgspec.structs.replace(manifest, allow=allow, hashed=pins)

    return change(path, edit)


def remove(path: Path, names: Sequence[str]) -> Manifest:
    """Allow files no longer. The files stay where they are."""

    def edit(_: ScriptDirectory, manifest: Manifest) -> Manifest:
        for name in names:
            if name not in manifest.allow:
                near = closest(name, manifest.allow, count=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ManifestError(f"{show(name)} is not in the manifest{hint}")
        allow = {name: pin for name, pin in manifest.allow.items() if name not in names}
        return msgspec.structs.replace(manifest, allow=allow)

    return change(path, edit)


def init(path: Path, *, hashed: bool = False, empty: bool = False) -> tuple[Manifest, dict[str, str]]:
    """A first manifest, of the scripts that are there now; and the ones that cannot be in it, with the reasons."""
    refused: dict[str, str] = {}
    with ScriptDirectory(path) as directory, _locked(directory):
        if directory.stat(MANIFEST) is not None:
            raise ManifestError(f"{directory.path / MANIFEST}: there is a manifest already; `toolyard manifest add`")
        allow: dict[str, str | None] = {}
        for name in [] if empty else filter(is_script, directory.names()):
            problem = name_problem(name)
            try:
                _refuse_twins(allow, [name])
                pin = None if problem else _pin(directory, name, hashed)
            except ManifestError as error:
                problem = str(error)
            if problem:
                refused[name] = problem
            else:
                allow[name] = pin
        made = Manifest(allow, hashed)
        _write(directory, made)
    return made, refused


def change(path: Path, edit: Callable[[ScriptDirectory, Manifest], Manifest]) -> Manifest:
    """Read, edit and write as the only writer; what is not changed is not written."""
    with ScriptDirectory(path) as directory:
        read_manifest(directory)  # before the lock is made: where there is no manifest, nothing is left behind
        with _locked(directory):
            manifest = read_manifest(directory)
            made = edit(directory, manifest)
            if made != manifest:
                _write(directory, made)
            return made


def _refuse_twins(allow: dict[str, str | None], names: Sequence[str]) -> None:
    known = {fold(name): name for name in allow}
    for name in names:
        twin = known.setdefault(fold(name), name)
        if twin != name:
            raise ManifestError(f"{show(name)} differs from {show(twin)}, which is in the manifest, only in case")


def _pin(directory: ScriptDirectory, name: str, hashed: bool) -> str | None:
    """The hash of a file that may be read; None if it is not there, or none is wanted."""
    try:
        data = directory.read(name, linked=hashed)
    except FileNotFoundError:
        return None
    return sha256_of(data) if hashed else None


def _pin_if_usable(directory: ScriptDirectory, name: str) -> str | None:
    # An entry that cannot be loaded today must not keep the others from getting their hashes.
    if name_problem(name):
        return None
    with suppress(ManifestError):
        return _pin(directory, name, True)
    return None


@contextmanager
def _locked(directory: ScriptDirectory) -> Iterator[None]:
    """Keep other writers out. The lock dies with its holder; its file stays, since to remove it would be a race."""
    descriptor = _open_lock(directory)
    try:
        limit = time.monotonic() + _WAIT
        while not _take(descriptor):
            if time.monotonic() > limit:
                raise ManifestError(f"{directory.path / LOCK}: another writer has held the manifest for {_WAIT:.0f} s")
            time.sleep(_LOOK)
        yield
    finally:
        os.close(descriptor)


def _open_lock(directory: ScriptDirectory) -> int:
    """The lock file: made, or there already and such that only its makers can have put it there."""
    where = directory.path / LOCK
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    limit = time.monotonic() + _WAIT
    while True:
        try:
            with suppress(FileExistsError):
                return _given(directory, os.open(LOCK, flags | os.O_CREAT | os.O_EXCL, 0o660, dir_fd=directory.fd))
            found = directory.stat(LOCK)
            if found is not None:
                directory.require_lone_file(found, str(where))
                descriptor = os.open(LOCK, flags, dir_fd=directory.fd)
                break
        except FileNotFoundError:
            pass  # Somebody has removed it between two looks.
        except OSError as error:
            raise ManifestError(f"{where}: cannot be opened: {error.strerror}") from error
        if time.monotonic() > limit:
            raise ManifestError(f"{where}: comes and goes")
    try:
        directory.require_lone_file(os.fstat(descriptor), str(where))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _given(directory: ScriptDirectory, descriptor: int) -> int:
    """What root has just made, given to who owns the directory: they must not be locked out."""
    try:
        if os.geteuid() == 0:
            os.fchown(descriptor, os.fstat(directory.fd).st_uid, -1)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(directory: ScriptDirectory, manifest: Manifest) -> None:
    """Put a new file in the place of the old one, in one step; who reads meanwhile sees one of them whole."""
    data = manifest.to_json()
    before = directory.stat(MANIFEST)
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        for left in directory.names():
            if left.startswith(_TEMPORARY):  # by a writer that was killed; this one holds the lock
                with suppress(OSError):  # a directory, say: it is in nobody's way
                    os.unlink(left, dir_fd=directory.fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=directory.fd)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if before is not None and os.geteuid() == 0:
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), _READABLE if before is None else before.st_mode & 0o7777)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, MANIFEST, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory.fd)
            raise
        os.fsync(directory.fd)
    except OSError as error:
        raise ManifestError(f"{directory.path / MANIFEST}: cannot be written: {error.strerror}") from error
