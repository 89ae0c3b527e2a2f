"""What the kernel is asked for that the standard library has no words for, and the end of processes."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import time
from contextlib import suppress
from signal import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_libc = ctypes.CDLL(None, use_errno=True)

_SWEEP_SECONDS = 2.0
_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 4, 22, 36, 38
_CAPABILITY_VERSION, _CAPABILITY_BYTES = 0x20080522, 24
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ALL = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
READ = _EXECUTE | _READ_FILE | _READ_DIR
"""Landlock rights: look, and run."""
USE = _READ_FILE | _WRITE_FILE
"""Landlock rights: a device."""


def prctl(option: int, value: int) -> None:
    """One setting of this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def die_with_parent(number: int) -> None:
    """Get a signal when the parent ends; changing the uid undoes it."""
    prctl(_DEATH_SIGNAL, number)


def show_memory(is_shown: bool) -> None:
    """Whether others of the same uid may look into this process; if not, its own `/proc/self` is useless to it, too."""
    prctl(_DUMPABLE, int(is_shown))


def adopt_orphans() -> None:
    """Whoever loses its parent below this process becomes its child."""
    prctl(_SUBREAPER, 1)


def renounce() -> None:
    """Have no capability of any kind, and never gain privileges again, whatever is executed."""
    prctl(_NO_NEW_PRIVILEGES, 1)
    _checked(_libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(_CAPABILITY_BYTES)))


def landlock_abi() -> int:
    """The version of Landlock that answers here; 0 if none does."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))), 0)


def landlock(rules: list[tuple[int, int]], home: str) -> None:
    """Touch files, TCP ports and processes only as `rules` (an open path, its rights) and the own folder allow."""
    abi = landlock_abi()
    every = _ALL | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0) | (_IOCTL if abi >= 5 else 0)
    fields = [every] + ([3] if abi >= 4 else []) + ([3] if abi >= 6 else [])
    wish = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, wish, ctypes.c_size_t(len(wish)), ctypes.c_uint32(0)))
    own = os.open(home, os.O_PATH | os.O_DIRECTORY)
    for fd, rights in [*rules, (own, every)]:
        allowed = rights & every
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            allowed &= _OF_FILES
        rule = struct.pack("=Qi", allowed, fd)
        _checked(_libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0)))
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    os.close(own)
    os.close(ruleset)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


_NAMESPACES = 0x7E020000
_ARCHITECTURES = {"x86_64": (0xC000003E, 56, 302), "aarch64": (0xC00000B7, 220, 261)}
"""What the kernel calls it, and its numbers of clone and prlimit64."""
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
"""Line by line: socket, ptrace, process_vm_readv, process_vm_writev, unshare, setns, mount, umount2, pivot_root,
chroot, bpf, perf_event_open, keyctl, add_key, request_key, userfaultfd, open_by_handle_at;
kexec_load, kexec_file_load, the three of kernel modules, kcmp;
what changes how another process runs: setpriority, sched_setparam, sched_setscheduler, sched_setaffinity,
sched_setattr, ioprio_set, migrate_pages, move_pages;
what outlives a process: shmget, shmat, msgget, semget, mq_open;
modify_ldt."""
_DENIED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 432, 433, 438, 440, 442, 448)
"""io_uring (three), which could make sockets unseen; open_tree, move_mount, fsopen, fsmount, fspick, pidfd_getfd,
process_madvise, mount_setattr, process_mrelease."""
_DENIED_BY_PATH = {
    "x86_64": (90, 92, 94, 188, 189, 197, 198, 268, 260, 452, 463, 466),
    "aarch64": (53, 54, 5, 6, 14, 15, 452, 463, 466),
}
"""What Landlock does not ask about: chmod, chown, lchown (x86_64 only), setxattr, lsetxattr, removexattr,
lremovexattr, fchmodat, fchownat, fchmodat2, setxattrat, removexattrat."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_REFUSE, _MISSING = 0x00050000 | 1, 0x00050000 | 38


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def can_filter() -> bool:
    """Whether the numbers of the system calls are known here."""
    return os.uname().machine in _ARCHITECTURES


def filter_calls(*, by_path: bool = False) -> None:
    """Refuse system calls that no script needs.

    Every socket, tracing, namespaces, mounts, kernel interfaces; whatever changes how other processes run; memory and
    queues that would outlive them. `by_path` refuses also to change modes, owners and attributes of files by path.
    """
    machine = os.uname().machine
    architecture, clone, prlimit = _ARCHITECTURES[machine]
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    # The x32 calls of x86_64 have numbers of their own; nothing uses them but those who look for a way around.
    lines += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _REFUSE)]
    for number in (*_DENIED[machine], *_DENIED_EVERYWHERE, *(_DENIED_BY_PATH[machine] if by_path else ())):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _MISSING)]
    # Limits of the process itself, which is number 0, and of nobody else.
    lines += [(_EQUAL, 0, 4, prlimit), (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_RETURN, 0, 0, _ALLOW)]
    lines += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _NAMESPACES), (_RETURN, 0, 0, _REFUSE)]
    lines += [(_RETURN, 0, 0, _ALLOW)]
    text = b"".join(struct.pack("=HBBI", *line) for line in lines)
    program = _Program(len(lines), text)
    if _libc.prctl(_SECCOMP, ctypes.c_ulong(2), ctypes.byref(program), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def end_group(pid: int) -> None:
    """Everybody in a process group; the kernel lets nobody fork away from that."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, SIGKILL)


def sweep(known: Collection[int]) -> bool:
    """End every child of this process but the `known`, and what they leave behind; False if there is no end to it.

    Needs `adopt_orphans`: then whoever got out of a group by losing its parent is found here.
    """
    end = time.monotonic() + _SWEEP_SECONDS
    while strangers := [pid for pid in _children() if pid not in known]:
        for pid in strangers:
            end_group(pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGKILL)
        for pid in strangers:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            return False
    return True


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return [pid for pid in _numbers() if _parent(pid) == me]


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
