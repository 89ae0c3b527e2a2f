"""Waiting in tests: for something to come to pass, for a process to end, for a sign to go on; or for no time at all."""

import os
import threading
import time
from pathlib import Path

SOON = float(os.environ.get("TOOLYARD_TEST_PATIENCE") or 60)
"""Seconds after which what should have happened at once never will.

The one place that says how slow a machine may be: a test that passes never waits for so long, so it is generous, and
whoever has a slower machine sets the variable.
"""


def until(condition, within=None):
    """Wait for it; True when it has come to pass, a failure if it never does."""
    limit = time.monotonic() + (SOON if within is None else within)
    while not condition():
        assert time.monotonic() < limit, "it never came to pass"
        time.sleep(0.002)
    return True


def is_alive(pid):
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        # The second where it ends between being opened and being read.
        return False
    return state not in "ZX"


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class Hung:
    """Work that goes on until it is told to end."""

    def __init__(self):
        self.began = threading.Event()
        self.end = threading.Event()
        self.ended = False

    def __call__(self):
        self.began.set()
        told = self.end.wait(SOON)
        self.ended = True
        assert told
        return "ended"
