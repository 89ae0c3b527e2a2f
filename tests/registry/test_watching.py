"""Sources that tell when they have changed."""

import logging
import threading

import pytest
from waiting import SOON, until

from toolyard import RenameToolLoader, SourceUnavailable, Tool, ToolLoader, ToolRegistry


class Telling(ToolLoader):
    """A source that says when it has something new."""

    def __init__(self, namespace="t", *tools):
        self.namespace = namespace
        self.tools = list(tools)
        self.changed = None
        self.loads = 0
        self.error = None
        self.gate = threading.Event()
        self.gate.set()
        self.prepared = []

    @property
    def source(self):
        return self.namespace

    def prepare(self):
        self.prepared.append(self.loads)

    def watch(self, changed):
        self.changed = changed

    def load(self):
        assert self.gate.wait(SOON)
        self.loads += 1
        if self.error is not None:
            raise self.error
        return [Tool(name, self.namespace) for name in self.tools]


@pytest.fixture
def source():
    return Telling("t", "a")


def test_a_source_that_changed_is_loaded_again_in_the_background(source):
    with ToolRegistry.from_loaders([source]) as registry:
        before = registry.snapshot
        source.tools.append("b")
        source.changed()
        assert until(lambda: "t::b" in registry)
        assert "t::b" not in before.names


def test_attached_sources_are_followed_too_and_so_are_wrapped_ones(source):
    with ToolRegistry() as registry:
        registry.attach(RenameToolLoader(source, {"a": "z"}))
        source.tools.append("b")
        source.changed()
        assert until(lambda: "t::b" in registry)
        assert "t::z" in registry


def test_only_the_changed_source_is_loaded(source):
    other = Telling("o", "a")
    with ToolRegistry.from_loaders([source, other]) as registry:
        source.tools.append("b")
        source.changed()
        assert until(lambda: "t::b" in registry)
        assert (source.loads, other.loads) == (2, 1)


def test_several_changes_during_a_reload_cause_one_more_reload(source):
    with ToolRegistry.from_loaders([source]) as registry:
        source.gate.clear()
        source.changed()
        until(lambda: not registry._watcher._waiting)
        for _ in range(100):
            source.changed()
        source.tools.append("b")
        source.gate.set()
        assert until(lambda: "t::b" in registry and not registry._watcher._running)
        assert source.loads == 3


def test_a_failing_source_is_stale_until_it_reports_a_change(source):
    with ToolRegistry.from_loaders([source]) as registry:
        source.error = SourceUnavailable("gone fishing")
        source.changed()
        assert until(lambda: registry.report.sources[0].state == "stale")
        assert "t::a" in registry
        assert registry.report.sources[0].error == "gone fishing"
        source.error = None
        source.changed()
        assert until(lambda: registry.report.sources[0].state == "ok")


def test_a_failed_source_is_loaded_once_it_is_available(source):
    source.error = SourceUnavailable("not yet")
    with ToolRegistry() as registry:
        registry.attach(source, keep_failed=True)
        assert len(registry) == 0
        source.error = None
        source.changed()
        assert until(lambda: "t::a" in registry)


def test_nothing_is_loaded_after_the_registry_is_closed(source):
    registry = ToolRegistry.from_loaders([source])
    registry.close()
    source.changed()
    assert source.loads == 1
    assert not registry._watcher._running


def test_a_failed_reload_is_logged_and_the_next_source_is_reloaded(source, caplog):
    with ToolRegistry.from_loaders([source]) as registry, caplog.at_level(logging.WARNING):
        registry._enrichments = (Refusing(),)
        source.changed()
        assert until(lambda: "could not be loaded again" in caplog.text)
        registry._enrichments = ()
        source.tools.append("b")
        source.changed()
        assert until(lambda: "t::b" in registry)


class Refusing:
    def enrich(self, snapshot):
        raise SourceUnavailable("no")


def test_all_sources_start_connecting_before_the_first_is_loaded(source):
    others = [Telling(f"o{number}") for number in range(3)]
    begun = []
    for loader in (source, *others):
        loader.prepare = lambda loader=loader: begun.append((loader.namespace, source.loads))
    with ToolRegistry.from_loaders([source, *others]):
        assert begun == [("t", 0), ("o0", 0), ("o1", 0), ("o2", 0)]
