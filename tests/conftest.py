"""Shared by all tests: test data, hypothesis profiles, and the check which tests start processes."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

SOAK = bool(os.environ.get("TOOLYARD_SOAK"))
"""True in `make soak`: all combinations, and new random draws each time."""

_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same draws in every run, so that a failure is due to the change under test and not to a new draw.
_EXAMPLES = 15
settings.register_profile("test", **_UNHURRIED, derandomize=True, max_examples=_EXAMPLES)
settings.register_profile("soak", **_UNHURRIED, max_examples=1000)
settings.load_profile("soak" if SOAK else "test")

# A shell's background process ignores SIGINT, and so would its children, to which some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
CORPUS = Path(os.environ.get("TOOLYARD_CORPUS") or DATA)
"""Root of a larger corpus of the same layout, if the environment names one, else the shipped data."""


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Folders with real test data, the shipped one first; never empty."""
    return [DATA, *([CORPUS] if CORPUS != DATA else [])]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """DSN of this test process's only server. If it cannot start, the test fails rather than being skipped.

    Defined here because a fixture imported by several modules would be a separate one in each.
    """
    from sessions.postgres_server import running_postgres

    with running_postgres() as dsn:
        yield dsn


def material(pattern: str) -> list[Path]:
    """Test data files by glob, from the corpus that `TOOLYARD_CORPUS` names, else from the shipped sample."""
    return sorted(CORPUS.glob(pattern)) or sorted(DATA.glob(pattern))


def examples(number: int) -> int:
    """The example count for a test that sets its own, such as a state machine: ten times `number` in `make soak`."""
    return number * 10 if SOAK else min(number, _EXAMPLES)


def ways_to_try(*ways: str) -> list[str]:
    """Fixture parameters for variants that run the same code: all of them in `make soak`, else one chosen per test."""
    return list(ways) if SOAK else ["|".join(ways)]


def chosen_way(request: pytest.FixtureRequest) -> str:
    """The variant for a test with `ways_to_try`; varies between tests, but is stable for each."""
    return _choose_way(request.param, request.node.nodeid)


def _choose_way(parameter: str, nodeid: str) -> str:
    ways = parameter.split("|")
    return ways[crc32(nodeid.encode()) % len(ways)]


def in_pairs(**choices: Collection[str]) -> pytest.MarkDecorator:
    """Parameters of which any two values meet in some test; in `make soak`, all that there are.

    For three or more parameters, where a fault needs no more than two of them.
    """
    rows = list(product(*choices.values()))
    if not SOAK:
        pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
        missing, rows = set().union(*pairs.values()), []
        while missing:
            rows.append(max(pairs, key=lambda row: len(pairs[row] & missing)))
            missing -= pairs[rows[-1]]
    return pytest.mark.parametrize(tuple(choices), rows)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Freeze the million objects that collection creates, so that no later garbage collection, or fork, scans them; and
    collect less often, which takes a tenth of the time of some folders otherwise.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Drop four of the six messages that xdist workers send per test: start, end, and successful setup and teardown. They
    take a third of the time of a short test. What the others say of keywords nobody reads.
    """
    for worker in config.pluginmanager.get_plugins():
        if (send := getattr(worker, "sendevent", None)) is not None and config.option.durations is None:
            worker.sendevent = partial(_send_what_matters, send)


def _send_what_matters(send: Callable[..., None], name: str, **told: Any) -> None:
    if name in ("logstart", "logfinish"):
        return
    report = told.get("data", {})
    if report.get("when", "call") == "call" or report["outcome"] != "passed":
        report["keywords"] = {}
        send(name, **told)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files for workers, as by `--dist loadfile`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from file_scheduling import FileScheduling

    return FileScheduling(config, log)


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
        values = callspec.params.values() if callspec else ()
        names = {_choose_way(value, item.nodeid) for value in values if isinstance(value, str)}
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


_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})
_not_seen = dict.fromkeys(_STARTS)
# Python asks its hooks about every `id` and every open file; a method of `dict` answers in half the time of a function.
sys.addaudithook(_not_seen.pop)


def list_starts() -> list[str]:
    """The ways by which the current test has started processes, since `forget_starts`."""
    return sorted(_STARTS - _not_seen.keys())


def forget_starts() -> None:
    _not_seen.update(dict.fromkeys(_STARTS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None):
    forget_starts()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item):
    """Fail a test that starts a process without the `process` mark, by which `make check` excludes it."""
    result = yield
    if (starts := list_starts()) and item.get_closest_marker("process") is None:
        pytest.fail(f"this test starts a process; mark it, or its module, with pytest.mark.process: {starts}")
    return result
