"""No process is left: after closing, when the server ends, and when it is killed."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from waiting import SOON, until

from toolyard.links.scripts import ScriptFailed
from toolyard.model.errors import Unavailable

from .conftest import NAMING, named, script, soon

pytestmark = pytest.mark.process

PROGRAM = """
import sys, time, hashlib, threading
from toolyard.links.scripts import ScriptPool, WorkerSettings, Code
source = sys.argv[2].encode()
code = Code("a.py", hashlib.sha256(source).hexdigest(), source)
pool = ScriptPool(WorkerSettings(sandbox=sys.argv[1]), "scripts")
print(pool.call(code, "folder", {}, deadline=time.monotonic() + 30).value, flush=True)
thread = threading.Thread(target=lambda: pool.call(code, "run", {"name": sys.argv[3]}, deadline=time.monotonic() + 600), daemon=True)
thread.start()
if sys.argv[4] == "end":
    sys.stdin.read()
    sys.exit(0)
time.sleep(600)
"""
SCRIPT = (
    NAMING
    + """
import os, subprocess, time
def folder():
    return os.getcwd()
def run(name):
    call_yourself(name)
    if os.fork() == 0:
        os.setsid()
    time.sleep(600)
"""
)


@pytest.mark.parametrize("way", ["kill", "end", "terminate"])
def test_all_processes_end_however_the_server_ends(ending_level, way):
    name = uuid.uuid4().hex[:15]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ending_level, SCRIPT, name, way],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    with process:
        folder = process.stdout.readline().strip()
        until(lambda: len(named(name)) == 2)
        if way == "end":
            process.stdin.close()
        else:
            process.send_signal(signal.SIGKILL if way == "kill" else signal.SIGTERM)
        process.wait(SOON)
        assert until(lambda: not named(name))
        if ending_level != "bwrap":
            until(lambda: not Path(folder).parent.exists())


def test_closing_leaves_no_process_and_no_folder(pools, level):
    name = uuid.uuid4().hex[:15]
    pool = pools(level)
    code = script(SCRIPT)
    folder = pool.call(code, "folder", {}, deadline=soon()).value
    fork_server = pool._supervisor._fork_server._process.pid
    with pytest.raises(Exception, match="did not answer"):
        pool.call(code, "run", {"name": name}, deadline=soon(1))
    pool.close()
    assert not named(name)
    assert not Path(f"/proc/{fork_server}").exists()
    if level != "bwrap":
        assert not os.path.exists(os.path.dirname(folder))


def test_closing_while_workers_are_ended_lets_the_fork_server_end_by_itself(pools, ending_level):
    import threading

    code = script("import os\ndef run():\n    os._exit(3)\n")
    for _ in range(3):
        pool = pools(ending_level, workers=4)

        def work(pool=pool):
            while True:
                try:
                    pool.call(code, "run", {}, deadline=soon())
                except Unavailable:
                    return
                except ScriptFailed:
                    continue

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(
            lambda pool=pool: (
                pool._supervisor._fork_server is not None and pool._supervisor._fork_server.through is not None
            )
        )
        until(lambda pool=pool: len(pool._slots.gate.free) < 4)
        process = pool._supervisor._fork_server._process
        pool.close()
        assert process.returncode is not None and process.returncode != -signal.SIGKILL
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()


def test_a_thread_that_started_the_first_worker_may_end(pools, ending_level):
    import threading

    pool = pools(ending_level)
    code = script("import os\ndef run():\n    return os.getpid()\n")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(pool.call(code, "run", {}, deadline=soon()).value))
    thread.start()
    thread.join()
    until(lambda: not thread.is_alive())
    assert pool.call(code, "run", {}, deadline=soon()).value == seen[0]


def test_a_forked_process_has_workers_of_its_own(pools):
    pool = pools("rlimits", workers=1)
    code = script("import os\ncalls = 0\ndef run():\n    global calls\n    calls += 1\n    return os.getpid(), calls\n")
    first = pool.call(code, "run", {}, deadline=soon()).value
    program = """
import os, sys, time, hashlib
from toolyard.links.scripts import ScriptPool, WorkerSettings, Code
source = b"import os\\ncalls = 0\\ndef run():\\n    global calls\\n    calls += 1\\n    return os.getpid(), calls\\n"
code = Code("a.py", hashlib.sha256(source).hexdigest(), source)
pool = ScriptPool(WorkerSettings(sandbox="rlimits"), "scripts")
ask = lambda: pool.call(code, "run", {}, deadline=time.monotonic() + 30).value
mine = ask()
reader, writer = os.pipe()
if os.fork() == 0:
    theirs = ask()
    pool.close()
    os.write(writer, f"{theirs[0] != mine[0]} {theirs[1]}".encode())
    os._exit(0)
os.wait()
print(os.read(reader, 100).decode(), ask() == [mine[0], 2])
pool.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "1", "True"], done.stderr
    assert pool.call(code, "run", {}, deadline=soon()).value == [first[0], 2]
