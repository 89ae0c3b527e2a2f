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

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from toolyard.pytest_plugin.marks import (
    DRIFT,
    MARK,
    TAPED,
    DriftSummary,
    SharedMarks,
    pytest_runtest_call,
    pytest_runtest_makereport,
    went_well,
)

if TYPE_CHECKING:
    from toolyard.app.toolyard import Toolyard
    from toolyard.pytest_plugin.taped import Taped

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "toolyard_cassette",
    "toolyard_yard",
]

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
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)
    config.pluginmanager.register(DriftSummary(), "toolyard-drift")
    config.pluginmanager.register(SharedMarks(), "toolyard-marks")


@pytest.fixture
def toolyard_cassette(request: pytest.FixtureRequest) -> Iterator[Taped]:
    """The cassette of this test: `engine(...)` records an engine to it, or plays it back."""
    from toolyard.pytest_plugin.taped import Taped

    taped = Taped(request.node, request.config)
    yield taped
    lines = taped.close(keep=went_well(request.node))
    request.node.user_properties.extend((DRIFT, line) for line in lines)


@pytest.fixture(autouse=True)
def _toolyard_marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has the calls of a marked test go through its cassette; nothing for others."""
    if request.node.get_closest_marker(MARK) is None:
        yield
        return
    taped: Taped = request.getfixturevalue(MARK)
    request.node.stash[TAPED] = taped
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
