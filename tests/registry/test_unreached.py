"""One source that is not there takes no other along."""

from __future__ import annotations

import logging

import pytest

from toolyard import Tool, ToolLoader, ToolRegistry
from toolyard.model.errors import SourceUnavailable, UnknownToolError


class Remote(ToolLoader):
    """Tools of a server that may not be there."""

    def __init__(self, name: str, *, on_error: str = "skip", there: bool = True) -> None:
        self.name, self.there = name, there
        self._set_policies(on_error, "raise")

    @property
    def source(self) -> str:
        return self.name

    @property
    def comes_back(self) -> bool:
        return self.on_error == "skip"

    def load(self) -> list[Tool]:
        if not self.there:
            raise SourceUnavailable(f"{self.name} is not there")
        return [Tool("ping", self.name)]


def test_a_source_that_is_not_there_is_listed_as_failed_and_the_others_load(caplog: pytest.LogCaptureFixture) -> None:
    dead = Remote("dead", there=False)
    with caplog.at_level(logging.WARNING):
        registry = ToolRegistry.from_loaders([dead, Remote("alive")])
    assert [tool.qualified_name for tool in registry] == ["alive::ping"]
    assert [(source.source, source.state) for source in registry.report.sources] == [
        ("dead", "failed"),
        ("alive", "ok"),
    ]
    assert "dead is not there" in caplog.text
    with pytest.raises(UnknownToolError) as caught:
        registry.dispatch("dead::pong", {})
    assert (caught.value.info.hint or "").endswith("Sources that could not be loaded may have it: dead")


def test_it_is_there_after_a_refresh_that_finds_it() -> None:
    dead = Remote("dead", there=False)
    registry = ToolRegistry.from_loaders([dead, Remote("alive")])
    dead.there = True
    assert registry.refresh().ok
    assert "dead::ping" in registry


def test_construction_raises_if_the_source_does_not_reconnect_by_itself() -> None:
    with pytest.raises(SourceUnavailable, match="dead"):
        ToolRegistry.from_loaders([Remote("dead", on_error="raise", there=False), Remote("alive")])


def test_construction_raises_if_no_source_could_be_loaded() -> None:
    with pytest.raises(SourceUnavailable, match="first"):
        ToolRegistry.from_loaders([Remote("first", there=False), Remote("second", there=False)])
