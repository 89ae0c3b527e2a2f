"""Several servers that share one database: what one began, the other goes on with, also when the first is killed."""

import json
import random

import pytest
from waiting import until
from warm_python import warm_toolyard

from serving.nodes_support import Link, Nodes, Rounds, kill_worker, read_history, workers_of, write_yard

pytestmark = pytest.mark.process


@pytest.fixture
def schema(request):
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)[:60].lower()


@pytest.fixture
def pair(tmp_path, postgres, schema):
    """Two processes on one Postgres."""
    write_yard(tmp_path, {"store": "postgres", "dsn": postgres, "schema": schema})
    with Nodes(tmp_path, 2) as nodes:
        yield nodes


def run_key(folder, *words):
    command = ["-m", "toolyard", "key", *words, "--config", "yard.json", "--json"]
    return json.loads(warm_toolyard().run(command, cwd=folder).stdout)


def note(line, call_id):
    return {"calls": [{"name": "diary::note", "arguments": {"line": line}, "call_id": call_id}]}


def notes(nodes):
    return (nodes.folder / "notes.txt").read_text().splitlines()


def test_a_session_begun_on_one_node_continues_on_the_other(pair):
    first, second = pair.running
    assert first.ask("/v1/sessions", {"session_id": "s"})[0] == 201
    for number, node in enumerate([first, second, second, first]):
        status, answer = node.ask("/v1/sessions/s/execute", note(f"line {number}", f"c{number}"))
        assert status == 200, answer
        assert answer["results"][0]["result"] == f"line {number}"
    views = [node.ask("/v1/sessions/s")[1] for node in pair.running]
    assert views[0] == views[1]
    assert views[0]["entries"] == 4
    histories = [read_history(pair, index, "s") for index in (0, 1)]
    assert histories[0] == histories[1]
    assert [entry["tool_output"]["result"] for entry in histories[0]] == notes(pair)


def test_a_call_id_answered_by_one_node_is_replayed_by_the_other(pair):
    first, second = pair.running
    assert first.ask("/v1/sessions", {"session_id": "s"})[0] == 201
    told = first.ask("/v1/sessions/s/execute", note("once", "c"))
    assert second.ask("/v1/sessions/s/execute", note("once", "c")) == told
    status, answer = second.ask("/v1/sessions/s/execute", note("another", "c"))
    assert (status, answer["results"][0]["error_info"]["code"]) == (200, "call.conflict")
    assert notes(pair) == ["once"]


def test_an_invocation_answered_by_one_node_is_replayed_by_the_other(pair):
    body = {"invocation_id": "i", "tool_name": "diary::note", "args": {"line": "once"}}
    first, second = (node.ask("/arp/v1/tool-invocations", body) for node in pair.running)
    assert first == second
    assert first[1]["ok"]
    status, _ = pair.running[1].ask("/arp/v1/tool-invocations", {**body, "args": {"line": "another"}})
    assert status == 409
    assert notes(pair) == ["once"]


def test_a_key_works_on_both_nodes_and_a_revoked_one_on_none(pair):
    made = run_key(pair.folder, "create", "ci", "--scope", "diary:*")
    asked = {"Authorization": f"Bearer {made['token']}"}
    for node in pair.running:
        until(lambda node=node: node.ask("/v1/tools")[0] == 401)
        assert node.ask("/v1/tools", **asked)[0] == 200
    run_key(pair.folder, "revoke", made["id"])
    for node in pair.running:
        assert node.ask("/v1/tools", **asked)[0] == 401


def test_a_tool_registered_on_one_node_appears_on_the_other_and_goes_again(pair):
    body = {"description": "made up", "binding": {"type": "simulator"}}
    link = Link(pair)
    assert link.ask(0, "PUT", "/v1/tools/made::up", body)[0] == 201
    until(lambda: link.ask(1, "GET", "/v1/tools/made::up")[0] == 200)
    assert link.ask(1, "DELETE", "/v1/tools/made::up")[0] == 204
    until(lambda: link.ask(0, "GET", "/v1/tools/made::up")[0] == 404)
    link.close()


def test_a_node_killed_under_load_loses_nothing_acknowledged_and_nothing_runs_twice(pair):
    rounds = Rounds(pair, random.Random("nodes"))
    for number in range(2):

        def kill(index=number % 2):
            pair.kill(index)
            pair.start(index)

        rounds.run(kill)
    assert rounds.summary["acknowledged"] > 20


def test_a_worker_killed_under_load_loses_nothing_acknowledged_and_is_replaced(tmp_path):
    write_yard(tmp_path, {"store": "sqlite", "path": "s.db"})
    rng = random.Random("workers")
    with Nodes(tmp_path, 1, "--workers", "2") as nodes:
        server = nodes.running[0]
        rounds = Rounds(nodes, rng)
        for _ in range(2):
            killed = []
            rounds.run(lambda killed=killed: killed.append(kill_worker(server, rng)))
            until(lambda killed=killed: len(workers_of(server.pid)) == 2 and killed[0] not in workers_of(server.pid))
    assert rounds.summary["acknowledged"] > 20
