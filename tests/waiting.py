"""Waiting in tests: for a condition, the end of a process, or a signal to continue; and a clock set by hand."""

import os
import threading
import time
from pathlib import Path

SOON = float(os.environ.get("TOOLYARD_TEST_PATIENCE") or 60)
"""Seconds after which a test gives up on something that should happen immediately.

The only allowance for slow machines. It is generous, since passing tests never reach it; set the variable on an even
slower machine.
"""


def until(condition, within=None):
    """Wait until the condition holds and return True; fail the test if it does not in time."""
    limit = time.monotonic() + (SOON if within is None else within)
    pause = 0.001
    while not condition():
        assert time.monotonic() < limit, "it never came to pass"
        time.sleep(pause)
        # What takes long, such as the start of a process, needs the core that asking takes.
        pause = min(1.5 * pause, 0.02)
    return True


def is_alive(pid):
    """Whether a process is running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        # The second one if it ends between open and read.
        return False
    return state not in "ZX"


class Clock:
    """A clock that only moves when set."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class Hung:
    """Work that continues until it is released."""

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
