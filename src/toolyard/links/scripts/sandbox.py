"""What each sandbox level denies to scripts.

What a script tries                    bwrap        landlock     rlimits
-------------------------------------  -----------  -----------  --------------------------------
a secret of the server's environment   not there    denied       denied if root started the server
a file of the server's owner, 0600     not there    denied       denied if root started the server
a world-readable file                  not there    denied       readable
existence, size and times of a file    not there    visible      visible
writing a file outside its own folder  not there    denied       as its uid may
mode, owner, attributes of a file      not there    denied (5)   as its uid may
a socket, of any kind                  denied (1)   denied (1)   denied (1)
the network without seccomp            not there    TCP denied   reachable
memory of another worker               denied       denied       denied (2)
a signal to another worker             denied (3)   denied (3)   delivered
a signal to the server                 not there    denied (3)   denied if root started the server
limits, priority, CPU set, memory      denied (1)   denied (1)   denied (1)
 of another process
memory and queues of System V, queues  denied (1)   denied (1)   denied (1)
 of POSIX, that outlive the process
memory and semaphores of POSIX, files  gone with    denied       as its uid may (6)
 in /dev/shm                            namespace
processes that outlive the call        ended        ended (4)    ended (4)
memory, files, processes, file size    limited      limited      limited
CPU                                    until the deadline, or `cpu_seconds`

(1) By seccomp, on x86_64 and aarch64; on other machines as the uid may. Every socket is denied, whatever its family;
    a socket pair is not. A script may lower its own limits, but not its own priority.
(2) Not if scripts must read Python through open descriptors (`ForkServer.through`): the kernel then has to let them
    see their own `/proc/self`, and so that of each other. At level rlimits, a file whose declarations are read can then
    change the declarations of the files after it.
(3) With Landlock ABI 6, which is combined with bwrap if the kernel has it. Without it workers may signal each other.
(4) Ended by a process that adopts orphans and kills them. One that forks and exits faster than it can be found would
    escape; at level bwrap the whole pid namespace is ended instead.
(5) Landlock does not cover these. If root started the server, its files do not belong to the script's uid. If not,
    seccomp denies changing them by path, also in the script's own folder (`shutil.copyfile` works, `shutil.copy` does
    not). They can still be changed through an open file, for instance those of packages that a script may read; so can
    the times of any file of the user whose path it knows.
(6) These are files in a world-writable folder, like /tmp: only Landlock and bwrap restrict paths.

At level rlimits, if root did not start the server, it runs as the same user as its scripts: a script can read and end
whatever that user can, including the server. That level protects against accidents, not against attacks.

No level limits the memory of all processes of one script together (each has its own limit), the total size of many
files (except at level bwrap: `file_bytes` in all), or what a script does to its own later calls in the same worker
(`calls_per_worker: 1` does).
"""

from __future__ import annotations

import os
import pwd
import shutil
import site
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Literal

from toolyard.links.scripts.inside import kernel
from toolyard.model.errors import ConfigError
from toolyard.schema.common_options import WorkerSettings

Level = Literal["bwrap", "landlock", "rlimits"]

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_ENV = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin"


@cache
def interpreter() -> str:
    """The path of the interpreter itself, not of a link in a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def module_places() -> tuple[str, ...]:
    """The folders of installed packages, including toolyard; folders added by `.pth` files are not included."""
    paths = sysconfig.get_paths()
    wanted = [*site.getsitepackages(), paths["purelib"], paths["platlib"], str(Path(__file__).parents[3])]
    return tuple(path for path in dict.fromkeys(wanted) if os.path.isdir(path))


def readable(settings: WorkerSettings) -> tuple[str, ...]:
    """The paths scripts may read: system programs and libraries, Python, and packages if `imports` allows them."""
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
"""The uids that Linux distributions leave unassigned."""


def identity(settings: WorkerSettings) -> tuple[int, int] | None:
    """The uid and gid of scripts; None if they keep those of the server."""
    if os.geteuid() != 0:
        if settings.uid not in (None, os.geteuid()):
            raise ConfigError(f"uid: {settings.uid} needs a server that is started as root; leave it out")
        return None
    if settings.uid is None:
        return _find_unused_uid(), _find_unused_uid()
    try:
        entry = pwd.getpwuid(settings.uid)
        uid, gid = entry.pw_uid, entry.pw_gid
    except KeyError:
        uid = gid = settings.uid
    if uid == 0:
        raise ConfigError("uid: 0 would run scripts as root; name an unprivileged one, or leave it out")
    return uid, gid


def _find_unused_uid() -> int:
    """A number that no account has, and probably not the scripts of another server either.

    The kernel counts processes by uid, so scripts of two servers with the same uid would share one process limit.
    """
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    first = os.getpid() % _UNUSED
    return next(
        uid for uid in (_FIRST_UNUSED + (first + step) % _UNUSED for step in range(_UNUSED)) if uid not in taken
    )


def environment(settings: WorkerSettings) -> dict[str, str]:
    """The environment of scripts: language, time zone, and the variables named in the settings."""
    names = (*_ENV, *settings.env)
    return {"PATH": _PATH, **{name: os.environ[name] for name in names if name in os.environ}}


def count_tasks(uid: int) -> int:
    """The current number of processes and threads of a uid on this machine, which the kernel's limit counts."""
    count = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"{entry.path}/status", "rb") as file:
                status = file.read()
        except OSError:
            continue
        if _read_field(status, b"\nUid:") == uid:
            count += _read_field(status, b"\nThreads:") or 1
    return count


def _read_field(status: bytes, name: bytes) -> int | None:
    """The first number of a line. Only this line is parsed, since there may be many processes."""
    words = status.partition(name)[2].split(None, 1)
    return int(words[0]) if words else None


LEVELS: tuple[Level, ...] = ("bwrap", "landlock", "rlimits")
_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL")
_PROBE_SECONDS = 10.0


def probe_level(sandbox: str) -> Level:
    """The sandbox level for the setting; `ConfigError` if this machine does not support it."""
    if sandbox == "auto":
        return next(level for level in LEVELS if find_obstacle(level) is None)
    for level in LEVELS:
        if level == sandbox:
            fault = find_obstacle(level)
            if fault is not None:
                raise ConfigError(f"sandbox: {sandbox} is not available here: {fault}; use auto, or remove the cause")
            return level
    raise ConfigError(f"sandbox: {sandbox!r} is not known; use auto, {', '.join(LEVELS)}")


@cache
def find_obstacle(level: Level) -> str | None:
    """Why a level cannot be used on this machine; None if it can. Cached."""
    if level == "rlimits":
        return None
    if level == "landlock":
        return None if kernel.landlock_abi() > 0 else "the kernel does not support Landlock"
    if shutil.which("bwrap") is None:
        return "there is no program bwrap on the PATH; install bubblewrap"
    settings = WorkerSettings(imports="stdlib")
    command = [*bwrap(settings), interpreter(), "-I", "-S", "-c", ""]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not start: {type(error).__name__}"
    words = done.stderr.decode("utf-8", "replace").strip()
    return None if done.returncode == 0 else f"bwrap ends with status {done.returncode}: {words[-300:]}"


def bwrap(settings: WorkerSettings) -> list[str]:
    """The start of a command line that runs the rest in new namespaces."""
    line = [shutil.which("bwrap") or "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    line += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    if identity(settings) is None:
        line.append("--unshare-user")
    else:
        # No user namespace: its root would still count as root for file permissions. The fork server keeps only the
        # capabilities to change the uid of its children and to end them.
        for name in _CAPABILITIES:
            line += ["--cap-add", name]
    line += ["--hostname", "worker", "--perms", "1777", "--size", str(settings.file_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    line += ["--proc", "/proc", "--dev", "/dev"]
    made: set[str] = set()
    for path in readable(settings):
        for parent in map(str, reversed(Path(path).parents[:-1])):
            if parent not in made:
                made.add(parent)
                line += ["--perms", "0755", "--dir", parent]
        if os.path.islink(path) and os.path.isdir(path):
            line += ["--symlink", os.readlink(path), path]
        else:
            line += ["--ro-bind", os.path.realpath(path), path]
    return [*line, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]  # noqa: S108
