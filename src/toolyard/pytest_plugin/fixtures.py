"""The fixtures: a cassette for the test, and a yard whose calls go through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolyard.app.toolyard import Toolyard
    from toolyard.pytest_plugin.taped import Taped


@pytest.fixture
def toolyard_cassette(request: pytest.FixtureRequest) -> Iterator[Taped]:
    """The cassette of this test: `engine(...)` records an engine to it, or plays it back."""
    from toolyard.pytest_plugin.outcome import went_well
    from toolyard.pytest_plugin.summary import DRIFT
    from toolyard.pytest_plugin.taped import Taped

    taped = Taped(request.node, request.config)
    yield taped
    lines = taped.close(keep=went_well(request.node))
    request.node.user_properties.extend((DRIFT, line) for line in lines)


@pytest.fixture
def toolyard_yard(request: pytest.FixtureRequest, toolyard_cassette: Taped) -> Iterator[Toolyard]:
    """The yard of `toolyard_config`, or of the marker's `config`, with its calls going through the cassette."""
    given = toolyard_cassette.options.config or request.config.getini("toolyard_config")
    if not given:
        pytest.fail("toolyard_yard needs a config: set toolyard_config, or give the marker config=...", pytrace=False)
    with toolyard_cassette.yard(Path(request.config.rootpath, given)) as yard:
        yield yard
