"""System calls denied at every level: those that reach other processes, and those that outlive a process."""

import os
import stat
import subprocess
import sys
from itertools import product

import pytest

from ..conftest import IS_ROOT, script, soon

OTHERS = """
    import ctypes, os, resource
    libc = ctypes.CDLL(None, use_errno=True)

    def end(attempt):
        ctypes.set_errno(0)
        try:
            answer = attempt()
        except OSError as error:
            return type(error).__name__
        return "refused" if answer == -1 and ctypes.get_errno() == 1 else repr(answer)

    def limits(pid):
        return end(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))

    def looks(pid):
        return end(lambda: resource.prlimit(pid, resource.RLIMIT_CPU))

    def priority(pid):
        return end(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))

    def processors(pid):
        return end(lambda: os.sched_setaffinity(pid, {0}))

    def scheduler(pid):
        return end(lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))

    def parameters(pid):
        return end(lambda: os.sched_setparam(pid, os.sched_param(0)))

    def pages(pid):
        return end(lambda: libc.syscall(NUMBERS[os.uname().machine][0], pid, 0, None, None))

    def disk(pid):
        return end(lambda: libc.syscall(NUMBERS[os.uname().machine][1], 1, pid, 0))

    def advice(pid):
        return end(lambda: libc.syscall(440, pid, None, 0, 0, 0))

    NUMBERS = {"x86_64": (256, 251), "aarch64": (238, 30)}

    def own():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft - 1

    def left_behind():
        return [
            end(lambda: libc.shmget(0, 4096, 0o1600)), end(lambda: libc.msgget(0, 0o1600)),
            end(lambda: libc.semget(0, 1, 0o1600)), end(lambda: libc.syscall(MQ_OPEN[os.uname().machine], b"q", 0o102, 0o600, None)),
        ]

    MQ_OPEN = {"x86_64": 240, "aarch64": 180}

    def capabilities():
        header = ctypes.create_string_buffer((0x20080522).to_bytes(4, "little") + bytes(4), 8)
        data = ctypes.create_string_buffer(24)
        return [libc.capget(header, data), data.raw.hex()]

    def rename():
        work = os.path.dirname(os.getcwd())
        return end(lambda: os.rename(work, work + "x"))
"""
VICTIM = script(
    "import os, resource\ndef run():\n    return os.getpid(), resource.getrlimit(resource.RLIMIT_CPU)\n", "v.py"
)


def test_no_script_changes_how_another_process_runs(pools, level):
    pool = pools(level, workers=2)
    pid, limit = pool.call(VICTIM, "run", {}, deadline=soon()).value
    ways = ("limits", "looks", "priority", "processors", "scheduler", "parameters", "pages", "disk", "advice")
    for way, number in product(ways, (pid, os.getpid(), pool._supervisor._fork_server._process.pid)):
        end = pool.call(script(OTHERS), way, {"pid": number}, deadline=soon()).value
        assert end in ("PermissionError", "refused"), way
    assert pool.call(VICTIM, "run", {}, deadline=soon()).value == [pid, limit]


def test_a_script_may_lower_its_own_limits(pool):
    assert pool.call(script(OTHERS), "own", {}, deadline=soon()).value is True


def test_nothing_of_system_v_or_posix_queues_is_left_behind(pool):
    assert pool.call(script(OTHERS), "left_behind", {}, deadline=soon()).value == ["refused"] * 4


def test_a_script_has_no_capability_of_any_kind(pool):
    assert pool.call(script(OTHERS), "capabilities", {}, deadline=soon()).value == [0, "00" * 24]


@pytest.mark.skipif(not IS_ROOT, reason="without root, scripts and server are one user")
def test_the_folder_around_those_of_the_workers_is_not_theirs(pools):
    pool = pools("rlimits", workers=1)
    assert pool.call(script(OTHERS), "rename", {}, deadline=soon()).value == "PermissionError"
    folder = os.stat(pool._supervisor._fork_server._folder)
    assert (folder.st_uid, stat.S_IMODE(folder.st_mode)) == (0, 0o711)


ENDING = """
import os, threading, time
from toolyard.links.scripts.inside import kernel

def fork_chain(length):
    # Each process in a session of its own, with the next one as the child of one of its threads.
    os.setsid()
    if length:
        threading.Thread(target=lambda: time.sleep(600) if os.fork() else fork_chain(length - 1)).start()
    else:
        os.write(ready, b".")
    time.sleep(600)

kernel.adopt_orphans()
reader, ready = os.pipe()
if os.fork() == 0:
    fork_chain(12)
os.read(reader, 1)
sent, send = [], kernel._send_signal
kernel._send_signal = lambda number, pids: sent.append((number.name, len(pids))) or send(number, pids)
print(kernel.kill_strangers(()), *sent[0], *sent[1], max(count for _, count in sent))
"""


@pytest.mark.process
def test_all_generations_of_a_process_are_stopped_before_any_is_killed():
    shown = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", "SIGSTOP", "13", "SIGKILL", "13", "13"]
