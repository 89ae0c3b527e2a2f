"""What scripts are kept from, level by level.

What a script tries                    bwrap        landlock     rlimits
-------------------------------------  -----------  -----------  --------------------------------
a secret of the server's environment   not there    denied       denied if root started the server
a file of the server's owner, 0600     not there    denied       denied if root started the server
a file that everybody may read         not there    denied       readable
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
memory, queues of System V and POSIX   denied (1)   denied (1)   denied (1)
 that outlive the process
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

At level rlimits, a server that root did not start and its scripts are one user: a script can read and end what that
user can, the server itself included. That level keeps accidents apart, not enemies.

What no level limits: the memory of all processes of one script together (each has its own limit), how much is
written to disk in many files (but at level bwrap: `file_bytes` in all), and what one script does to its own later
calls in the same worker (`calls_per_worker: 1` does).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

from toolyard.links.scripts.inside import kernel
from toolyard.links.scripts.places import identity, interpreter, readable
from toolyard.links.scripts.settings import Level, WorkerSettings
from toolyard.model.errors import ConfigError

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
        for parent in _parents(path):
            if parent not in made:
                made.add(parent)
                line += ["--perms", "0755", "--dir", parent]
        if os.path.islink(path) and os.path.isdir(path):
            line += ["--symlink", os.readlink(path), path]
        else:
            line += ["--ro-bind", os.path.realpath(path), path]
    return [*line, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]  # noqa: S108


def _parents(path: str) -> list[str]:
    parts = path.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: number + 1]) for number in range(len(parts))]
