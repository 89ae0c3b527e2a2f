"""Server processes: started, found by a mark in their environment, and killed."""

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
    """An environment that marks a process and all its descendants."""
    return {MARK: uuid.uuid4().hex}


def find_running(mark):
    """Ids of the processes with this mark, without zombies."""
    wanted, found = f"{MARK}={mark[MARK]}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                found += [] if state in "ZX" else [int(folder.name)]
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def kill_all(mark):
    """Kill them with SIGKILL; returns their ids."""
    ended = find_running(mark)
    for number in ended:
        os.kill(number, signal.SIGKILL)
    return ended


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_listening(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@contextmanager
def start_port_server(command, env, port):
    """A server that gets its port as an argument; gives it once it listens."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        limit = time.monotonic() + START
        while not is_listening(port):
            assert process.poll() is None, f"it ended: {command}"
            assert time.monotonic() < limit, f"it never listened: {command}"
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        _wait_or_kill(process)


@contextmanager
def start_url_server(command, env=None, cwd=None):
    """A server that prints `{"url": ...}` on its first line; gives the URL and the process."""
    words = [str(word) for word in command]
    # Marks are read from a process's initial environment, which a fork shares with its parent.
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
        _wait_or_kill(process)
        process.stdout.close()
        process.stderr.close()


def _wait_or_kill(process):
    try:
        process.wait(START)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_gone(mark):
    """Wait until none is left."""
    return until(lambda: not find_running(mark))


def hostile_command(way, listing):
    """The command of a hostile server."""
    return [sys.executable, str(HERE / "hostile_server.py"), way, listing]


def toolyard_command(*words):
    """The command line of toolyard."""
    return [sys.executable, "-m", "toolyard", *map(str, words)]
