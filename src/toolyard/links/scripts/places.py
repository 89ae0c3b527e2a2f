"""Where the interpreter is, what scripts may read, and who they are."""

from __future__ import annotations

import os
import pwd
import site
import sys
import sysconfig
from functools import cache

from toolyard.links.scripts.settings import WorkerSettings
from toolyard.model.errors import ConfigError

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_ENV = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin"


@cache
def interpreter() -> str:
    """The program itself, not a link in a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def module_places() -> tuple[str, ...]:
    """Where installed packages are; what a `.pth` file adds is not among them."""
    paths = sysconfig.get_paths()
    wanted = [*site.getsitepackages(), paths["purelib"], paths["platlib"]]
    return tuple(path for path in dict.fromkeys(wanted) if os.path.isdir(path))


def readable(settings: WorkerSettings) -> tuple[str, ...]:
    """What scripts may read: the system's programs and libraries, Python, and the packages where they may be used."""
    paths = sysconfig.get_paths()
    python = [sys.base_prefix, sys.base_exec_prefix, paths["stdlib"], os.path.dirname(os.path.dirname(interpreter()))]
    python += module_places() if settings.imports == "site" else ()
    found: list[str] = [path for path in (*_SYSTEM, *_FILES) if os.path.exists(path)]
    for path in python:
        if not os.path.isdir(path):
            continue
        if path in ("/", os.path.expanduser("~")):
            raise ConfigError(f"Python is installed in {path} itself: scripts would see it all; install it elsewhere")
        if not any(path == other or path.startswith(other.rstrip("/") + "/") for other in found):
            found.append(path)
    return tuple(found)


_FIRST_UNUSED, _UNUSED = 61184, 4096
"""Where Linux systems have uids that are given to no account."""


def identity(settings: WorkerSettings) -> tuple[int, int] | None:
    """The uid and gid that scripts get; None if they keep ours."""
    if os.geteuid() != 0:
        if settings.uid not in (None, os.geteuid()):
            raise ConfigError(f"uid: {settings.uid} needs a server that is started as root; leave it out")
        return None
    if settings.uid is None:
        return _unused(), _unused()
    try:
        entry = pwd.getpwuid(settings.uid)
        uid, gid = entry.pw_uid, entry.pw_gid
    except KeyError:
        uid = gid = settings.uid
    if uid == 0:
        raise ConfigError("uid: 0 would run scripts as root; name an unprivileged one, or leave it out")
    return uid, gid


def _unused() -> int:
    """A number that no account has, and another server's scripts most likely have not either.

    The kernel counts processes by uid, so that scripts of two servers under one uid could take each other's.
    """
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    first = os.getpid() % _UNUSED
    return next(
        uid for uid in (_FIRST_UNUSED + (first + step) % _UNUSED for step in range(_UNUSED)) if uid not in taken
    )


def environment(settings: WorkerSettings) -> dict[str, str]:
    """What scripts see of the environment: the language, the time zone, and what the settings name."""
    names = (*_ENV, *settings.env)
    return {"PATH": _PATH, **{name: os.environ[name] for name in names if name in os.environ}}


def tasks_of(uid: int) -> int:
    """Processes and threads that a uid has now on this machine, which is what the kernel's limit counts."""
    count = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"{entry.path}/status", "rb") as file:
                status = file.read()
        except OSError:
            continue
        if _field(status, b"\nUid:") == uid:
            count += _field(status, b"\nThreads:") or 1
    return count


def _field(status: bytes, name: bytes) -> int | None:
    """The first number of a line; there are many processes, so that nothing else of theirs is taken apart."""
    words = status.partition(name)[2].split(None, 1)
    return int(words[0]) if words else None
