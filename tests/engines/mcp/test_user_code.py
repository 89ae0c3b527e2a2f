"""Code that is not ours beside calls: where it runs, what it may do there, and what it never gets to see."""

import threading

import pytest
from links.fake_server import FakeServer, respond
from waiting import SOON

from engines.mcp.support import WebServer, call, web, yard
from toolyard import MCPToolEngine, MCPToolLoader, ToolCall, ToolRegistry
from toolyard.loop.home import link_loop
from toolyard.model.errors import SyncInAsyncError
from toolyard.words.redactor import REDACTED

pytestmark = pytest.mark.process

TOKEN = "t0ken-of-the-hour"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "raw"


def test_who_is_told_of_progress_may_call_tools_and_wait_for_them(folder):
    told = []

    def on_progress(made, progress):
        assert not link_loop.is_here()
        told.append(call(engine, "echo", {"text": f"at {progress.progress:.0f}"}, session="other").result)

    with yard(folder, on_progress=on_progress) as (_, engine):
        engine.setup("other")
        assert call(engine, "slow", {"seconds": 0.2}).result == "done"
        assert told == ["at 0", "at 5", "at 10", "at 15"]


def test_a_callback_that_waits_holds_up_no_other_server(folder, tmp_path):
    began, go_on = threading.Event(), threading.Event()

    def on_progress(made, progress):
        began.set()
        assert go_on.wait(SOON)

    with web() as other, yard(folder, on_progress=on_progress) as (_, engine):
        loader = MCPToolLoader(other.url, "web")
        with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as second:
            second.setup("s")
            thread = threading.Thread(target=call, args=(engine, "slow", {"seconds": 0.1}))
            thread.start()
            assert began.wait(SOON)
            assert second.execute("s", [ToolCall("web::fine", {})])[0].result == "fine"
            go_on.set()
            thread.join(SOON)


def test_the_sync_way_on_the_loop_of_links_is_refused(folder):
    with yard(folder) as (_, engine):

        async def wrong():
            return call(engine, "echo", {"text": "x"})

        with pytest.raises(SyncInAsyncError, match="loop of links.*aexecute"):
            link_loop.submit(wrong()).result(SOON)


@pytest.mark.parametrize("is_error", [True, False], ids=["said by the tool", "said by the protocol"])
def test_a_token_that_was_fetched_meanwhile_is_hidden_like_one_that_was_given(is_error):
    class Echo(WebServer):
        def result(self, method, params):
            if method != "tools/call":
                return super().result(method, params)
            text = f"bad token {TOKEN}"
            said = {"content": [{"type": "text", "text": text}], "isError": True}
            return {"result": said} if is_error else {"error": {"code": -32000, "message": text, "data": [text]}}

    server = Echo()
    with FakeServer() as tokens:
        tokens.otherwise = lambda request: respond(200, {"access_token": TOKEN, "token_type": "bearer"})
        auth = {"type": "oauth2", "token_url": f"{tokens.url}/t", "client_id": "i", "client_secret": "client-secret"}
        loader = MCPToolLoader(f"{server.url}/mcp", "web", transport="http", auth=auth)
        with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
            engine.setup("s")
            failed = engine.execute("s", [ToolCall("web::fine", {})])[0]
    server.close()
    assert "bad token" in failed.error
    assert REDACTED in failed.error
    assert TOKEN not in repr(failed)
