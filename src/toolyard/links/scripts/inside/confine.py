"""Confine a fork of the fork server before it runs a script: limits, uid, folder, and what the level denies."""

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


def move_fd_up(fd: int) -> int:
    """Move a descriptor to a high number, leaving the low ones to the children."""
    number = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    os.close(fd)
    return number


def open_readable_paths(config: Config) -> list[tuple[int, int]]:
    """Open, with the rights of the fork server, the paths that Landlock will allow its children."""
    if not config["landlock"]:
        return []
    rules = [(path, kernel.READ) for path in config["readable"]] + [(path, kernel.USE) for path in _DEVICES]
    return [(move_fd_up(os.open(path, os.O_PATH)), rights) for path, rights in rules if os.path.exists(path)]


def drop_privileges(config: Config) -> None:
    """Switch to the uid and gid of scripts, if they are configured."""
    if config["uid"] is not None:
        os.setgroups([])
        os.setresgid(config["gid"], config["gid"], config["gid"])
        os.setresuid(config["uid"], config["uid"], config["uid"])


def confine(config: Config, name: str, rules: list[tuple[int, int]]) -> None:
    """Give up everything that a script must not have. This is irreversible."""
    parent = os.getppid()
    _limit(config)
    os.umask(0o077)
    home = os.path.join(config["work"], name)
    if config["give"]:
        os.mkdir(home, 0o700)
        os.chown(home, config["uid"], config["gid"], follow_symlinks=False)
    drop_privileges(config)
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    kernel.set_dumpable(config["through"])
    if not config["give"]:
        os.mkdir(home, 0o700)
    os.chdir(home)
    os.environ.clear()
    os.environ.update({**config["env"], "HOME": home, "TMPDIR": home})
    kernel.drop_capabilities()
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


def find_unreadable_places(config: Config) -> list[str]:
    """The module folders that the uid of scripts cannot access."""
    if config["uid"] is None:
        return []
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        drop_privileges(config)
        bad = [str(number) for number, path in enumerate(sys.path) if not os.access(path, os.R_OK | os.X_OK)]
        os.write(writer, " ".join(bad).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        words = file.read().split()
    os.waitpid(pid, 0)
    return [sys.path[int(word)] for word in words if os.path.isdir(sys.path[int(word)])]


def import_through(places: list[str]) -> None:
    """Import from `places` through open descriptors, since their paths lead through a folder closed to scripts."""
    for place in places:
        fd = move_fd_up(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
        through = f"/proc/self/fd/{fd}"
        sys.path[:] = [through if entry == place else entry for entry in sys.path]
        for module in list(sys.modules.values()):
            path = getattr(module, "__path__", None)
            if isinstance(path, list):
                inside = [f"{entry}/".startswith(f"{place}/") for entry in path]
                path[:] = [through + at[len(place) :] if is_in else at for at, is_in in zip(path, inside, strict=True)]
    sys.path_importer_cache.clear()
