"""The real service behind connections that break anywhere: no call is lost, and none runs twice."""

import asyncio
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from client.cutting_proxy import CuttingProxy
from client.served import served
from conftest import examples
from toolyard import ToolCall, ToolRegistry, function_tool
from toolyard.client import RemoteToolEngine

RAN = []


def note(number: int) -> int:
    """Have it written down."""
    RAN.append(number)
    return number


@pytest.fixture(scope="module")
def behind_proxy():
    registry = ToolRegistry([function_tool(note, namespace="n")])
    with served(registry, rate=1e6, burst=1e6) as service:
        address = urlsplit(service.url)
        with (
            CuttingProxy((address.hostname, address.port)) as proxy,
            RemoteToolEngine(proxy.url, retry_delay=0.001, retries=3) as engine,
        ):
            yield proxy, engine


CUTS = st.lists(st.tuples(st.sampled_from(["up", "down"]), st.integers(1, 900)), max_size=3)


@pytest.mark.parametrize("way", ["sync", "async"])
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=CUTS)
def test_wherever_connections_break_every_call_runs_once_and_is_answered(behind_proxy, way, cuts):
    proxy, engine = behind_proxy
    RAN.clear()
    proxy.drop_all()
    proxy.cuts = list(cuts)
    calls = [ToolCall("n::note", {"number": number}) for number in range(3)]
    if way == "sync":
        engine.setup("s")
        results = engine.execute("s", calls)
    else:

        async def program():
            await engine.asetup("s")
            return await engine.aexecute("s", calls)

        results = asyncio.run(program())
    proxy.cuts = []
    try:
        assert [result.result for result in results] == [0, 1, 2]
        assert RAN == [0, 1, 2]
        state = engine.get_session_state("s")
        assert [item["tool_output"]["result"] for item in state["tool_executions"]] == [0, 1, 2]
    finally:
        engine.teardown("s")
