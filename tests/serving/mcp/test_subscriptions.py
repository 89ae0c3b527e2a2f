"""Streams on which clients wait for news."""

import threading

import pytest
from waiting import until

from serving.mcp.mcp_support import Reading, Session, request
from serving.mcp.test_handshake import Waiting
from serving.service_support import desk_tools, served


@pytest.mark.parametrize("last", ["s.5", "r1.2", "nothing", "x.y", "{}.999"])
def test_who_comes_back_with_an_id_that_is_not_known_is_told_that_something_may_have_changed(last):
    with served() as found:
        session = Session(found)
        with session.listen() as stream:
            assert until(lambda: stream.body)
            found.service.yard.tool_registry.add(*desk_tools())
            stream.wait(1)
            name = stream.ids[-1].partition(".")[0]
        assert until(lambda: len(found.service.mcp.subscribers) == 0)
        with session.listen(**{"last-event-id": last.format(name)}) as stream:
            assert len(stream.wait(1)) == 1
            found.service.yard.tool_registry.remove("desk::add")
            assert len(stream.wait(2)) == 2


def test_a_stop_waits_for_an_answer_that_is_read_on_another_connection():
    waiting = Waiting()
    with served(tools=[waiting.tool(speaks=True)]) as found:
        session = Session(found)
        body = request("tools/call", {"name": "desk__wait"}, 9)
        with Reading(found, "POST", "/mcp", body, session.headers) as stream:
            stream.wait(1)
            last = stream.ids[-1]
        again = session.listen(**{"last-event-id": last})
        assert until(lambda: len(found.service.mcp.subscribers) == 1)
        # Told in the loop before anything else of the stop is done.
        threading.Timer(0.3, waiting.end.set).start()
    assert until(lambda: again.over)
    assert again.messages[-1]["result"]["structuredContent"] == {"result": "ended"}
    again.close()
