"""The fork server: a clean interpreter that forks and ends workers, and never executes code of a script.

It reads nothing that a worker can write. When its parent is gone, it ends all workers and itself. `confine` takes from
a fork what the level denies, before it runs a script: limits, uid, folder, files and system calls.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress

from . import declarations, kernel, serving
from .kernel import kill_group, kill_strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .serving import Config

_PATIENCE = 5.0
_ROUND = 1000
_PRELOADED = ("array", "ast", "importlib", "re", "typing")
"""Modules that most scripts need besides those imported here; imported once for all workers."""
_ROLES = {"serve": serving.serve, "declare": declarations.serve}


class ForkServerProcess:
    """The workers, and the socket with the commands for them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._control = socket.socket(fileno=move_fd_up(config["control"]))
        self._wake, self._woken = (move_fd_up(fd) for fd in os.pipe())
        self._pids: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._faults: dict[str, str] = {}
        self._helpers: dict[int, str] = {}
        """Processes that delete the folders of workers, with the workers' names."""
        self._work = move_fd_up(os.open(config["work"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
        self._leaving = False
        self._rules: list[tuple[int, int]] = []

    def open(self) -> None:
        """Prepare to fork, and report readiness."""
        kernel.adopt_orphans()
        for fd in (self._wake, self._woken):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._leave)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._config["parent"] is not None:
            kernel.die_with_parent(signal.SIGTERM)
            self._leaving = os.getppid() != self._config["parent"]
        for name in _PRELOADED:
            __import__(name)
        sys.path.extend(self._config["path"])
        closed = find_unreadable_places(self._config)
        self._config["through"] = bool(closed)
        import_through(closed)
        self._rules = open_readable_paths(self._config)
        gc.collect()
        gc.freeze()
        self._control.send(serving.encode({"ready": True, "through": closed}).encode())

    def run(self) -> None:
        """Execute commands from the socket until it closes."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not self._leaving:
            ready = poll.poll(_ROUND if self._pids else None)
            if not ready:
                # An orphan is adopted without any signal, and scripts must not leave processes behind.
                self._kill_strangers()
            for fd, _ in ready:
                if fd == self._wake:
                    with suppress(BlockingIOError):
                        os.read(self._wake, 4096)
                    self._reap()
                else:
                    self._run_command()
        self._end_all()

    def _leave(self, *_: object) -> None:
        self._leaving = True

    def _run_command(self) -> None:
        data, fds, _, _ = socket.recv_fds(self._control, 65536, 4)
        if not data:
            self._leaving = True
            return
        message = serving.decode(data.decode())
        if message["do"] == "fork":
            self._fork(message["name"], message["role"], [move_fd_up(fd) for fd in fds])
        else:
            reply = serving.encode(self._end(message["name"])).encode()
            # If the other end is closed, the next read ends the loop.
            with suppress(OSError):
                self._control.send(reply)

    def _fork(self, name: str, role: str, fds: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            pid = -1
            self._faults[name] = f"a process could not be forked: {error.strerror}"
        if pid == 0:
            self._run_worker(name, role, fds)
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self._pids[name] = pid

    def _run_worker(self, name: str, role: str, fds: list[int]) -> None:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            for fd, place in zip(fds, (3, 4, 1, 2), strict=True):
                os.dup2(fd, place, inheritable=place < 3)
                os.close(fd)
            self._control.close()
            for fd in (self._wake, self._woken, self._work):
                os.close(fd)
            gc.unfreeze()
            try:
                confine(self._config, name, self._rules)
            except OSError as error:
                why = serving.encode({"broken": f"a worker could not be confined: {error}"})
                serving.write_frame(serving.OUT, why.encode())
            else:
                _ROLES[role](self._config)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        pids = {pid: name for name, pid in self._pids.items()}
        died = False
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                self._remove_emptied(pid)
                if pid in pids:
                    died = True
                    self._record_exit(pids[pid], status)
                    kill_group(pid)
        if died:
            self._kill_strangers()

    def _record_exit(self, name: str, status: int) -> None:
        self._pids.pop(name, None)
        self._ended[name] = os.waitstatus_to_exitcode(status)

    def _kill_strangers(self) -> bool:
        return kill_strangers({*self._pids.values(), *self._helpers})

    def _end(self, name: str) -> dict[str, Any]:
        pid = self._pids.get(name)
        has_ended = pid is None or self._kill(name, pid)
        clean = self._kill_strangers() and has_ended
        self._remove(name)
        fault = self._faults.pop(name, None)
        return {"name": name, "status": self._ended.pop(name, None), "clean": clean, "fault": fault}

    def _kill(self, name: str, pid: int) -> bool:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            # Check before sending the signal: the status shows how a process ended by itself.
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._record_exit(name, status)
            kill_group(pid)
            if done:
                return True
            time.sleep(0.0005)
        return False

    def _remove(self, name: str) -> None:
        try:
            os.rmdir(name, dir_fd=self._work)
        except FileNotFoundError:
            return
        except OSError:
            # Deleted with the rights of the script, since its content may be a trap for a process with more rights.
            try:
                pid = os.fork()
            except OSError:
                # Scripts have used up the process limit; the parent deletes the rest.
                return
            if pid == 0:
                try:
                    drop_privileges(self._config)
                    import shutil

                    shutil.rmtree(os.path.join(self._config["work"], name), ignore_errors=True)
                finally:
                    os._exit(0)
            self._helpers[pid] = name

    def _remove_emptied(self, pid: int) -> None:
        """Remove a folder that a helper has emptied."""
        name = self._helpers.pop(pid, None)
        if name is not None:
            with suppress(OSError):
                os.rmdir(name, dir_fd=self._work)

    def _end_all(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for name in list(self._pids):
            self._end(name)
        for pid in list(self._helpers):
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            self._remove_emptied(pid)
        self._kill_strangers()
        if self._config["parent"] is not None:
            with suppress(OSError):
                os.rmdir(self._config["work"])


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


def main(config: Config) -> None:
    """The main function of the process."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    fork_server = ForkServerProcess(config)
    fork_server.open()
    fork_server.run()
    # Nothing is left to end or to flush, and interpreter shutdown would take longer than that.
    os._exit(0)
