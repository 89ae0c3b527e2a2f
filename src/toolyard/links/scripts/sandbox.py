"""What scripts are kept from, level by level.

What a script tries                    bwrap        landlock     rlimits
-------------------------------------  -----------  -----------  --------------------------------
a secret of the server's environment   not there    denied       denied if root started the server
a file of the server's owner, 0600     not there    denied       denied if root started the server
a file that everybody may read         not there    denied       readable
that a file is there, its size, times  not there    told         told
a file outside its own folder          not there    denied       as its uid may
 it wants to write
mode, owner, attributes of a file      not there    denied (5)   as its uid may
a socket, of any kind                  denied (1)   denied (1)   denied (1)
the network without seccomp            not there    TCP denied   reachable
memory of another worker               denied       denied       denied (2)
a signal to another worker             denied (3)   denied (3)   delivered
a signal to the server                 not there    denied (3)   denied if root started the server
limits, priority, processors, memory   denied (1)   denied (1)   denied (1)
 of another process
memory and queues of System V, queues  denied (1)   denied (1)   denied (1)
 of POSIX, that outlive the process
memory and semaphores of POSIX, files  gone with    denied       as its uid may (6)
 in /dev/shm                            its world
processes that outlive the call        ended        ended (4)    ended (4)
memory, files, processes, file size    limited      limited      limited
CPU                                    until the deadline, or `cpu_seconds`

(1) By seccomp, on x86_64 and aarch64; on other machines it is as the uid may. Every socket is refused, of whatever
    family; a pair of them is not. A script may lower its own limits, but not its own priority.
(2) Not where scripts must read Python through open folders (`ForkServer.through`): then the kernel has to let them see
    their own `/proc/self`, and that of each other. At level rlimits a file that is read for what it declares can then
    change what those after it declare.
(3) With Landlock ABI 6, which bwrap is joined with where the kernel has it. Without it workers may signal each other.
(4) Swept up by a process that adopts them. One that forks and ends faster than it can be found would get away; at
    level bwrap its whole world is ended instead.
(5) Landlock does not ask about them. If root started the server, its files are not the script's. If not, seccomp
    refuses to change them by path, in the script's own folder too (`shutil.copyfile` works, `shutil.copy` does not).
    Left is what can be done with an open file, which the packages are that a script may read; and the times of any
    file of the user whose path it knows.
(6) They are files in a folder that everybody may write to, like /tmp: only Landlock and bwrap look at paths.

At level rlimits, a server that root did not start and its scripts are one user: a script can read and end what that
user can, the server itself included. That level keeps accidents apart, not enemies.

What no level limits: the memory of all processes of one script together (each has its own limit), how much is
written to disk in many files (but at level bwrap: `file_bytes` in all), and what one script does to its own later
calls in the same worker (`calls_per_worker: 1` does).
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

from toolyard.links.scripts.inside import kernel
from toolyard.links.scripts.settings import Level
from toolyard.model.errors import ConfigError
from toolyard.schema.common_options import WorkerSettings

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
    """Where installed packages are; what a `.pth` file adds is not among them, but for toolyard itself."""
    paths = sysconfig.get_paths()
    wanted = [*site.getsitepackages(), paths["purelib"], paths["platlib"], str(Path(__file__).parents[3])]
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
        if _read_field(status, b"\nUid:") == uid:
            count += _read_field(status, b"\nThreads:") or 1
    return count


def _read_field(status: bytes, name: bytes) -> int | None:
    """The first number of a line; there are many processes, so that nothing else of theirs is taken apart."""
    words = status.partition(name)[2].split(None, 1)
    return int(words[0]) if words else None


LEVELS: tuple[Level, ...] = ("bwrap", "landlock", "rlimits")
_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL")
_PROBE_SECONDS = 10.0


def probe_level(sandbox: str) -> Level:
    """The level that is in force for a wish; `ConfigError` if this machine cannot give it."""
    if sandbox == "auto":
        return next(level for level in LEVELS if why_not(level) is None)
    for level in LEVELS:
        if level == sandbox:
            fault = why_not(level)
            if fault is not None:
                raise ConfigError(f"sandbox: {sandbox} cannot be had here: {fault}; use auto, or see to it")
            return level
    raise ConfigError(f"sandbox: {sandbox!r} is not known; use auto, {', '.join(LEVELS)}")


@cache
def why_not(level: Level) -> str | None:
    """What keeps a level from being used here; None if nothing does. Found out once."""
    if level == "rlimits":
        return None
    if level == "landlock":
        return None if kernel.landlock_abi() > 0 else "the kernel does not answer for Landlock"
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
    """The start of a command line that runs the rest of it in a world of its own."""
    line = [shutil.which("bwrap") or "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    line += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    if identity(settings) is None:
        line.append("--unshare-user")
    else:
        # No user namespace: root of it would still be root to the files. The fork server keeps what it needs to make
        # its children somebody else and to end them, and nothing more.
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
