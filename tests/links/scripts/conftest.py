"""Scripts and pools for tests of workers: real processes, at every sandbox level this machine supports."""

import hashlib
import os
import textwrap
import time
from pathlib import Path

import pytest
from waiting import SOON

from conftest import chosen_way, ways_to_try
from toolyard.links.scripts import LEVELS, Code, ScriptPool, WorkerSettings, find_obstacle

AVAILABLE = [level for level in LEVELS if find_obstacle(level) is None]
IS_ROOT = os.geteuid() == 0


def soon(seconds=SOON):
    """A deadline."""
    return time.monotonic() + seconds


def script(text, file="script.py"):
    """A script with this text."""
    source = textwrap.dedent(text).encode()
    return Code(file, hashlib.sha256(source).hexdigest(), source)


def is_alive(pid):
    """Whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def named(name):
    """Ids of all processes with this name."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name and is_alive(entry.name):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


NAMING = """
import ctypes
def call_yourself(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
"""


@pytest.fixture
def pools():
    """Creates pools and closes them."""
    made = []

    def make(sandbox="auto", label="test scripts", **settings):
        pool = ScriptPool(WorkerSettings(sandbox=sandbox, **settings), label)
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.close()


@pytest.fixture(scope="module")
def kept_pool():
    """One pool for tests that need no other than all have."""
    pool = ScriptPool(WorkerSettings(), "test scripts")
    yield pool
    pool.close()


@pytest.fixture(params=AVAILABLE)
def level(request):
    """Every sandbox level that this machine supports."""
    return request.param


WITHOUT_BWRAP = [level for level in AVAILABLE if level != "bwrap"]


@pytest.fixture(params=[*AVAILABLE[: -len(WITHOUT_BWRAP)], *ways_to_try(*WITHOUT_BWRAP)])
def ending_level(request):
    """A level for tests of ending and limiting scripts; the two without bwrap share that code, so either suffices."""
    return chosen_way(request)


@pytest.fixture
def pool(pools, level):
    """A pool of one level."""
    return pools(level)
