"""System calls that the standard library lacks, and the ending of processes."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import time
from contextlib import suppress
from signal import SIGKILL, SIGSTOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_libc = ctypes.CDLL(None, use_errno=True)

_SWEEP_SECONDS = 4.0
_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 22, 36, 38
_CAPABILITY_VERSION, _CAPABILITY_BYTES = 0x20080522, 24
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ALL = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
READ = _EXECUTE | _READ_FILE | _READ_DIR
"""Landlock rights to read and execute."""
USE = _READ_FILE | _WRITE_FILE
"""Landlock rights for a device."""


def prctl(option: int, value: int) -> None:
    """Change one setting of this process."""
    zero = ctypes.c_ulong(0)
    _check_result(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def die_with_parent(number: int) -> None:
    """Receive a signal when the parent exits; a change of the uid cancels this."""
    prctl(_DEATH_SIGNAL, number)


def set_dumpable(is_shown: bool) -> None:
    """Set whether processes of the same uid may inspect this one; if not, its own `/proc/self` is inaccessible too."""
    prctl(_DUMPABLE, int(is_shown))


def adopt_orphans() -> None:
    """Adopt orphaned descendants as children of this process."""
    prctl(_SUBREAPER, 1)


def drop_capabilities() -> None:
    """Drop all capabilities, and never gain privileges by executing a program."""
    prctl(_NO_NEW_PRIVILEGES, 1)
    _check_result(_libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(_CAPABILITY_BYTES)), "capset")


def landlock_abi() -> int:
    """The ABI version of Landlock; 0 if it is not available."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))), 0)


def landlock(rules: list[tuple[int, int]], home: str) -> None:
    """Restrict files, TCP ports and processes to `rules` (pairs of an open path and its rights) and the home folder."""
    abi = landlock_abi()
    every = _ALL | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0) | (_IOCTL if abi >= 5 else 0)
    fields = [every] + ([3] if abi >= 4 else []) + ([3] if abi >= 6 else [])
    wish = struct.pack(f"={len(fields)}Q", *fields)
    made = _libc.syscall(_CREATE_RULESET, wish, ctypes.c_size_t(len(wish)), ctypes.c_uint32(0))
    ruleset = _check_result(made, "landlock")
    own = os.open(home, os.O_PATH | os.O_DIRECTORY)
    for fd, rights in [*rules, (own, every)]:
        allowed = rights & every
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            allowed &= _OF_FILES
        rule = struct.pack("=Qi", allowed, fd)
        _check_result(_libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0)), "landlock")
    _check_result(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock")
    os.close(own)
    os.close(ruleset)


def _check_result(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer


_NAMESPACES = 0x7E020000
_ARCHITECTURES = {"x86_64": (0xC000003E, 56, 302), "aarch64": (0xC00000B7, 220, 261)}
"""The architecture constant for seccomp, and the numbers of clone and prlimit64."""
_CLONE3 = 435
_DENIED = {
    "x86_64": (
        *(41, 101, 310, 311, 272, 308, 165, 166, 155, 161, 321, 298, 250, 248, 249, 323, 304),
        *(246, 320, 175, 313, 176, 312),
        *(141, 142, 144, 203, 314, 251, 256, 279),
        *(29, 30, 68, 64, 240),
        154,
    ),
    "aarch64": (
        *(198, 117, 270, 271, 97, 268, 40, 39, 41, 51, 280, 241, 219, 217, 218, 282, 265),
        *(104, 294, 105, 273, 106, 272),
        *(140, 118, 119, 122, 274, 30, 238, 239),
        *(194, 196, 186, 190, 180),
    ),
}
"""System calls to deny, line by line.

- socket, ptrace, process_vm_readv, process_vm_writev, unshare, setns, mount, umount2, pivot_root, chroot, bpf,
  perf_event_open, keyctl, add_key, request_key, userfaultfd, open_by_handle_at
- kexec_load, kexec_file_load, the three for kernel modules, kcmp
- calls that change how another process runs: setpriority, sched_setparam, sched_setscheduler, sched_setaffinity,
  sched_setattr, ioprio_set, migrate_pages, move_pages
- calls for objects that outlive a process: shmget, shmat, msgget, semget, mq_open
- modify_ldt
"""
_DENIED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 432, 433, 438, 440, 442, 448)
"""System calls with the same number on both architectures.

io_uring (three), which could create sockets past this filter; open_tree, move_mount, fsopen, fsmount, fspick,
pidfd_getfd, process_madvise, mount_setattr, process_mrelease.
"""
_DENIED_BY_PATH = {
    "x86_64": (90, 92, 94, 188, 189, 197, 198, 268, 260, 452, 463, 466),
    "aarch64": (53, 54, 5, 6, 14, 15, 452, 463, 466),
}
"""System calls that Landlock does not cover.

These are chmod, chown, lchown (x86_64 only), setxattr, lsetxattr, removexattr, lremovexattr, fchmodat, fchownat,
fchmodat2, setxattrat, removexattrat.
"""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_REFUSE, _MISSING = 0x00050000 | 1, 0x00050000 | 38


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def can_filter() -> bool:
    """Whether the system call numbers of this architecture are known."""
    return os.uname().machine in _ARCHITECTURES


def filter_calls(*, by_path: bool = False) -> None:
    """Deny system calls that no script needs.

    These are sockets, tracing, namespaces, mounts and kernel interfaces; calls that change how other processes run;
    memory and queues that outlive a process. `by_path` also denies changing modes, owners and attributes of files by
    path.
    """
    machine = os.uname().machine
    architecture, clone, prlimit = _ARCHITECTURES[machine]
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    # The x32 calls of x86_64 have different numbers; only an attempt to bypass the filter would use them.
    lines += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _REFUSE)]
    for number in (*_DENIED[machine], *_DENIED_EVERYWHERE, *(_DENIED_BY_PATH[machine] if by_path else ())):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _MISSING)]
    # Allow limits of the process itself, which is number 0, but of no other.
    lines += [(_EQUAL, 0, 4, prlimit), (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_RETURN, 0, 0, _ALLOW)]
    lines += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _NAMESPACES), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_RETURN, 0, 0, _ALLOW)]
    text = b"".join(struct.pack("=HBBI", *line) for line in lines)
    program, zero = ctypes.byref(_Program(len(lines), text)), ctypes.c_ulong(0)
    _check_result(_libc.prctl(_SECCOMP, ctypes.c_ulong(2), program, zero, zero), "seccomp")


def kill_group(pid: int) -> None:
    """Kill a process group; the kernel prevents forks from escaping it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, SIGKILL)


def kill_strangers(known: Collection[int]) -> bool:
    """Kill every child of this process except the `known`, and their descendants; False if that takes too long.

    Requires `adopt_orphans`: processes that left their group and lost their parent are then found here.
    """
    end = time.monotonic() + _SWEEP_SECONDS
    while strangers := _find_strangers(known):
        # All are stopped before any is killed: a killed process makes room for another fork, a stopped one does not.
        stopped: set[int] = set()
        while new := [pid for pid in strangers if pid not in stopped]:
            _send_signal(SIGSTOP, new)
            stopped.update(new)
            if time.monotonic() > end:
                break
            strangers = _find_strangers(known)
        _send_signal(SIGKILL, stopped)
        for pid in _children(os.getpid()):
            if pid in stopped:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            return False
    return True


def _find_strangers(known: Collection[int]) -> list[int]:
    """The children of this process that are not `known`, and all their descendants."""
    found = [pid for pid in _children(os.getpid()) if pid not in known]
    for pid in found:
        found.extend(_children(pid))
    return found


def _send_signal(number: int, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _children(pid: int) -> list[int]:
    try:
        found: list[int] = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        return found
    except OSError:
        # It has ended, or the kernel does not list children.
        return [other for other in _numbers() if _parent(other) == pid]


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
