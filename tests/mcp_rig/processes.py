"""Servers as processes of their own: started, found by a mark, killed, and gone afterwards."""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

from waiting import SOON, until
from warm_python import warm_toolyard

HERE = Path(__file__).resolve().parent
START = 2 * SOON
"""Seconds for a process to start on a machine that is busy."""
MARK = "TOOLYARD_RIG_MARK"


def new_mark():
    """An environment that makes a process, and all it starts, known by."""
    return {MARK: uuid.uuid4().hex}


def alive(mark):
    """The ids of the processes with this mark; one that is dead and not yet fetched does not count."""
    wanted, found = f"{MARK}={mark[MARK]}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                found += [] if state in "ZX" else [int(folder.name)]
        except OSError:  # it ended meanwhile, or is not ours to look at
            continue
    return found


def kill(mark):
    """End them without a warning; the ids of those that were ended."""
    ended = alive(mark)
    for number in ended:
        os.kill(number, signal.SIGKILL)
    return ended


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def listens(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@contextmanager
def listening(command, env, port):
    """A server that is told its port, once it listens there."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        limit = time.monotonic() + START
        while not listens(port):
            assert process.poll() is None, f"it ended: {command}"
            assert time.monotonic() < limit, f"it never listened: {command}"
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        _ended(process)


@contextmanager
def telling(command, env=None, cwd=None):
    """A server that says `{"url": ...}` on its first line; the url and the process."""
    words = [str(word) for word in command]
    # A mark is looked for in what a process was started with, which a fork has of its parent.
    start = subprocess.Popen if MARK in (env or {}) or words[0] != sys.executable else warm_toolyard().start
    process = start(
        words if start is subprocess.Popen else words[1:],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(START), "it never said that it is ready"
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line)["url"], process
    finally:
        process.terminate()
        _ended(process)
        process.stdout.close()
        process.stderr.close()


def _ended(process):
    try:
        process.wait(START)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def gone(mark):
    """Wait until none is left."""
    return until(lambda: not alive(mark))


def hostile(way, listing):
    """The command of a server that means no good."""
    return [sys.executable, str(HERE / "hostile_server.py"), way, listing]


def toolyard(*words):
    """The command line of ours."""
    return [sys.executable, "-m", "toolyard", *map(str, words)]
