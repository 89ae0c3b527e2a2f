"""From a fork of the fork server to a process that may run a script: limits, uid, folder, and what the level denies."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys

from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Config = dict[str, Any]

_FIRST = 10
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def high(fd: int) -> int:
    """The same file under a number that leaves the low ones to the children."""
    number = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    os.close(fd)
    return number


def prepare(config: Config) -> list[tuple[int, int]]:
    """Open, with the rights of the fork server, what Landlock is to allow its children."""
    if not config["landlock"]:
        return []
    rules = [(path, kernel.READ) for path in config["readable"]] + [(path, kernel.USE) for path in _DEVICES]
    return [(high(os.open(path, os.O_PATH)), rights) for path, rights in rules if os.path.exists(path)]


def drop(config: Config) -> None:
    """Become whom scripts run as, if that is somebody else."""
    if config["uid"] is not None:
        os.setgroups([])
        os.setresgid(config["gid"], config["gid"], config["gid"])
        os.setresuid(config["uid"], config["uid"], config["uid"])


def confine(config: Config, name: str, rules: list[tuple[int, int]]) -> None:
    """Give up everything that a script is not to have. There is no way back."""
    parent = os.getppid()
    _limit(config)
    os.umask(0o077)
    home = os.path.join(config["work"], name)
    if config["give"]:
        os.mkdir(home, 0o700)
        os.chown(home, config["uid"], config["gid"], follow_symlinks=False)
    drop(config)
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    kernel.show_memory(config["through"])
    if not config["give"]:
        os.mkdir(home, 0o700)
    os.chdir(home)
    os.environ.clear()
    os.environ.update({**config["env"], "HOME": home, "TMPDIR": home})
    kernel.renounce()
    if config["landlock"]:
        kernel.landlock(rules, home)
        for fd, _ in rules:
            os.close(fd)
    if config["seccomp"]:
        kernel.filter_calls(by_path=config["own_files"])


def _limit(config: Config) -> None:
    limits = {
        resource.RLIMIT_AS: config["memory_bytes"],
        resource.RLIMIT_NOFILE: config["files"],
        resource.RLIMIT_NPROC: config["tasks"],
        resource.RLIMIT_FSIZE: config["file_bytes"],
        resource.RLIMIT_CORE: 0,
    }
    if config["cpu_seconds"] is not None:
        limits[resource.RLIMIT_CPU] = config["cpu_seconds"]
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def unreachable(config: Config) -> list[str]:
    """The places of modules that a process of the uid of scripts cannot reach."""
    if config["uid"] is None:
        return []
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        drop(config)
        bad = [str(number) for number, path in enumerate(sys.path) if not os.access(path, os.R_OK | os.X_OK)]
        os.write(writer, " ".join(bad).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        words = file.read().split()
    os.waitpid(pid, 0)
    return [sys.path[int(word)] for word in words if os.path.isdir(sys.path[int(word)])]


def look_through(places: list[str]) -> None:
    """Import from `places` by open folders from now on: their own path leads through a folder closed to scripts."""
    for place in places:
        fd = high(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
        through = f"/proc/self/fd/{fd}"
        sys.path[:] = [through if entry == place else entry for entry in sys.path]
        for module in list(sys.modules.values()):
            path = getattr(module, "__path__", None)
            if isinstance(path, list):
                inside = [f"{entry}/".startswith(f"{place}/") for entry in path]
                path[:] = [through + at[len(place) :] if is_in else at for at, is_in in zip(path, inside, strict=True)]
    sys.path_importer_cache.clear()
