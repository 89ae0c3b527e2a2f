"""Tools that are registered while the server runs, in a registry with enrichments."""

from __future__ import annotations

import asyncio

import pytest

from toolyard import ToolRegistry
from toolyard.model.errors import EnrichmentError
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.registrations import KIND, Registration, Registrations
from toolyard.sessions.records import open_records


class Moody:
    """Fails when it is told to, and remembers whether a loop ran where it worked."""

    def __init__(self):
        self.fails = False
        self.on_a_loop = []

    def enrich(self, snapshot):
        try:
            asyncio.get_running_loop()
            self.on_a_loop.append(True)
        except RuntimeError:
            self.on_a_loop.append(False)
        if self.fails:
            raise OSError("the model is away")
        return snapshot.tools, {"count": len(snapshot.tools)}


async def test_what_another_process_registered_is_taken_over_later_if_an_enrichment_fails_now():
    moody, records = Moody(), open_records(None)
    registry = await asyncio.to_thread(lambda: ToolRegistry(enrichments=[moody]))
    here, there = Registrations(registry, records), Registrations(ToolRegistry(), records)
    await here.start()
    await there.start()
    await there.put("n::a", Registration(description="A"))
    moody.fails = True
    version = await records.aversion(KIND)
    with pytest.raises(EnrichmentError, match="the model is away"):
        await here.catch_up(version)
    assert len(registry) == 0
    moody.fails = False
    await here.catch_up(version)
    assert registry.artifacts["count"] == len(registry) == 1


async def test_enrichments_never_run_on_the_loop_of_the_server_and_a_failure_changes_nothing():
    moody, records = Moody(), open_records(None)
    registry = await asyncio.to_thread(lambda: ToolRegistry(enrichments=[moody]))
    tools = Registrations(registry, records)
    await tools.start()
    assert await tools.put("n::a", Registration(description="A"))
    moody.fails = True
    with pytest.raises(HttpFault, match="the model is away"):
        await tools.put("n::b", Registration(description="B"))
    assert [record.name for record in await records.aall(KIND)] == ["n::a"]
    assert "n::b" not in registry
    moody.fails = False
    assert await tools.remove("n::a")
    assert registry.artifacts["count"] == len(registry) == 0
    assert len(moody.on_a_loop) >= 5
    assert not any(moody.on_a_loop)
