"""What goes on beside the requests of MCP clients, and what a tool says to the client of its call."""

import threading

import pytest
from waiting import until

from serving.mcp.mcp_support import make_request
from serving.mcp.test_sse import SseClient
from serving.service_support import CORE, served
from toolyard.model.errors import SessionError


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_a_failing_store_is_reported_until_it_works_again(shared):
    with served(shared) as one, served(shared) as two:
        client = SseClient(one)
        with client.stream:
            records, broken = one.service.records, threading.Event()
            real = records.aversion

            async def aversion(kind):
                if broken.is_set():
                    raise SessionError("the store does not answer")
                return await real(kind)

            records.aversion = aversion
            broken.set()
            assert until(lambda: one.service.failing.get("mcp") == "SessionError")
            client.found = two
            assert client.post(make_request("ping", number=7)).status == 202
            broken.clear()
            assert client.answer(7)["result"] == {}
            assert until(lambda: "mcp" not in one.service.failing)
