"""What a run leaves to be known: which cassettes it has begun anew, which tests went well, what has drifted."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MARK = "toolyard_cassette"
"""The marker, and the fixture behind it."""
_GIVEN = "toolyard_marks"
_MARKS: pytest.StashKey[Path] = pytest.StashKey()


class SharedMarks:
    """Makes a folder for the marks of a run that pytest-xdist spreads over processes, and removes it."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a process that is about to run tests where the marks are."""
        node.workerinput[_GIVEN] = str(_marks_folder(node.config))

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Remove what this process has made."""
        made = config.stash.get(_MARKS, None)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _marks_folder(config: pytest.Config) -> Path:
    given = getattr(config, "workerinput", {}).get(_GIVEN)
    if given is not None:
        return Path(given)
    if _MARKS not in config.stash:
        config.stash[_MARKS] = Path(tempfile.mkdtemp(prefix="toolyard-"))
    return config.stash[_MARKS]


def put_in_place(tape: Path, path: Path, config: pytest.Config) -> None:
    """Let a new tape take the place of the old cassette, or add it to what the run has recorded there already."""
    with _open_mark(path, config) as mark:
        if os.fstat(mark).st_size == 0:
            os.replace(tape, path)
            os.write(mark, b"begun")
            return
        with path.open("ab") as cassette:
            cassette.write(tape.read_bytes())


@contextmanager
def _open_mark(path: Path, config: pytest.Config) -> Iterator[int]:
    """The cassette's mark, for nobody else meanwhile; empty before the run has begun it."""
    name = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()
    descriptor = os.open(_marks_folder(config) / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Closing the file lets go of it. Windows has no such lock; there, one process a cassette.
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


_FAILED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what failed."""
    report = yield
    if report.when != "teardown" and not report.passed:
        item.stash[_FAILED] = True
    return report


TAPED: pytest.StashKey[Any] = pytest.StashKey()
"""The cassette of a marked test."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a marked test none of whose calls a cassette could have answered: it ran live, and would again."""
    result = yield
    taped = item.stash.get(TAPED, None)
    if taped is not None and taped.unused:
        pytest.fail(
            f"marked {MARK}, but no call of it went through a cassette: what it called, it called live. Calls of "
            "engines do (execute, simulate, a served yard), but not registry.dispatch, an engine in another process, "
            "or one with an execute of its own; give that to toolyard_cassette.engine(...), or take the marker away",
            pytrace=False,
        )
    return result


def went_well(item: pytest.Item) -> bool:
    """True if nothing of the test has failed or been skipped so far."""
    return not item.stash.get(_FAILED, False)


DRIFT = "toolyard_drift"
"""The property of a test's report under which its lines travel."""
_SHOWN = 20


class DriftSummary:
    """Collects from reports, which come to the controller also where tests run in other processes."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the lines of a test that is over."""
        if report.when == "teardown":
            lines = [str(value) for name, value in report.user_properties if name == DRIFT]
            if lines:
                self._found[report.nodeid] = lines

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell them."""
        if not self._found:
            return
        terminalreporter.section("toolyard cassettes")
        for nodeid, lines in self._found.items():
            terminalreporter.write_line(nodeid)
            for line in lines[:_SHOWN]:
                terminalreporter.write_line(f"  {line}")
            if len(lines) > _SHOWN:
                terminalreporter.write_line(f"  ... and {len(lines) - _SHOWN} more")
        terminalreporter.write_line("record anew with: pytest --toolyard-record")
