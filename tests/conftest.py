"""Shared by all tests: where real material lies, how hard hypothesis works, and who may start processes."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

SOAK = bool(os.environ.get("TOOLYARD_SOAK"))
"""Whether this is `make soak`: every combination, and new draws each time."""

_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same draws in every run: whoever runs the tests of a change learns of that change, not of a lucky draw.
_EXAMPLES = 15
settings.register_profile("test", **_UNHURRIED, derandomize=True, max_examples=_EXAMPLES)
settings.register_profile("soak", **_UNHURRIED, max_examples=1000)
settings.load_profile("soak" if SOAK else "test")

# What a shell starts in the background ignores interrupts, and so would all that it starts; some tests send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
CORPUS = Path(os.environ.get("TOOLYARD_CORPUS") or DATA)
"""A larger corpus of the same layout, where whoever runs the tests names one."""


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Folders with real material, the copy shipped with the project first; never empty."""
    return [DATA, *([CORPUS] if CORPUS != DATA else [])]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """DSN of the one server of this test process; one that cannot start fails the test, it is not skipped.

    A fixture that modules import is another one in each, so this stands where all find it.
    """
    from sessions.postgres_server import running_postgres

    with running_postgres() as dsn:
        yield dsn


def material(pattern: str) -> list[Path]:
    """Files of real material by glob: those of the corpus that `TOOLYARD_CORPUS` names, else the shipped sample."""
    return sorted(CORPUS.glob(pattern)) or sorted(DATA.glob(pattern))


def examples(number: int) -> int:
    """How many examples a test draws that has a number of its own, as a state machine has: ten times as many in `make soak`."""
    return number * 10 if SOAK else min(number, _EXAMPLES)


def ways_to_try(*ways: str) -> list[str]:
    """Parameters of a fixture for ways that run the same code: all of them in `make soak`, else one for each test."""
    return list(ways) if SOAK else ["|".join(ways)]


def chosen_way(request: pytest.FixtureRequest) -> str:
    """The way that `ways_to_try` means: another one for another test, and always the same for the same."""
    ways = request.param.split("|")
    return ways[crc32(request.node.nodeid.encode()) % len(ways)]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collecting makes a million objects that stay: nobody looks through them for garbage, then or later, nor does any fork."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Of the six messages that a process of tests sends for each, three are for nobody: where one starts, and that it was set up and cleaned up without a fault. They take a third of the time of a short test."""
    for worker in config.pluginmanager.get_plugins():
        if (send := getattr(worker, "sendevent", None)) is not None and config.option.durations is None:
            worker.sendevent = partial(_send_what_matters, send)


def _send_what_matters(send: Callable[..., None], name: str, **told: Any) -> None:
    report = told.get("data", {})
    if name != "logstart" and (report.get("when", "call") == "call" or report["outcome"] != "passed"):
        send(name, **told)


_STARTING_FIXTURES = {"certificate", "pools", "postgres", "sdk_server"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is for another environment is left to the command that makes it. Whatever uses a fixture that starts a process is marked with `process`, as is a test at its parameter.

    Files with such tests wait for much of their time, so they are spread among the others, which use the cores meanwhile; the last quarter of those comes at the end, where no slow one may be left over alone.
    """
    marks = {item: item.get_closest_marker("elsewhere") for item in items}
    if absent := [item for item, mark in marks.items() if mark is not None and not mark.args[0]]:
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in set(absent)]
    for item in items:
        callspec = getattr(item, "callspec", None)
        names = {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()
        if _STARTING_FIXTURES & names.union(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
    slow = dict.fromkeys(item.path for item in items if item.get_closest_marker("process"))
    quick = dict.fromkeys(item.path for item in items if item.path not in slow)
    turns = {
        path: place / len(files) * share
        for files, share in ((slow, 0.75), (quick, 1))
        for place, path in enumerate(files)
    }
    items.sort(key=lambda item: turns[item.path])


_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
_HERE = os.getpid()
started: list[str] = []
"""What the test that runs has started so far."""


def _note_start(event: str, arguments: tuple[object, ...]) -> None:
    # A hook stays in the children of a fork, where nobody asks.
    if event in _STARTS and os.getpid() == _HERE:
        started.append(f"{event} {arguments[:2]!r:.200}")


sys.addaudithook(_note_start)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None):
    started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item):
    """`make check` leaves out what starts processes, so whatever does has to say so."""
    result = yield
    if started and item.get_closest_marker("process") is None:
        pytest.fail(f"this test starts a process; mark it, or its module, with pytest.mark.process: {started[0]}")
    return result
