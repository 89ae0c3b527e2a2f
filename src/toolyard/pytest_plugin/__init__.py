"""Pytest plugin: records the tool calls of a test once and plays them back in later runs.

    @pytest.mark.toolyard_cassette("weather")
    def test_the_agent_asks_for_the_weather():
        with Toolyard.from_config("yard.yaml") as yard:
            yard.tool_engine.setup("s")
            ...

`pytest --toolyard-record` calls the real tools and writes `cassettes/weather.jsonl` beside the test; without it the
calls of every engine are answered from that file. A marked test that calls no engine fails, because its calls would be
live. `toolyard_yard` is the yard of `toolyard_config` in pytest's config, or of the marker's `config`;
`toolyard_cassette.engine(...)` records a single engine. The end of the run lists recorded calls that were never played
and tools that have changed since.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolyard.app.toolyard import Toolyard
    from toolyard.pytest_plugin.cassette_fixture import CassetteFixture

MARK = "toolyard_cassette"
"""Name of the marker and of the fixture behind it."""
_OF_MARKED = "_toolyard_marked"
DRIFT = "toolyard_drift"
"""Report property that carries the lines about drift of a test, also from another process."""
_SHOWN = 20
_REPLACED: pytest.StashKey[set[Path]] = pytest.StashKey()
"""Cassettes that this run has replaced."""
_FAILED: pytest.StashKey[bool] = pytest.StashKey()
_FIXTURE: pytest.StashKey[CassetteFixture] = pytest.StashKey()
"""The cassette of a marked test."""
_HOW_TO_RECORD = "record anew with: pytest --toolyard-record"
_MARKER = (
    "toolyard_cassette(name=None, *, config=None, match='arguments', repeat=True): "
    "play the test's tool calls from a cassette; --toolyard-record writes it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag and the settings for the places of cassettes and of the yard's config."""
    group = parser.getgroup("toolyard")
    group.addoption(
        "--toolyard-record",
        action="store_true",
        help="call the tools of marked tests for real, and record them anew",
    )
    parser.addini("toolyard_cassettes", "folder of cassettes, beside the test file", default="cassettes")
    parser.addini("toolyard_config", "config of the yard that tests get, from the root directory", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. Refuse to record in several processes, whose tests may share a cassette."""
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("--toolyard-record") and getattr(config.option, "tx", None):
        raise pytest.UsageError("--toolyard-record records from one process: run it without pytest-xdist, or with -n0")


def install_recording(tape: Path, path: Path, config: pytest.Config) -> None:
    """Replace the old cassette with a new recording, or append to it if this run has replaced it already."""
    replaced = config.stash.setdefault(_REPLACED, set())
    if path not in replaced:
        os.replace(tape, path)
        replaced.add(path)
        return
    with path.open("ab") as cassette:
        cassette.write(tape.read_bytes())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note failed tests, and list calls in their report that the cassette could not answer: a likely cause."""
    report = yield
    if report.when != "teardown" and not report.passed:
        item.stash[_FAILED] = True
        fixture = item.stash.get(_FIXTURE, None)
        if fixture is not None and (lines := fixture.describe_misses()):
            report.sections.append(("toolyard cassette", "\n".join([*lines, _HOW_TO_RECORD])))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a marked test if none of its calls could have gone through a cassette, so that all of them were live."""
    result = yield
    fixture = item.stash.get(_FIXTURE, None)
    if fixture is not None and fixture.unused:
        pytest.fail(
            f"marked {MARK}, but none of its calls went through a cassette, so they were live. Calls of engines do "
            "(execute, simulate, a served yard), but not registry.dispatch, an engine in another process, or one that "
            "overrides execute; pass such an engine to toolyard_cassette.engine(...), or remove the marker",
            pytrace=False,
        )
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the drift of all tests."""
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
    terminalreporter.write_line(_HOW_TO_RECORD)


@pytest.fixture
def toolyard_cassette(request: pytest.FixtureRequest) -> Iterator[CassetteFixture]:
    """The cassette of this test; `engine(...)` records an engine to it, or plays it back."""
    from toolyard.pytest_plugin.cassette_fixture import CassetteFixture

    fixture = CassetteFixture(request.node, request.config)
    yield fixture
    lines = fixture.close(keep=not request.node.stash.get(_FAILED, False))
    request.node.user_properties.extend((DRIFT, line) for line in lines)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take the fixture of marked tests away from all others, since it costs each 0.1 ms."""
    if isinstance(item, pytest.Function) and item.get_closest_marker(MARK) is None:
        # Another list, because all variants of a test share one, and a single variant may be marked.
        item.fixturenames = [name for name in item.fixturenames if name != _OF_MARKED]


@pytest.fixture(autouse=True, name=_OF_MARKED)
def _toolyard_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Route the calls of a marked test through its cassette."""
    if request.node.get_closest_marker(MARK) is None:
        yield
        return
    fixture: CassetteFixture = request.getfixturevalue(MARK)
    request.node.stash[_FIXTURE] = fixture
    with fixture.route_all_engines():
        yield


@pytest.fixture
def toolyard_yard(request: pytest.FixtureRequest, toolyard_cassette: CassetteFixture) -> Iterator[Toolyard]:
    """The yard of `toolyard_config`, or of the marker's `config`; its calls go through the cassette."""
    given = toolyard_cassette.options.config or request.config.getini("toolyard_config")
    if not given:
        pytest.fail("toolyard_yard needs a config: set toolyard_config, or give the marker config=...", pytrace=False)
    with toolyard_cassette.yard(Path(request.config.rootpath, given)) as yard:
        yield yard
