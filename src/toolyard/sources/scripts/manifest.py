"""The manifest of a script directory: reading and changing it, and checking files against it.

{"allow": ["foo.py", "bar.py"]}            by name
{"allow": {"foo.py": "sha256:..."}}        by name and content
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import stat
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from toolyard.model.bases import Closing
from toolyard.model.errors import MalformedSource, ManifestError, SourceError, SourceUnavailable, UnknownScriptError
from toolyard.model.json_schema import file_type
from toolyard.model.names import find_similar_tools, show
from toolyard.parsing import parse_json
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


MANIFEST = "_manifest.json"
ALLOW = "allow"
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_MAX_NAME_BYTES = 255
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_RESERVED_NAMES = sys.stdlib_module_names | {"tools", "toolyard", "sitecustomize", "usercustomize"}
_SUFFIX = ".py"
_TEMPORARY = f".{MANIFEST}.new-"
_LOCK_SECONDS = 30.0
_RETRY_SECONDS = 0.005
_READABLE = 0o644

AnyPath = str | os.PathLike[str]

_log = logging.getLogger(__name__)


class NoManifestError(ManifestError, FileNotFoundError):
    """The directory has no manifest."""


class Manifest(msgspec.Struct, frozen=True):
    """The content of a manifest, in its order."""

    allow: dict[str, str | None] = {}
    """File names and their hashes; None for an unknown hash."""
    hashed: bool = False
    """True if every file needs a hash; one without is not loaded."""
    document: dict[str, Any] = {}
    """The whole document; unknown keys are kept."""

    def to_json(self) -> bytes:
        """The document with the current allow-list."""
        allow: Any = dict(self.allow) if self.hashed else list(self.allow)
        return msgspec.json.format(msgspec.json.encode({**self.document, ALLOW: allow}), indent=2) + b"\n"

    def unusable_entries(self) -> dict[str, str]:
        """Entries that can never be loaded, with the reasons: invalid names, and names that differ only in case."""
        found: dict[str, str] = {}
        folded: dict[str, list[str]] = {}
        for name in self.allow:
            problem = name_problem(name)
            if problem:
                found[name] = problem
            folded.setdefault(fold_file_name(name), []).append(name)
        for twins in folded.values():
            if len(twins) > 1:
                for name in twins:
                    others = ", ".join(show(other) for other in twins if other != name)
                    found.setdefault(name, f"differs from {others} only in case; some disks hold one file for both")
        return found


def sha256_of(data: bytes) -> str:
    """The hash in the notation of a manifest."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def fold_file_name(name: str) -> str:
    """The name under which a file system that ignores case and Unicode composition finds a file."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", name).casefold())


def name_problem(name: str) -> str | None:
    """Why a name cannot be that of a script; None if it can."""
    if not name or not all(char.isprintable() for char in name):
        return "holds characters that cannot be shown, or none at all"
    if "/" in name or "\\" in name or name in (".", ".."):
        return "is a path; write the name of a file in the directory itself"
    if not name.endswith(".py") or name.startswith("."):
        return "is not the name of a script; write one like `foo.py`"
    if name == "__init__.py":
        return "marks a package, and is no script"
    if len(os.fsencode(name)) > _MAX_NAME_BYTES:
        return f"is longer than {_MAX_NAME_BYTES} bytes"
    if fold_file_name(name).removesuffix(".py") in _RESERVED_NAMES:
        return "has the name of a module of Python or of this program; rename the file"
    return None


def check_name(name: object) -> str:
    """The name, if it is valid in a manifest; `ManifestError` if not."""
    if not isinstance(name, str):
        raise ManifestError(f"the name of a script is text, not {file_type(name)}")
    problem = name_problem(name)
    if problem:
        raise ManifestError(f"{show(name)} {problem}")
    return name


def read_manifest(directory: ScriptDirectory) -> Manifest:
    """The manifest of an open directory; `NoManifestError` if there is none, `ManifestError` if it cannot be used."""
    where, init = str(directory.path / MANIFEST), f"`toolyard manifest init {directory.path}`"
    try:
        data = directory.read(MANIFEST, limit=MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise NoManifestError(f"{where}: there is no manifest; {init} makes one") from None
    try:
        return _parse_manifest(parse_json(data, what=where), where)
    except MalformedSource as error:
        raise ManifestError(f"{error}; fix it, or remove it and create a new one with {init}") from None


def _parse_manifest(document: Any, where: str) -> Manifest:
    if not isinstance(document, dict):
        raise MalformedSource(f'a manifest is {{"allow": [...]}}, not {file_type(document)}', where=where)
    allow = document.get(ALLOW, [])
    if isinstance(allow, list):
        wrong = [item for item in allow if not isinstance(item, str)]
        if wrong:
            raise MalformedSource(f"'allow' is a list of file names; {file_type(wrong[0])} is none", where=where)
        return Manifest(dict.fromkeys(allow), hashed=False, document=document)
    if isinstance(allow, dict):
        for name, value in allow.items():
            if value is not None and not (isinstance(value, str) and _HASH.fullmatch(value)):
                raise MalformedSource(f"the hash of {show(name)} is not 'sha256:' and 64 hex digits", where=where)
        return Manifest(dict(allow), hashed=True, document=document)
    raise MalformedSource(f"'allow' is a list or a mapping, not {file_type(allow)}", where=where)


def load_allowlist(path: str | os.PathLike[str]) -> set[str]:
    """The names that may be loaded; empty, with a log message, if the manifest is missing or cannot be used."""
    try:
        with ScriptDirectory(path) as directory:
            manifest = read_manifest(directory)
    except SourceError as error:
        _log.warning("no script is allowed: %s", error)
        return set()
    refused = manifest.unusable_entries()
    for name, reason in refused.items():
        _log.warning("%s: entry %s %s", Path(path) / MANIFEST, show(name), reason)
    return set(manifest.allow) - refused.keys()


State = Literal["ok", "missing", "changed", "unpinned", "refused", "stray"]


class ReviewedFile(msgspec.Struct, frozen=True):
    """The result of checking one file or one entry of a manifest."""

    file: str
    state: State
    reason: str = ""
    data: bytes = b""
    """The checked content, whose hash is `sha256`. Only set for state "ok"."""
    sha256: str | None = None
    """The hash of the current content, if it could be read."""
    pinned: str | None = None
    """The hash in the manifest."""

    def __repr__(self) -> str:
        return f"<ReviewedFile {self.file}: {self.state}>"


def review_directory(directory: ScriptDirectory, manifest: Manifest) -> list[ReviewedFile]:
    """Check every entry of the manifest and every other script of the directory, by name. Each file is read once."""
    there = directory.names()
    present = set(there)
    refused = manifest.unusable_entries()
    found = [_review_entry(directory, manifest, name, present, refused) for name in manifest.allow]
    strays = [
        ReviewedFile(name, "stray", f"not in {MANIFEST}; `toolyard manifest add {directory.path} {name}` allows it")
        for name in there
        if is_script(name) and name not in manifest.allow
    ]
    return sorted([*found, *strays], key=lambda item: item.file)


def is_script(name: str) -> bool:
    """True if the name looks like a script; hidden files of editors do not."""
    return name.lower().endswith(_SUFFIX) and not name.startswith(".") and name != "__init__.py"


def _review_entry(
    directory: ScriptDirectory, manifest: Manifest, name: str, present: set[str], refused: dict[str, str]
) -> ReviewedFile:
    if name in refused:
        return ReviewedFile(name, "refused", f"{show(name)} {refused[name]}")
    pinned = manifest.allow[name]
    # Looked up in the listing, because a file system that ignores case would open a file under other names too.
    if name not in present:
        return ReviewedFile(name, "missing", f"in {MANIFEST}, but not in the directory", pinned=pinned)
    try:
        data = directory.read(name, linked=manifest.hashed)
    except FileNotFoundError:
        return ReviewedFile(name, "missing", f"in {MANIFEST}, but not in the directory", pinned=pinned)
    except ManifestError as error:
        return ReviewedFile(name, "refused", str(error), pinned=pinned)
    sha256 = sha256_of(data)
    approve = f"`toolyard manifest add {directory.path} {name}` approves its current content"
    if manifest.hashed and pinned is None:
        return ReviewedFile(name, "unpinned", f"its hash is not in {MANIFEST}; {approve}", sha256=sha256)
    if pinned is not None and sha256 != pinned:
        reason = f"its content does not match the hash in {MANIFEST}; {approve}"
        return ReviewedFile(name, "changed", reason, sha256=sha256, pinned=pinned)
    return ReviewedFile(name, "ok", data=data, sha256=sha256, pinned=pinned)


def append_script(name: str, path: AnyPath) -> None:
    """Allow one more file, which need not exist yet; its hash is stored if the manifest has hashes.

    `NoManifestError`, a FileNotFoundError, if there is no manifest; `ManifestError` if it is corrupt.
    """
    try:
        allow_scripts(path, [name])
    except SourceUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NoManifestError(str(error)) from None
        raise


def allow_scripts(path: AnyPath, names: Sequence[str], *, hashed: bool | None = None, absent: bool = True) -> Manifest:
    """Allow files, or approve their current content. `hashed` makes the manifest store hashes from now on.

    Unless `absent`, a file that does not exist raises `UnknownScriptError`.
    """
    for name in names:
        check_name(name)

    def edit(directory: ScriptDirectory, manifest: Manifest) -> Manifest:
        pins = manifest.hashed if hashed is None else hashed
        allow = dict(manifest.allow)
        _refuse_case_conflicts(allow, names)
        there = list(filter(is_script, directory.names()))
        for name in names:
            if not absent and name not in there:
                hint = _guess_script(name, there) or "; --absent allows a file that does not exist yet"
                raise UnknownScriptError(f"{directory.path} has no script {show(name)}{hint}")
            allow[name] = _hash_script(directory, name, pins)
        if pins and not manifest.hashed:
            allow = {name: pin or _hash_if_usable(directory, name) for name, pin in allow.items()}
        return msgspec.structs.replace(manifest, allow=allow, hashed=pins)

    return change_manifest(path, edit)


def disallow_scripts(path: AnyPath, names: Sequence[str]) -> Manifest:
    """Remove files from the allow-list. The files themselves are kept."""

    def edit(_: ScriptDirectory, manifest: Manifest) -> Manifest:
        for name in names:
            if name not in manifest.allow:
                raise UnknownScriptError(f"{show(name)} is not in the manifest{_guess_script(name, manifest.allow)}")
        allow = {name: pin for name, pin in manifest.allow.items() if name not in names}
        return msgspec.structs.replace(manifest, allow=allow)

    return change_manifest(path, edit)


def _guess_script(name: str, known: Iterable[str]) -> str:
    near = find_similar_tools(name, known, count=1)
    return f"; did you mean {near[0]}?" if near else ""


def create_manifest(path: AnyPath, *, hashed: bool = False, empty: bool = False) -> tuple[Manifest, dict[str, str]]:
    """Create a manifest of the existing scripts; also returns those that cannot be in it, with the reasons."""
    refused: dict[str, str] = {}
    with ScriptDirectory(path) as directory, _hold_lock(directory):
        if directory.stat(MANIFEST) is not None:
            add = f"toolyard manifest add {directory.path} FILE"
            raise ManifestError(f"{directory.path / MANIFEST}: there is a manifest already; `{add}` allows more")
        allow: dict[str, str | None] = {}
        for name in [] if empty else filter(is_script, directory.names()):
            problem = name_problem(name)
            try:
                _refuse_case_conflicts(allow, [name])
                pin = None if problem else _hash_script(directory, name, hashed)
            except ManifestError as error:
                problem = str(error)
            if problem:
                refused[name] = problem
            else:
                allow[name] = pin
        made = Manifest(allow, hashed)
        _write_manifest(directory, made)
    return made, refused


def change_manifest(path: AnyPath, edit: Callable[[ScriptDirectory, Manifest], Manifest]) -> Manifest:
    """Read, edit and write under the lock; an unchanged manifest is not written."""
    with ScriptDirectory(path) as directory, _hold_lock(directory):
        manifest = read_manifest(directory)
        made = edit(directory, manifest)
        if made != manifest:
            _write_manifest(directory, made)
        return made


def _refuse_case_conflicts(allow: dict[str, str | None], names: Sequence[str]) -> None:
    known = {fold_file_name(name): name for name in allow}
    for name in names:
        twin = known.setdefault(fold_file_name(name), name)
        if twin != name:
            raise ManifestError(f"{show(name)} differs from {show(twin)}, which is in the manifest, only in case")


def _hash_script(directory: ScriptDirectory, name: str, hashed: bool) -> str | None:
    """The hash of a readable file; None if it does not exist or `hashed` is False."""
    try:
        data = directory.read(name, linked=hashed)
    except FileNotFoundError:
        return None
    return sha256_of(data) if hashed else None


def _hash_if_usable(directory: ScriptDirectory, name: str) -> str | None:
    # An entry that cannot be loaded now must not prevent the others from getting hashes.
    if name_problem(name):
        return None
    with suppress(ManifestError):
        return _hash_script(directory, name, True)
    return None


@contextmanager
def _hold_lock(directory: ScriptDirectory) -> Iterator[None]:
    """Exclude other writers by a lock on the directory itself: it ends with its holder, and leaves no file behind."""
    limit = time.monotonic() + _LOCK_SECONDS
    while not _try_lock(directory):
        if time.monotonic() > limit:
            raise ManifestError(f"{directory.path}: another writer has held the manifest for {_LOCK_SECONDS:.0f} s")
        time.sleep(_RETRY_SECONDS)
    try:
        yield
    finally:
        fcntl.flock(directory.fd, fcntl.LOCK_UN)


def _try_lock(directory: ScriptDirectory) -> bool:
    try:
        fcntl.flock(directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ManifestError(f"{directory.path}: cannot be locked: {error.strerror}") from error
    return True


def _write_manifest(directory: ScriptDirectory, manifest: Manifest) -> None:
    """Replace the file atomically, so that readers see either the old or the new manifest."""
    data = manifest.to_json()
    before = directory.stat(MANIFEST)
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        for left in directory.names():
            if left.startswith(_TEMPORARY):  # by a writer that was killed; this one holds the lock
                with suppress(OSError):  # a directory, for instance, which does not interfere
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
