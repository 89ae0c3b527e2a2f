"""Sources of MCP tools that are closed stay closed, also when they are closed in the midst of a load."""

import json
import threading

import pytest
from engines.mcp.support import WebServer, pids, raw, web
from waiting import SOON, is_alive, until

from toolyard import MCPConfigToolLoader, MCPToolLoader, SourceUnavailable, ToolRegistry
from toolyard.links.mcp import give_back, lease, link
from toolyard.links.mcp.options import limits_of
from toolyard.loop.home import link_loop
from toolyard.model.errors import SyncInAsyncError

pytestmark = pytest.mark.process


@pytest.fixture
def make(tmp_path):
    """A loader of one server over stdio: by itself, or in a file."""

    def make(kind):
        options = raw(tmp_path / "raw")
        if kind == "one":
            return MCPToolLoader(**options, namespace="raw")
        path = tmp_path / "desktop.json"
        path.write_text(json.dumps({"mcpServers": {"raw": options}}))
        return MCPConfigToolLoader(path)

    return make


def leased(folder):
    return [link for link, _ in link._LINKS.values() if str(folder) in link.server.args]


@pytest.mark.parametrize("kind", ["one", "file"])
def test_what_is_closed_connects_no_more(make, tmp_path, kind):
    folder = tmp_path / "raw"
    loader = make(kind)
    registry = ToolRegistry.from_loaders([loader])
    registry.close()
    assert registry.refresh().sources[0].state == "stale"
    loader.prepare()
    for work in (loader.load, lambda: loader.watch(lambda: None)):
        with pytest.raises(SourceUnavailable, match="is closed"):
            work()
    loader.close()  # once more is no harm
    assert leased(folder) == []
    until(lambda: not any(is_alive(pid) for pid in pids(folder)))
    assert len(pids(folder)) == 1


def test_closing_in_the_midst_of_a_load_ends_it_and_brings_nothing_back():
    asked, go_on = threading.Event(), threading.Event()

    class Slow(WebServer):
        def result(self, method, params):
            if method == "tools/list":
                asked.set()
                assert go_on.wait(SOON)
            return super().result(method, params)

    server = Slow()
    loader = MCPToolLoader(f"{server.url}/mcp", "n", transport="http")
    failed = []

    def load():
        try:
            loader.load()
        except SourceUnavailable as error:
            failed.append(str(error))

    thread = threading.Thread(target=load)
    thread.start()
    assert asked.wait(SOON)
    loader.close()
    go_on.set()
    thread.join(SOON)
    assert len(failed) == 1
    assert [link for link, _ in link._LINKS.values() if link.server.url == f"{server.url}/mcp"] == []
    server.close()


def test_a_file_that_is_closed_while_it_is_read_again_keeps_nobody(make, tmp_path, monkeypatch):
    loader = make("file")
    loader.load()
    path = tmp_path / "desktop.json"
    with web() as server:
        path.write_text(json.dumps({"mcpServers": {"web": {"url": f"{server.url}/mcp"}}}))
        found = loader._read_servers

        def closing(document):
            servers = found(document)
            loader.close()  # by another thread, just now
            return servers

        monkeypatch.setattr(loader, "_read_servers", closing)
        with pytest.raises(SourceUnavailable, match="is closed"):
            loader.load()
        assert server.received == []
    assert leased(tmp_path / "raw") == []


def test_loading_on_the_loop_of_links_is_refused(make):
    loader = make("one")

    async def wrong():
        loader.load()

    with pytest.raises(SyncInAsyncError, match="loop of links"):
        link_loop.submit(wrong()).result(SOON)
    loader.close()


def test_a_fork_in_the_midst_of_fetching_leaves_nobody_waiting(make):
    loader = make("one")
    loader.load()
    follower = loader._follow_server()
    follower.start()
    follower._lock.acquire()
    before = follower._next_list
    follower.reset_in_child()  # as in a child, where whoever held the lock and fetched is not there
    assert len(loader.load()) == 14
    assert before.result(SOON).complete
    loader.close()


def test_a_callback_that_fails_does_not_end_the_following(tmp_path):
    folder = tmp_path / "raw"
    loader = MCPToolLoader(**raw(folder), namespace="raw")
    loader.load()
    heard = []

    def changed():
        heard.append(len(heard))
        raise RuntimeError("not ours")

    loader.watch(changed)
    link = lease(loader.server, limits=limits_of(loader.server))
    for count in (1, 2):
        link.call("stir", {})
        assert until(lambda wanted=count: len(heard) >= wanted and loader._follow_server()._fetching is None)
    give_back(link)
    loader.close()
