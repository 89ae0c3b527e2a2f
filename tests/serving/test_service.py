"""What goes on beside the requests."""

import asyncio
from contextlib import closing

from waiting import until

from serving.service_support import CORE, served
from toolyard.model.errors import EnrichmentError, SessionError
from toolyard.serving.identity import read_scopes
from toolyard.serving.keys import KeyRing
from toolyard.serving.service import BackgroundTasks
from toolyard.sessions.records import open_records
from toolyard.sessions.store.sqlite import SqliteStore


async def test_a_step_that_fails_is_taken_again_said_once_and_forgotten_when_it_works(caplog):
    rounds, enough, failing, said = [], asyncio.Event(), {}, []

    async def step():
        said.append(dict(failing))
        rounds.append(len(rounds))
        if len(rounds) == 6:
            enough.set()
        if len(rounds) in (2, 3, 5):
            raise SessionError("the store is away")

    tasks = BackgroundTasks([("keys", 0.0, step)], failing)
    tasks.start()
    await enough.wait()
    await tasks.stop()
    away = {"keys": "SessionError"}
    assert said[:6] == [{}, {}, away, away, {}, away] and failing == {}
    assert [record.getMessage() for record in caplog.records] == [
        "keys: failed with SessionError: the store is away; it is tried again"
    ] * 2


async def test_a_step_may_say_when_it_is_taken_next():
    rounds, enough = [], asyncio.Event()

    async def step():
        rounds.append(len(rounds))
        if len(rounds) == 3:
            enough.set()
        return 0.0

    tasks = BackgroundTasks([("mcp", 3600.0, step)], {})
    tasks.start()
    async with asyncio.timeout(30):
        await enough.wait()
    await tasks.stop()
    assert rounds[:3] == [0, 1, 2], "an hour was not waited for"


def test_what_goes_on_beside_the_requests_begins_again_after_a_fault(tmp_path, monkeypatch):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as server:
        registry = server.service.yard.tool_registry
        real = registry.refresh

        def failing(**options):
            monkeypatch.setattr(registry, "refresh", real)
            raise EnrichmentError("an enrichment failed")

        monkeypatch.setattr(registry, "refresh", failing)
        server.service.records.put("reload", "", "last", b"elsewhere")
        until(lambda: registry.refresh == real)
        server.service.records.put("tool", "", "far::away", b'{"description":"from another process"}')
        until(lambda: registry.get("far::away"))
        assert until(lambda: server.get("/v1/health").json["status"] == "ok")


def test_a_key_that_another_process_revokes_is_refused_here_soon(tmp_path):
    path = tmp_path / "s.db"
    with served({**CORE, "sessions": {"store": "sqlite", "path": str(path)}}) as server:
        token = server.key("*:*")
        assert server.get("/v1/tools", token=token).status == 200
        with closing(SqliteStore(path)) as store:
            KeyRing(open_records(store)).revoke(server.service.keys.find(token).key_id)
        assert until(lambda: server.get("/v1/tools", token=token).status == 401)


def test_a_server_tells_at_start_of_rules_for_keys_and_of_scopes_that_match_nothing(tmp_path, caplog):
    path, policy = tmp_path / "s.db", {"rules": [{"deny": "core::*", "keys": ["gest"]}]}
    with closing(SqliteStore(path)) as store:
        KeyRing(open_records(store)).create("guest", read_scopes(["*:list", "cor:execute"]))
    with served({**CORE, "sessions": {"store": "sqlite", "path": str(path)}, "policy": policy}):
        assert [record.getMessage() for record in caplog.records if "matches no" in record.getMessage()] == [
            "policy.rules[0].keys: gest matches no existing key; did you mean guest?",
            "scopes of key guest: cor matches no namespace; did you mean core?",
        ]
