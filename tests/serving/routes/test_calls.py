"""The call log over HTTP: who sees what, filters, pages, and questions that are none."""

from itertools import product

import pytest
from waiting import until

from conftest import chosen_way, ways_to_try
from serving.service_support import CORE, served


def config_of(kind, folder, **tracing):
    config = {**CORE, **({"tracing": tracing} if tracing else {})}
    if kind == "sqlite":
        config["sessions"] = {"store": "sqlite", "path": str(folder / "s.db")}
    return config


@pytest.fixture(params=ways_to_try("memory", "sqlite"))
def yard(request, tmp_path):
    with served(config_of(chosen_way(request), tmp_path)) as server:
        yield server


def listed(yard, query="", count=None, **options):
    """The calls of a page, once there are so many."""
    read = lambda: yard.get(f"/v1/calls{query}", **options).json["calls"]  # noqa: E731
    if count is not None:
        until(lambda: len(read()) >= count)
    return read()


def test_calls_of_every_wire_are_listed_newest_first_and_one_by_its_id(yard):
    yard.invoke("echo", {"text": "hidden words"}, headers={"x-request-id": "r-1"})
    yard.post("/v1/sessions", {"session_id": "s"})
    yard.post("/v1/sessions/s/execute", {"calls": [{"name": "core::echo", "arguments": {"text": "x"}, "call_id": "c"}]})
    yard.post("/v1/calls", {"calls": [{"name": "core::nothing"}], "mode": "simulate"})
    yard.arp("i-1", "echo", {"text": "x"})
    calls = listed(yard, count=4)
    assert [line["tool"] for line in calls] == ["core::echo", "core::nothing", "core::echo", "core::echo"]
    _, failed, inside, first = calls
    assert (failed["code"], failed["mode"], failed["effect"]) == ("tool.not_found", "simulate", "none")
    assert (inside["session_id"], inside["call_id"], inside["seq"]) == ("s", "c", 1)
    assert first["request_id"] == "r-1" and "session_id" not in first and "code" not in first
    assert first["argument_bytes"] > 0 and first["duration_ms"] >= 0
    assert b"hidden words" not in yard.get("/v1/calls").body
    assert yard.get(f"/v1/calls/{inside['id']}").json == inside


def test_each_filter_of_the_call_log_selects_its_calls(yard):
    for _ in range(4):
        yard.invoke("echo", {"text": "x"})
    yard.post("/v1/calls", {"calls": [{"name": "core::nothing"}]})
    listed(yard, count=5)
    for query, count in (
        ("?tool=core::*", 5),
        ("?tool=core::e*", 4),
        ("?namespace=core", 5),
        ("?namespace=other", 0),
        ("?errors=true", 1),
        ("?errors=false", 5),
        ("?code=tool.not_found", 1),
        ("?mode=simulate", 0),
        ("?effect=none", 1),
        ("?session=s", 0),
        ("?key=nobody", 0),
        ("?since=2020-01-01T00:00:00Z", 5),
        ("?until=2020-01-01", 0),
        ("?since=2999-01-01T00:00:00%2B02:00", 0),
        ("?since=1h", 5),
        ("?until=1h", 0),
    ):
        assert len(listed(yard, query)) == count, query


def test_pages_go_on_where_the_last_one_stopped_though_calls_are_made_meanwhile(yard):
    for _ in range(7):
        yard.invoke("echo", {"text": "x"})
    all_ids = [line["id"] for line in listed(yard, count=7)]
    found, cursor = [], ""
    while True:
        page = yard.get(f"/v1/calls?limit=3&tool=core::*&since=1h{cursor}").json
        found += [line["id"] for line in page["calls"]]
        yard.invoke("echo", {"text": "later"})
        if "next_cursor" not in page:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == all_ids


def test_cursors_that_were_made_up_or_belong_to_other_filters_are_refused_with_words(yard):
    for _ in range(3):
        yard.invoke("echo", {"text": "x"})
    listed(yard, count=3)
    good = yard.get("/v1/calls?limit=1").json["next_cursor"]
    for bad in (
        "?cursor=",
        "?cursor=1",
        "?cursor=AAAA",
        "?cursor=%C3%A9",
        f"?cursor={good[:-1]}",
        f"?errors=true&cursor={good}",
    ):
        answer = yard.get(f"/v1/calls{bad}")
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_query")
        assert "next_cursor" in answer.error["message"]


def test_an_invalid_filter_of_the_call_log_is_a_400(yard):
    numbers = ["?since=yesterday", "?until=1e999", "?limit=0", "?limit=1001"]
    for query in (*numbers, "?mode=dream", "?errors=1", "?tools=x", "?tool="):
        assert yard.get(f"/v1/calls{query}").status == 400, query


def test_an_id_that_no_call_has_is_a_404(yard):
    for name in ("0" * 16, "nonsense", "%00", "f" * 16):
        answer = yard.get(f"/v1/calls/{name}")
        assert (answer.status, answer.error["code"]) == (404, "call.not_found")


def test_a_key_sees_its_own_calls_and_an_admin_all(tmp_path):
    with served(config_of("sqlite", tmp_path)) as yard:
        admin = yard.key("*:*", name="admin")
        ann, bob = yard.key("*:list,execute", name="ann"), yard.key("core:list,execute,admin", name="bob")
        for token in (ann, bob, bob):
            assert yard.invoke("echo", {"text": "x"}, token=token).status == 200
        everything = listed(yard, count=3, token=admin)
        keys = {line["key"] for line in everything}
        assert len(keys) == 2
        assert len(listed(yard, token=ann)) == 1 and len(listed(yard, token=bob)) == 2
        (own,) = listed(yard, token=ann)
        others = next(key for key in keys if key != own["key"])
        assert listed(yard, f"?key={others}", token=ann) == []
        assert len(listed(yard, f"?key={others}", token=admin)) == 2
        foreign = next(line["id"] for line in everything if line["key"] == others)
        assert yard.get(f"/v1/calls/{foreign}", token=ann).status == 404
        assert yard.get(f"/v1/calls/{foreign}", token=admin).status == 200
        assert yard.get("/v1/calls").status == 401
        # A cursor of somebody else's list is none of one's own.
        cursor = yard.get("/v1/calls?limit=1", token=bob).json["next_cursor"]
        assert yard.get(f"/v1/calls?limit=1&cursor={cursor}", token=ann).status == 400


def test_without_a_log_there_is_nothing_to_list_and_calls_go_on(tmp_path):
    with served(config_of("memory", tmp_path, log=False)) as yard:
        assert yard.invoke("echo", {"text": "x"}).status == 200
        answer = yard.get("/v1/calls")
        assert (answer.status, answer.error["code"]) == (404, "route.not_found")
        assert "tracing.log" in str(answer.error)


def test_every_list_refuses_a_cursor_that_it_did_not_give_in_the_same_words(yard):
    words = "cursor does not belong to this list: use next_cursor of the previous page, with the same filters"
    paths = ("/v1/tools", "/v1/sessions", "/v1/approvals", "/v1/calls")
    for path, cursor in product(paths, ("", "zzz", "nan~x", "x" * 300, "%C3%A9")):
        answer = yard.get(f"{path}?cursor={cursor}")
        assert (answer.status, answer.error["code"], answer.error["message"]) == (400, "request.invalid_query", words)
