"""For pytest: tests whose tool calls are recorded once and played back from then on.

    @pytest.mark.toolyard_cassette("weather")
    def test_the_agent_asks_for_the_weather():
        with Toolyard.from_config("yard.yaml") as yard:
            yard.tool_engine.setup("s")
            ...

`pytest --toolyard-record` calls the real tools and writes `cassettes/weather.jsonl` beside the test; without it the
calls are answered from there, whichever engine the test makes or is given. A marked test that calls no engine fails:
it would run live. `toolyard_yard` is the yard of `toolyard_config` in pytest's own config, or of the marker's `config`;
`toolyard_cassette.engine(...)` records one engine alone. What was recorded and never played, or has changed since, is
told at the end of the run.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolyard.app.toolyard import Toolyard
    from toolyard.pytest_plugin.taped import Taped

MARK = "toolyard_cassette"
"""The marker, and the fixture behind it."""
DRIFT = "toolyard_drift"
"""The property of a test's report under which its lines travel, also from another process."""
_SHOWN = 20
_BEGUN: pytest.StashKey[set[Path]] = pytest.StashKey()
"""Cassettes that this run has put in the place of old ones."""
_FAILED: pytest.StashKey[bool] = pytest.StashKey()
_TAPED: pytest.StashKey[Taped] = pytest.StashKey()
"""The cassette of a marked test."""
_ANEW = "record anew with: pytest --toolyard-record"
_MARKER = (
    "toolyard_cassette(name=None, *, config=None, match='arguments', repeat=True): "
    "play the test's tool calls from a cassette; --toolyard-record writes it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag, and where cassettes and the yard's config lie."""
    group = parser.getgroup("toolyard")
    group.addoption(
        "--toolyard-record",
        action="store_true",
        help="call the tools of marked tests for real, and record them anew",
    )
    parser.addini("toolyard_cassettes", "folder of cassettes, beside the test file", default="cassettes")
    parser.addini("toolyard_config", "config of the yard that tests get, from the root directory", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known; refuse to record from several processes, whose tests may share a cassette."""
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("--toolyard-record") and getattr(config.option, "tx", None):
        raise pytest.UsageError("--toolyard-record records from one process: run it without pytest-xdist, or with -n0")


def put_in_place(tape: Path, path: Path, config: pytest.Config) -> None:
    """Let a new tape take the place of the old cassette, or add it to what the run has recorded there already."""
    begun = config.stash.setdefault(_BEGUN, set())
    if path not in begun:
        os.replace(tape, path)
        begun.add(path)
        return
    with path.open("ab") as cassette:
        cassette.write(tape.read_bytes())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what failed, and tell beside it of calls that the cassette had no answer for: they may be why."""
    report = yield
    if report.when != "teardown" and not report.passed:
        item.stash[_FAILED] = True
        taped = item.stash.get(_TAPED, None)
        if taped is not None and (lines := taped.find_moved()):
            report.sections.append(("toolyard cassette", "\n".join([*lines, _ANEW])))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a marked test none of whose calls a cassette could have answered: it ran live, and would again."""
    result = yield
    taped = item.stash.get(_TAPED, None)
    if taped is not None and taped.unused:
        pytest.fail(
            f"marked {MARK}, but no call of it went through a cassette: what it called, it called live. Calls of "
            "engines do (execute, simulate, a served yard), but not registry.dispatch, an engine in another process, "
            "or one with an execute of its own; give that to toolyard_cassette.engine(...), or take the marker away",
            pytrace=False,
        )
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what has drifted."""
    found: dict[str, list[str]] = {}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if getattr(report, "when", None) == "teardown":
            lines = [str(value) for name, value in report.user_properties if name == DRIFT]
            found |= {report.nodeid: lines} if lines else {}
    if not found:
        return
    terminalreporter.section("toolyard cassettes")
    for nodeid, lines in found.items():
        terminalreporter.write_line(nodeid)
        for line in lines[:_SHOWN]:
            terminalreporter.write_line(f"  {line}")
        if len(lines) > _SHOWN:
            terminalreporter.write_line(f"  ... and {len(lines) - _SHOWN} more")
    terminalreporter.write_line(_ANEW)


@pytest.fixture
def toolyard_cassette(request: pytest.FixtureRequest) -> Iterator[Taped]:
    """The cassette of this test: `engine(...)` records an engine to it, or plays it back."""
    from toolyard.pytest_plugin.taped import Taped

    taped = Taped(request.node, request.config)
    yield taped
    lines = taped.close(keep=not request.node.stash.get(_FAILED, False))
    request.node.user_properties.extend((DRIFT, line) for line in lines)


@pytest.fixture(autouse=True)
def _toolyard_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has the calls of a marked test go through its cassette; nothing for others."""
    if request.node.get_closest_marker(MARK) is None:
        yield
        return
    taped: Taped = request.getfixturevalue(MARK)
    request.node.stash[_TAPED] = taped
    with taped.every_engine():
        yield


@pytest.fixture
def toolyard_yard(request: pytest.FixtureRequest, toolyard_cassette: Taped) -> Iterator[Toolyard]:
    """The yard of `toolyard_config`, or of the marker's `config`, with its calls going through the cassette."""
    given = toolyard_cassette.options.config or request.config.getini("toolyard_config")
    if not given:
        pytest.fail("toolyard_yard needs a config: set toolyard_config, or give the marker config=...", pytrace=False)
    with toolyard_cassette.yard(Path(request.config.rootpath, given)) as yard:
        yield yard
