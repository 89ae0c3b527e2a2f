"""For pytest: tests whose tool calls are recorded once and played back from then on.

    @pytest.mark.toolyard_cassette("weather")
    def test_the_agent_asks_for_the_weather(toolyard_yard):
        toolyard_yard.tool_engine.setup("s")
        ...

`pytest --toolyard-record` calls the real tools and writes `cassettes/weather.jsonl` beside the test; without it the
calls are answered from there. `toolyard_yard` is the yard of `toolyard_config` in pytest's own config, or of the
marker's `config`; `toolyard_cassette.engine(...)` records an engine that the test made itself. What was recorded and
never played, or has changed since, is told at the end of the run.
"""

from __future__ import annotations

import pytest

from toolyard.pytest_plugin.fixtures import toolyard_cassette, toolyard_yard
from toolyard.pytest_plugin.outcome import pytest_runtest_makereport
from toolyard.pytest_plugin.runs import SharedMarks
from toolyard.pytest_plugin.summary import DriftSummary

__all__ = [
    "pytest_addoption",
    "pytest_configure",
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
