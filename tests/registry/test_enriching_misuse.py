"""Enrichments that do what they must not: nothing hangs, nothing is changed, and the error says what to do."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from toolyard import Tool, ToolRegistry
from toolyard.insight.cache import FILE, cache_folder
from toolyard.insight.outputs.enrichment import OutputParametersEnrichment, read_schema
from toolyard.model.errors import ConfigError, EnrichmentError


def tool(name="get_user"):
    return Tool(name, "n", "Get a user", {"type": "object", "properties": {"user_id": {"type": "string"}}})


class Plain:
    def __init__(self, what):
        self._what = what

    def enrich(self, snapshot):
        return self._what(snapshot)


async def later(snapshot):
    return snapshot.tools, {}


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (lambda snapshot: None, "returned NoneType; it returns two things"),
        (lambda snapshot: (snapshot.tools,), "it returns two things"),
        (later, "returned coroutine"),
        (lambda snapshot: (snapshot.tools, {1: 2}), "names are text"),
    ],
)
def test_a_return_value_other_than_tools_and_artifacts_is_refused(what, told):
    with pytest.raises(EnrichmentError, match=told):
        ToolRegistry([tool()], enrichments=[Plain(what)])


def test_a_class_in_the_place_of_an_enrichment_is_named():
    with pytest.raises(EnrichmentError, match="OutputParametersEnrichment is a class"):
        ToolRegistry([tool()], enrichments=[OutputParametersEnrichment])


@pytest.mark.parametrize("change", ["add", "refresh", "remove"])
def test_an_enrichment_that_changes_its_own_registry_raises_instead_of_hanging(change):
    def work(snapshot):
        if len(snapshot.tools) > 1:
            {"add": lambda: registry.add(tool("c")), "refresh": registry.refresh}.get(
                change, lambda: registry.remove("n::get_user")
            )()
        return snapshot.tools, {}

    registry = ToolRegistry([tool()], enrichments=[Plain(work)])
    with pytest.raises(EnrichmentError, match="this thread is changing the registry already"):
        registry.add(tool("b"))
    assert len(registry) == 1
    registry.remove("n::get_user")
    assert len(registry) == 0


def test_the_first_search_does_not_wait_for_an_enrichment():
    begun, go_on = threading.Event(), threading.Event()

    def work(snapshot):
        if len(snapshot.tools) > 1:
            begun.set()
            assert go_on.wait(60)
        return snapshot.tools, {}

    registry = ToolRegistry([tool()], enrichments=[Plain(work)])
    adding = threading.Thread(target=registry.add, args=(tool("b"),))
    adding.start()
    assert begun.wait(60)
    found = threading.Event()
    searching = threading.Thread(target=lambda: (registry.searcher, found.set()))
    searching.start()
    came = found.wait(60)
    go_on.set()
    adding.join()
    searching.join()
    assert came
    assert len(registry) == 2


@pytest.mark.parametrize("value", [b"garbage", b"", b"[]", "text"])
def test_a_damaged_value_in_the_cache_is_worked_out_again(tmp_path, value):
    def schema():
        registry = ToolRegistry([tool()], enrichments=[OutputParametersEnrichment(cache=tmp_path)])
        return registry.all_tools()[0].output_parameters

    right = schema()
    db = sqlite3.connect(tmp_path / FILE)
    with db:
        db.execute("UPDATE items SET value = ?", (value,))
    db.close()
    assert schema() == right


@pytest.mark.parametrize("folder", ["~nobody-of-that-name/cache", "a\0b"])
def test_a_cache_folder_that_cannot_be_is_refused_in_words(folder):
    with pytest.raises(ConfigError, match="is no folder"):
        cache_folder(folder)


def test_an_unreadable_cache_folder_is_not_used(tmp_path):
    enrichment = OutputParametersEnrichment(cache=tmp_path / ("x" * 300))
    assert ToolRegistry([tool()], enrichments=[enrichment]).all_tools()[0].output_parameters


def test_an_answer_with_many_trailing_empty_lines_is_read_quickly():
    assert read_schema("```" + "\n" * 200_000 + "x")[0] is None
    assert read_schema('```json \r\n{"properties": {"a": {"type": "string"}}}\n```')[0] is not None
