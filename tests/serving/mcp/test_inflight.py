"""Requests under way."""

import asyncio
import threading

from waiting import SOON

from serving.mcp.mcp_support import Session
from serving.service_support import served
from toolyard import function_tool


class SlowToCancel:
    """A tool that takes its time to end once it was cancelled."""

    def __init__(self):
        self.began = [threading.Event(), threading.Event()]
        self.end = threading.Event()
        self.count = 0

    def tool(self):
        async def stubborn() -> str:
            """Waits."""
            self.began[self.count].set()
            self.count += 1
            try:
                await asyncio.sleep(SOON)
            except asyncio.CancelledError:
                await asyncio.to_thread(self.end.wait, SOON)
                raise
            return "never"

        return function_tool(stubborn, namespace="desk")


def test_an_id_that_is_used_again_belongs_to_the_newer_request():
    stubborn, answers = SlowToCancel(), {}
    with served(tools=[stubborn.tool()]) as found:
        session = Session(found)

        def call(which):
            answers[which] = session.call("desk__stubborn", number=5)

        threads = [threading.Thread(target=call, args=(which,)) for which in ("first", "second")]
        threads[0].start()
        assert stubborn.began[0].wait(SOON)
        session.notify("notifications/cancelled", {"requestId": 5})
        threads[1].start()
        assert stubborn.began[1].wait(SOON)
        (here,) = found.service.mcp.sessions._sessions.values()
        stubborn.end.set()
        threads[0].join(SOON)
        assert answers["first"].json["error"]["code"] == -32800
        assert 5 in here.running, "the end of the first takes nothing from the second"
        session.notify("notifications/cancelled", {"requestId": 5})
        threads[1].join(SOON)
        assert answers["second"].json["error"]["message"] == "the request was cancelled"
