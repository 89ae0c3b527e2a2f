"""What all clients of MCP are served with: lists, names, notices of tools, and what goes on beside requests."""

import json
import re
import string
import threading

import pytest
from hypothesis import given, strategies as st
from waiting import until

from serving.mcp.mcp_support import Session, SseClient, Stateless, make_request, read_error, read_events, read_result
from serving.service_support import CORE, desk_tools, served
from toolyard import Tool, ToolContext, ToolRegistry, function_tool
from toolyard.app.blocks import McpBlock
from toolyard.model.errors import SessionError
from toolyard.serving.invoke import ServedNames
from toolyard.serving.mcp.server import McpNames


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


class InvalidNotice:
    """What cannot even be shown."""

    def __repr__(self):
        raise ValueError("no")


def odd(ctx: ToolContext) -> str:
    """Logs what is no JSON."""
    loop = []
    loop.append(loop)
    for data in (object(), InvalidNotice(), loop, "\ud800", {1, 2}, {"deep": {("a", 1): 2}}):
        ctx.log(data, "warning")
    ctx.log("odd level", ["x"])
    ctx.report("much")
    return "said"


def test_data_that_is_not_json_is_logged_as_its_repr():
    with served(tools=[function_tool(odd, namespace="desk")]) as found:
        params = {"name": "desk__odd", "_meta": {"progressToken": "p"}}
        answer = Session(found).send("tools/call", params)
        assert read_result(answer)["structuredContent"] == {"result": "said"}
        told = [
            each["params"]["data"] for each in read_events(answer.body) if each.get("method") == "notifications/message"
        ]
        assert re.match("<object object", told[0])
        assert told[1] == "<InvalidNotice>"
        assert len(told) >= 6


def many(count, namespace="many"):
    """As many tools as are wanted; nothing is behind them, so they are simulated."""
    return [
        Tool(f"tool_{number}", namespace, f"The tool number {number}.", {"type": "object"}) for number in range(count)
    ]


def pages(client):
    """Every page, until there is no cursor any more."""
    found, cursor = [], None
    while True:
        page = client.tools(**({} if cursor is None else {"cursor": cursor}))
        found.append([tool["name"] for tool in page["tools"]])
        cursor = page.get("nextCursor")
        if cursor is None:
            return found


def test_pages_together_have_every_tool_once():
    with served(tools=many(25), mcp=McpBlock(page_size=10)) as found:
        listed = pages(Stateless(found))
        assert [len(page) for page in listed] == [10, 10, 8]
        names = [name for page in listed for name in page]
        assert len(set(names)) == len(names) == 28


def test_a_list_that_ends_with_a_page_has_no_empty_one():
    with served({"tools": []}, tools=many(20), mcp=McpBlock(page_size=10)) as found:
        assert [len(page) for page in pages(Stateless(found))] == [10, 10]


def test_no_tools_are_an_empty_list():
    with served({"tools": []}) as found:
        assert pages(Stateless(found)) == [[]]


def test_a_cursor_of_another_list_is_refused():
    with served(tools=many(25), mcp=McpBlock(page_size=10)) as found:
        client = Stateless(found)
        cursor = client.tools()["nextCursor"]
        registry = found.service.yard.tool_registry
        registry.refresh()
        assert client.tools(cursor=cursor)["tools"], "loading the same again changes nothing"
        registry.remove("many::tool_3")
        answer = client.send("tools/list", {"cursor": cursor})
        assert (answer.status, answer.json["error"]["code"]) == (400, -32602)
        assert [len(page) for page in pages(client)] == [10, 10, 7]


@pytest.mark.parametrize("cursor", ["", "0", "10", "x" * 5000, "AAAA", "ä", 3, True, {}])
def test_an_invented_cursor_is_refused(cursor):
    with served(tools=many(25), mcp=McpBlock(page_size=10)) as found:
        assert Stateless(found).send("tools/list", {"cursor": cursor}).json["error"]["code"] == -32602


def test_a_cursor_cannot_be_changed():
    with served(tools=many(25), mcp=McpBlock(page_size=10)) as found:
        client = Stateless(found)
        cursor = client.tools()["nextCursor"]
        for place in range(len(cursor)):
            other = "A" if cursor[place] != "A" else "B"
            changed = cursor[:place] + other + cursor[place + 1 :]
            assert "error" in client.send("tools/list", {"cursor": changed}).json or place == len(cursor) - 1


def test_five_thousand_tools_are_listed_and_called():
    with served(tools=many(5000)) as found:
        client = Stateless(found)
        listed = pages(client)
        assert [len(page) for page in listed] == [1000, 1000, 1000, 1000, 1000, 3]
        assert read_result(client.call("many__tool_4999"))["structuredContent"] == {"status": "success"}


def test_overloads_have_names_of_their_own():
    with served(tools=desk_tools()) as found:
        client = Stateless(found)
        names = [
            tool["name"]
            for tool in client.tools()["tools"]
            if tool["name"].startswith("desk") and "where" in tool["name"]
        ]
        assert len(names) == 2
        places = [read_result(client.call(name, {"city": "Rome"})) for name in names]
        assert [place["isError"] for place in places] == [False, True]


NAMES = st.text(alphabet=string.ascii_letters + string.digits + "_.-/", min_size=1, max_size=70)


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=8, unique=True), st.data())
def test_names_are_unique_allowed_and_lead_back(pairs, data):
    tools = [Tool(name, namespace, "", {"type": "object"}) for namespace, name in pairs]
    domains = data.draw(st.sets(st.sampled_from([namespace for namespace, _ in pairs])))
    snapshot = ToolRegistry(tools).snapshot
    bare = data.draw(st.booleans())
    names = McpNames(ServedNames(snapshot, domains), {"search_tools"}, bare=bare)
    spelt = [names.spell_tool(tool) for tool in tools]
    assert len(set(spelt)) == len(tools)
    for tool, name in zip(tools, spelt, strict=True):
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name)
        assert name != "search_tools"
        found = names.find_listed(name)
        assert (found.name, found.overload) == (tool.qualified_name, None)


def test_a_bare_name_that_passes_for_another_tool_is_not_used():
    tools = [Tool("a__b", "core", "", {"type": "object"}), Tool("b", "a", "", {"type": "object"})]
    snapshot = ToolRegistry(tools).snapshot
    names = McpNames(ServedNames(snapshot, {"core"}))
    assert names.find_listed(names.spell_tool(tools[0])).name == "core::a__b"
    assert names.find_listed("a__b").name == "a::b"


def test_names_may_be_bare_where_no_other_tool_has_them():
    kinds = [("add", "one"), ("add", "two"), ("sub", "one"), ("a/b", "one"), ("search_tools", "one")]
    with served(tools=[_tool(*kind) for kind in kinds], mcp=McpBlock(names="bare", expose="all")) as found:
        client = Stateless(found)
        listed = [tool["name"] for tool in client.tools()["tools"]]
        assert {"one__add", "two__add", "sub", "search_tools"} <= set(listed)
        assert "add" not in listed and "a/b" not in listed
        # Whatever a list shows, the other names are taken too.
        for name in ("sub", "one__sub", "one::sub", "two__add", "two::add"):
            assert read_result(client.call(name))["structuredContent"] == {"result": name[-3:]}
        assert client.call("add").status == 400
    with served(tools=[_tool("search_tools", "one")], mcp=McpBlock(names="bare", expose="search")) as found:
        answer = read_result(Stateless(found).call("search_tools", {"query": "search"}))
        (line,) = [each for each in answer["structuredContent"]["tools"] if "search_tools" in each["name"]]
        assert line["name"] == "one__search_tools", "the face's own tool comes first"


def _tool(name, namespace):
    return function_tool(lambda: name, name=name, namespace=namespace, description="Says its name.")


SEARCH = McpBlock(expose="search")


def test_in_search_mode_a_client_sees_two_tools():
    with served(tools=many(5000), mcp=SEARCH) as found:
        client = Stateless(found)
        assert pages(client) == [["search_tools", "call_tool"]]
        schema = client.tools()["tools"][0]["inputSchema"]
        assert set(schema["properties"]) == {"query", "k", "namespace", "tags", "threshold"}
        assert schema["required"] == ["query"]


def test_found_tools_can_be_called():
    with served(tools=[*desk_tools(), *many(5000)], mcp=SEARCH) as found:
        client = Stateless(found)
        found_now = read_result(client.call("search_tools", {"query": "add two numbers", "k": 3.0}))[
            "structuredContent"
        ]
        assert found_now["search"] in ("hybrid", "lexical")
        hits = found_now["tools"]
        assert 1 <= len(hits) <= 3
        hit = next(each for each in hits if each["name"] == "desk__add")
        assert 0 < hit["score"] <= 1
        assert hit["inputSchema"]["required"] == ["a", "b"]
        called = read_result(client.call("call_tool", {"name": hit["name"], "arguments": {"a": 1, "b": 2}}))
        assert called["structuredContent"] == {"result": 3}
        narrow = client.call("search_tools", {"query": "tool", "namespace": "desk"})
        assert all(each["name"].startswith("desk") for each in read_result(narrow)["structuredContent"]["tools"])
        assert read_result(client.call("search_tools", {"query": "zzz"}))["structuredContent"]["tools"] == []


def test_a_search_is_narrowed_by_tags_and_a_threshold():
    with served(tools=desk_tools(), mcp=SEARCH) as found:

        def names(**arguments):
            answer = read_result(Stateless(found).call("search_tools", arguments))
            return [each["name"] for each in answer["structuredContent"]["tools"]]

        assert set(names(query="sums", tags=["sums"])) == {"desk__add", "desk__count"}
        assert names(query="sums", tags=["sums", "effects"]) == ["desk__count"]
        assert names(query="desk__add", tags=["nothing"]) == []
        assert names(query="desk__add", threshold=1)[:1] == ["desk__add"]
        assert names(query="nothing of the kind", threshold=0.99) == []


def test_errors_of_the_search_mode_are_those_of_any_call():
    with served(tools=desk_tools(), mcp=SEARCH) as found:
        client = Stateless(found)
        wrong = read_result(client.call("search_tools", {"query": "x", "k": 0}))
        assert wrong["structuredContent"]["error"]["code"] == "tool.invalid_args"
        assert read_result(client.call("call_tool", {}))["structuredContent"]["error"]["code"] == "tool.invalid_args"
        unknown = client.call("call_tool", {"name": "nothing"})
        assert unknown.json["error"]["code"] == -32602
        failed = read_result(client.call("call_tool", {"name": "desk__refuse", "arguments": {"reason": "x"}}))
        assert read_error(failed)["code"] == "tool.execution_error"


def test_a_search_shows_only_what_a_key_may_see(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config, tools=desk_tools(), mcp=SEARCH) as found:
        client = Stateless(found, token=found.key("desk:list"))
        hits = read_result(client.call("search_tools", {"query": "echo add"}))["structuredContent"]["tools"]
        assert hits[0]["name"] == "desk__add"
        assert all(each["_meta"]["toolyard/qualified_name"].startswith("desk::") for each in hits)
        hidden = client.call("call_tool", {"name": "echo", "arguments": {"text": "x"}})
        assert hidden.json["error"]["code"] == -32602


def counted(word: str) -> str:
    """Keep a word."""
    return word


def test_an_mcp_client_opens_forks_and_simulates_sessions():
    with served(tools=[function_tool(counted, namespace="desk")], mcp=McpBlock(sessions=True)) as found:
        client = Stateless(found)
        names = [tool["name"] for tool in client.tools()["tools"]]
        prefix = "toolyard.session_"
        assert [name for name in names if name.startswith(prefix)] == [
            prefix + each for each in ("open", "fork", "simulate", "execute", "state", "close")
        ]

        def ask(name, **arguments):
            return read_result(client.call(prefix + name, arguments))

        opened = ask("open")["structuredContent"]
        one = opened["session_id"]
        calls = [{"name": "desk__counted", "arguments": {"word": "a"}}]
        done = ask("execute", session_id=one, calls=calls)["structuredContent"]["results"]
        assert done[0]["result"] == "a"
        branch = ask("fork", fork_of=one)["structuredContent"]
        assert branch["entries"] == 1
        assert ask("fork", fork_of=one, at=0)["structuredContent"]["entries"] == 0
        assert ask("fork", fork_of=one, at=2)["structuredContent"]["error"]["code"] == "session.no_entry"
        assert ask("simulate", session_id=one, calls=calls)["structuredContent"]["results"][0]["result"] == "a"
        state = ask("state", session_id=one)["structuredContent"]
        assert len(state["state"]["tool_executions"]) == 1
        assert state["state_hash"] == branch["state_hash"]
        assert ask("close", session_id=one)["structuredContent"] == {"closed": True}
        gone = ask("state", session_id=one)
        assert (gone["isError"], gone["structuredContent"]["error"]["code"]) == (True, "session.not_found")
        twice = ask("open", session_id=branch["session_id"])
        assert twice["structuredContent"]["error"]["code"] == "session.exists"
        assert ask("open", initial_state={"x": 1})["isError"] is True


def test_sessions_are_off_unless_they_are_switched_on():
    with served() as found:
        client = Stateless(found)
        assert client.call("toolyard.session_open").json["error"]["code"] == -32602


def test_sessions_of_a_key_have_its_quota(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config, mcp=McpBlock(sessions=True), sessions_per_key=1) as found:
        mine, other = Stateless(found, token=found.key("*:*")), Stateless(found, token=found.key("*:*"))
        opened = read_result(mine.call("toolyard.session_open"))["structuredContent"]["session_id"]
        refused = read_result(mine.call("toolyard.session_open"))
        assert refused["structuredContent"]["error"]["code"] == "session.quota"
        hidden = read_result(other.call("toolyard.session_state", {"session_id": opened}))
        assert hidden["structuredContent"]["error"]["code"] == "session.not_found"


def test_lists_are_the_same_in_both_kinds_of_version():
    with served(tools=desk_tools()) as found:
        old = read_result(Session(found).send("tools/list"))
        new = Stateless(found).tools()
        assert old["tools"] == new["tools"]
        assert set(old) == {"tools"}


def test_what_the_openapi_document_says_is_not_changed_by_it():
    with served() as found:
        assert not [path for path in found.get("/openapi.json").json["paths"] if "mcp" in path or "sse" in path]
        assert json.dumps(make_request("x"))
