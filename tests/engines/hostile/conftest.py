"""What tests of hostile specifications and servers share: both of them, and both ways to call."""

import asyncio

import pytest

from conftest import chosen_way, ways_to_try
from engines.engine_support import SOON
from engines.hostile.hostile_server import HostileServer, written
from toolyard import RESTToolLoader, ToolRegistry
from toolyard.engines.rest import RESTToolEngine


@pytest.fixture
def server():
    with HostileServer() as found:
        yield found


@pytest.fixture
def evil():
    """Somebody who must never be asked anything."""
    with HostileServer() as found:
        yield found
        assert found.connections == []


@pytest.fixture
def make(tmp_path):
    """An engine for a specification; `ask` closes it."""

    def made(document, base_url=None, **options):
        loader = RESTToolLoader(written(tmp_path, document), "n", base_url)
        return RESTToolEngine(ToolRegistry.from_loaders([loader]), **{"timeout": SOON, **options})

    return made


@pytest.fixture(params=ways_to_try("sync", "async"))
def ask(request):
    """Make calls by one of the two ways and close the engine, so that what is left over shows."""
    return _ask if chosen_way(request) == "sync" else lambda *items: asyncio.run(_aask(*items))


def _ask(engine, *calls):
    with engine:
        engine.setup("s")
        return engine.execute("s", calls)


async def _aask(engine, *calls):
    async with engine:
        await engine.asetup("s")
        return await engine.aexecute("s", calls)
