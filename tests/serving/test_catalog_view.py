"""What a policy denies a caller whatever they send is shown to them on no face, and calling it is denied."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from serving.console.page_app import sign_in
from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import served
from toolyard.app.blocks import McpBlock
from toolyard.calls.policy import Budget, Policy, Rule
from toolyard.model.tool import Effects, Hit, SearchResults, Tool
from toolyard.registry import ToolRegistry
from toolyard.serving.catalog_view import CatalogView, SnapshotCache
from toolyard.serving.identity import ALL, Principal, read_scopes
from toolyard.serving.invoke import CurrentNames

NAMES = ("read", "pay", "wipe", "ask", "team", "spent", "night", "later")
TOOLS = [
    {"name": name, "description": f"Move money {name}.", "tags": ["risky"] if name == "wipe" else []} for name in NAMES
]
POLICY = {
    "rules": [
        {"allow": "bank::team", "keys": "trusted"},
        {"deny": ["bank::pay", "bank::team"]},
        {"deny": "*", "tags": "risky"},
        {"ask": "bank::ask"},
        {"deny": "bank::night", "sessions": "night-*"},
        {"allow": "bank::later", "sessions": "later-*"},
        {"deny": "bank::later"},
    ],
    "budgets": [{"max_calls": 0, "tools": "bank::spent"}],
}
SHOWN = {"bank::read", "bank::ask", "bank::night"}


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    config = {
        "tools": [{"type": "inline", "namespace": "bank", "tools": TOOLS}],
        "sessions": {"store": "sqlite", "path": str(tmp_path_factory.mktemp("shown") / "s.db")},
        "policy": POLICY,
    }
    with served(config, page=True, mcp=McpBlock(sessions=True)) as server:
        server.tokens = {name: server.key("bank:*", name=name) for name in ("trusted", "other")}
        yield server


def bank_names(text):
    """The qualified names in a list of whichever form, wire names spelt back."""
    return {f"bank::{name}" for name in re.findall(r"bank(?:::|__|%3A%3A)([a-z]+)", text)}


def faces(yard, token):
    """Every list and search there is, as one text each."""
    for path in ("/v1/tools", "/v1/tools?limit=100", "/v1/tools?q=move+money", "/arp/v1/tools"):
        yield path, yard.get(path, token=token).body.decode()
    for spelling in ("openai", "openai-responses", "anthropic", "gemini", "mcp"):
        yield spelling, yard.get(f"/v1/tools?format={spelling}", token=token).body.decode()
    yield "tools/list", str(Stateless(yard, token).tools())
    with httpx.Client(verify=False, base_url=f"http://127.0.0.1:{yard.port}") as page:
        page.headers["origin"] = str(page.base_url).rstrip("/")
        sign_in(page, token)
        yield "console", page.get("/console/tools").text
        yield "console search", page.get("/console/tools?q=move+money").text
        yield "console twin", page.get("/console/tools.json").text


@pytest.mark.parametrize(("name", "more"), [("other", set()), ("trusted", {"bank::team"})])
def test_lists_and_searches_of_every_face_leave_out_what_is_always_denied(yard, name, more):
    found = {face: bank_names(text) for face, text in faces(yard, yard.tokens[name])}
    assert found == dict.fromkeys(found, SHOWN | more)
    hidden = yard.get("/v1/tools/bank::pay", token=yard.tokens[name])
    assert hidden.status == 404 and "bank::pay" not in str(hidden.json.get("details"))


def test_what_is_not_shown_is_denied_when_it_is_called_and_not_unknown(yard):
    token = yard.tokens["other"]
    for name in ("pay", "wipe", "team", "spent", "later"):
        assert yard.invoke(f"bank::{name}", {}, token=token).json["error"]["code"] == "tool.denied"
        assert yard.invoke(f"bank__{name}", {}, token=token).json["error"]["code"] == "tool.denied"
        assert yard.arp(f"id-{name}", f"bank::{name}", {}, token=token).json["error"]["code"] == "tool.denied"
        called = read_result(Stateless(yard, token).call(f"bank__{name}"))
        assert called["structuredContent"]["error"]["code"] == "tool.denied"
    assert yard.invoke("bank::read", {}, token=token).status == 200


@pytest.mark.parametrize("name", ["bank::pya", "bank::wip", "pya", "bank__tea", "spen", "bank::late", "bankk::pay"])
def test_it_is_not_suggested_for_a_name_like_it_on_any_face(yard, name):
    token = yard.tokens["other"]
    yard.post("/v1/sessions", {"session_id": "s"}, token=token)
    answers = [
        yard.invoke(name, {}, token=token),
        yard.arp(f"like-{name}", name, {}, token=token),
        *(
            yard.post(f"/v1/sessions/s/{verb}", {"calls": [{"name": name}]}, token=token)
            for verb in ("execute", "simulate")
        ),
        yard.get(f"/v1/tools/{name}", token=token),
    ]
    answers = [str(answer.json) for answer in answers] + [str(Stateless(yard, token).call(name))]
    assert all("no tool is called" in answer for answer in answers)
    assert bank_names("".join(answers).replace(name, "")) <= SHOWN


def test_a_bare_name_means_the_one_tool_that_is_shown_and_only_shown_ones_are_named_where_there_are_several():
    tools = [
        {"type": "inline", "namespace": space, "tools": [{"name": "pay"}]} for space in ("bank", "shop", "till", "void")
    ]
    rules = [{"deny": ["void::*", "till::*"]}]
    with served({"tools": tools[1:], "policy": {"rules": rules}}) as server:
        assert server.invoke("pay", {}).json["ok"]
        assert server.get("/v1/tools/pay").json["name"] == "shop::pay"
    with served({"tools": tools, "policy": {"rules": rules}}) as server:
        assert server.invoke("pay", {}).json["error"]["details"]["candidates"] == ["bank::pay", "shop::pay"]
        # A key that may call without listing.
        assert server.invoke("pay", {}, token=server.key("bank:execute", "void:execute")).json["ok"]


def test_a_search_over_mcp_leaves_it_out_too_and_so_does_a_server_without_keys():
    config = {"tools": [{"type": "inline", "namespace": "bank", "tools": TOOLS}], "policy": POLICY}
    with served(config, mcp=McpBlock(expose="search")) as server:
        found = read_result(Stateless(server).call("search_tools", {"query": "move money", "k": 50}))
        assert bank_names(str(found["structuredContent"])) == SHOWN
        assert bank_names(server.get("/v1/tools").body.decode()) == SHOWN


@pytest.mark.parametrize(
    ("rules", "default", "denied"),
    [
        ([], "deny", True),
        ([], "ask", False),
        ([Rule("allow", "*", sessions=("a",))], "deny", True),
        ([Rule("allow", "*", sessions=("a",), keys=("k",))], "deny", False),
        ([Rule("allow", "*", keys=("other",))], "deny", True),
        ([Rule("ask", "*", sessions=("a",))], "deny", False),
        ([Rule("deny", "*", sessions=("a",))], "allow", False),
        ([Rule("deny", "*", sessions=("*",))], "allow", True),
        ([Rule("deny", "*", keys=("k",))], "allow", True),
        ([Rule("deny", "*", effects=(Effects.WRITE,))], "allow", False),
    ],
)
def test_a_policy_knows_what_it_denies_whatever_is_sent(rules, default, denied):
    assert Policy(rules, default).always_denies(Tool("t", "n", effects=Effects.READ), ("k",)) is denied


def test_a_budget_of_none_denies_always_and_one_that_is_used_up_does_not():
    tool = Tool("t", "n")
    assert Policy(budgets=[Budget(0)]).always_denies(tool, ())
    assert not Policy(budgets=[Budget(1)]).always_denies(tool, ())


@pytest.mark.parametrize(
    ("rules", "default", "held"),
    [
        ([Rule("ask")], "allow", True),
        ([], "ask", True),
        ([Rule("allow"), Rule("ask")], "allow", False),
        ([Rule("allow", keys="k"), Rule("ask")], "allow", False),
        ([Rule("allow", keys="other"), Rule("ask")], "allow", True),
        ([Rule("ask", keys="other")], "allow", False),
        ([Rule("deny", sessions="night-*"), Rule("ask")], "allow", True),
        ([Rule("ask", sessions="night-*")], "allow", True),
        ([Rule("ask", effects=(Effects.WRITE,))], "allow", False),
    ],
)
def test_a_tool_is_held_for_a_caller_if_a_rule_asks_in_some_session_of_theirs(rules, default, held):
    tool, caller = Tool("t", "n", effects=Effects.READ), Principal("k", "someone", ALL)
    registry = ToolRegistry([tool])
    names = CurrentNames(registry, ())
    assert CatalogView(registry, names, Policy(rules, default)).is_held(caller, tool) is held
    assert not CatalogView(registry, names, None).is_held(caller, tool)


def test_the_console_marks_what_is_held(yard):
    rows = yard.get("/console/tools.json", token=yard.tokens["other"]).json["rows"]
    assert {row["name"] for row in rows if row["held"]} == {"bank::ask"}
    assert yard.get("/console/tools/bank::ask.json", token=yard.tokens["other"]).json["held"]


BAD = {"name": "pay", "description": "", "parameters": {"type": "object", "properties": {"to": {"type": "money"}}}}


@pytest.fixture(scope="module")
def rejecting(tmp_path_factory):
    config = {
        "tools": [{"type": "inline", "namespace": "bank", "tools": [{"name": "read"}, BAD], "on_error": "skip"}],
        "sessions": {"store": "sqlite", "path": str(tmp_path_factory.mktemp("rejected") / "s.db")},
    }
    with served(config, page=True) as server:
        yield server


def ask_every_face_for_a_rejected_tool(yard, token):
    for name in ("pay", "bank::pay", "bank__pay"):
        yield yard.invoke(name, {}, token=token)
        yield yard.post("/v1/calls", {"calls": [{"name": name, "arguments": {}}]}, token=token)
        yield yard.arp(f"{name} {token}", name, {}, token=token)
        yield Stateless(yard, token).call(name)
        yield yard.get(f"/v1/tools/{name}", token=token)
        yield yard.get(f"/console/tools/{name}", token=token)
    by_id = {"invocation_id": f"id {token}", "tool_id": "tool_bank::pay", "args": {}}
    yield yard.post("/arp/v1/tool-invocations", by_id, token=token)
    yield yard.get("/arp/v1/tools/tool_bank::pay", token=token)


def test_every_face_says_of_a_rejected_tool_that_it_was_and_why(rejecting):
    for answer in ask_every_face_for_a_rejected_tool(rejecting, rejecting.key("*:list,execute")):
        assert b"was rejected when it was loaded" in answer.body and b"money" in answer.body, answer
        assert b"tool.not_found" in answer.body


def test_who_sees_but_a_part_of_the_catalog_is_told_of_no_rejection(rejecting):
    for answer in ask_every_face_for_a_rejected_tool(rejecting, rejecting.key("ba*:list,execute")):
        assert b"tool.not_found" in answer.body and b"rejected" not in answer.body


def test_what_a_caller_sees_is_worked_out_once_for_each_catalog_and_key():
    registry = ToolRegistry([Tool("read", "bank"), Tool("pay", "bank")])
    policy = Policy([Rule("allow", "*", keys=["trusted"]), Rule("deny", "bank::pay")])
    catalog = CatalogView(registry, CurrentNames(registry, ()), policy)
    trusted, other = (Principal(key_id=name, name=name, scopes=ALL) for name in ("trusted", "other"))
    before = registry.snapshot
    seen = catalog.list_visible(other, before)
    assert catalog.list_visible(other, before) is seen
    assert [tool.name for tool in seen] == ["read"] and len(catalog.list_visible(trusted, before)) == 2
    registry.add(Tool("late", "bank"))
    assert [tool.name for tool in catalog.list_visible(other, registry.snapshot)] == ["read", "late"]
    assert [tool.name for tool in catalog.list_visible(other, before)] == ["read"]


@pytest.mark.parametrize(("mode", "kept"), [("hybrid", True), ("lexical", False)])
def test_a_repeated_search_is_answered_from_the_first_unless_vectors_were_still_missing(monkeypatch, mode, kept):
    registry = ToolRegistry([Tool("read", "bank")])
    catalog = CatalogView(registry, CurrentNames(registry, ()), None)
    trusted, other = Principal("1", "trusted", ALL), Principal("2", "other", read_scopes(["shop:list"]))
    asked = []

    def search(snapshot, query, k, **conditions):
        asked.append((query, k, *conditions.items()))
        return SearchResults([Hit(snapshot.tools[0], 1.0, "sure", {})], mode=mode)

    monkeypatch.setattr(registry.searcher, "search", search)
    first = catalog.search(trusted, registry.snapshot, "read", 5, threshold=None)
    assert (catalog.search(trusted, registry.snapshot, "read", 5, threshold=None) is first) is kept
    asked.clear()
    for principal, query, k, conditions in (
        (other, "read", 5, {"threshold": None}),
        (trusted, "write", 5, {"threshold": None}),
        (trusted, "read", 6, {"threshold": None}),
        (trusted, "read", 5, {"threshold": 0.5}),
        (trusted, "read", 5, {"threshold": None, "tags": frozenset({"a"})}),
        (trusted, "read", 5, {"threshold": None, "where": lambda tool: True}),
    ):
        catalog.search(principal, registry.snapshot, query, k, **conditions)
    assert len(asked) == 6, "another caller, query or condition got the answer of the first"
    registry.add(Tool("late", "bank"))
    assert catalog.search(trusted, registry.snapshot, "read", 5, threshold=None) is not first and len(asked) == 7


def test_threads_that_keep_more_than_there_is_room_for_do_not_fail_each_other():
    cache, snapshot, before = SnapshotCache(), object(), sys.getswitchinterval()

    def keep_many(thread):
        for number in range(20_000):
            cache.put(snapshot, (thread, number), number)
        return cache.get(snapshot, (thread, number))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            kept = list(threads.map(keep_many, range(4)))
    finally:
        sys.setswitchinterval(before)
    assert 19_999 in kept
