"""Refusals that come in floods: the connection is not listened to for a while, and only that one."""

import json

from service_support import CORE, served

from toolyard.serving.app import App
from toolyard.serving.principal import Limits


class Line:
    """A connection, as the app sees it; notes how long it is told to rest."""

    def __init__(self, token=None):
        self.token = token
        self.rests = []

    async def ask(self, app, path="/v1/tools"):
        headers = [(b"host", b"localhost")]
        if self.token is not None:
            headers.append((b"authorization", f"Bearer {self.token}".encode()))
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "scheme": "http",
            "headers": headers,
            "extensions": {"toolyard.slow_down": self.rest},
        }
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    def rest(self, seconds):
        self.rests.append(seconds)
        return False  # the connection stays open


async def test_a_key_over_its_rate_rests_and_others_do_not(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as server:
        app = App(server.service)
        greedy = Line(server.key("*:list", name="greedy", limits=Limits(rate=0.001, burst=1)))
        modest = Line(server.key("*:list", name="modest"))
        assert (await greedy.ask(app))[0] == 200
        assert greedy.rests == []
        status, body = await greedy.ask(app)
        assert (status, body["error"]["code"]) == (429, "request.rate_limited")
        assert len(greedy.rests) == 1 and greedy.rests[0] > 0
        assert (await modest.ask(app))[0] == 200
        assert modest.rests == []


async def test_strangers_rest_after_every_refusal_and_keys_only_after_too_many_requests(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as server:
        app = App(server.service)
        known, stranger = Line(server.key("*:list")), Line("ty_nobody_nothing")
        assert (await stranger.ask(app))[0] == 401
        assert len(stranger.rests) == 1
        assert (await known.ask(app, "/v1/tools/nope"))[0] == 404
        assert known.rests == []
