"""The catalog over HTTP: filters, search, pages, and the providers' spellings."""

import pytest

from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import desk_tools, served
from toolyard import Tool, ToolCall, function_tool
from toolyard.app.blocks import McpBlock
from toolyard.client import RemoteToolEngine


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools()) as server:
        yield server


def names(answer):
    assert answer.status == 200, answer
    return [tool["qualified_name"] for tool in answer.json["tools"]]


def test_any_query_parameter_asks_for_whole_definitions(yard):
    answer = yard.get("/v1/tools?limit=1000")
    assert set(answer.json) == {"tools", "generation"}
    tool = answer.json["tools"][0]
    assert tool["qualified_name"] == "core::echo"
    assert {"fingerprint", "definition_hash", "parameters", "output_parameters", "namespace", "name"} <= set(tool)


def test_a_native_definition_is_the_tool_and_can_be_read_back(yard):
    for tool in yard.get("/v1/tools?limit=1000").json["tools"]:
        extra = {key: tool.pop(key) for key in ("qualified_name", "fingerprint", "definition_hash")}
        read = Tool.from_dict(tool)
        assert {key: getattr(read, key) for key in extra} == extra


def test_pages_together_are_the_whole_list_in_order(yard):
    whole = [tool["fingerprint"] for tool in yard.get("/v1/tools?limit=1000").json["tools"]]
    found, path = [], "/v1/tools?limit=4"
    while path:
        page = yard.get(path).json
        assert 1 <= len(page["tools"]) <= 4
        found += [tool["fingerprint"] for tool in page["tools"]]
        path = f"/v1/tools?limit=4&cursor={page['next_cursor']}" if "next_cursor" in page else None
    assert found == whole


def test_a_cursor_beyond_the_end_is_an_empty_page(yard):
    assert yard.get("/v1/tools?cursor=999999").json["tools"] == []


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1&limit=2", "limit=1.0", "limit=%D9%A1"),
        *("cursor=", "cursor=x", "cursor=-1", "cursor=1%0A", "format=nope", "format=", "unknown=1", "Q=x"),
        *("q=%ff", "q=a&q=b"),
    ],
)
def test_an_invalid_query_is_refused(yard, query):
    answer = yard.get(f"/v1/tools?{query}")
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_query")


def test_namespaces_add_up_and_tags_narrow_down(yard):
    assert set(names(yard.get("/v1/tools?namespace=other"))) == {"other::twice"}
    both = names(yard.get("/v1/tools?namespace=other&namespace=core"))
    idle = yard.get("/v1/tools?namespace=othr&namespace=core&tag=nope").json
    assert idle["tools"] == []
    assert idle["notes"] == ["namespace: othr matches no tool; did you mean other?", "tag: nope matches no tool"]
    assert len(yard.get("/v1/tools?" + "&".join(f"tag=no-{number}" for number in range(90))).json["notes"]) == 3
    assert set(both) == {"other::twice", "core::echo", "core::calc", "core::time_now"}
    assert names(yard.get("/v1/tools?tag=sums")) == ["desk::add", "desk::count"]
    assert names(yard.get("/v1/tools?tag=sums&tag=effects")) == ["desk::count"]
    assert names(yard.get("/v1/tools?tag=none")) == []
    assert names(yard.get("/v1/tools?namespace=w%C3%B6rk%2Fshop")) == ["wörk/shop::größe 100% / día"]


def test_a_search_finds_words_of_names_descriptions_and_tags_the_best_first(yard):
    assert names(yard.get("/v1/tools?q=echo"))[0] == "core::echo"
    assert names(yard.get("/v1/tools?q=arithmetic+expression"))[0] == "core::calc"
    assert names(yard.get("/v1/tools?q=time+zone"))[0] == "core::time_now"
    # Which of them comes first depends on whether the vectors have been made by now.
    assert "desk::add" in names(yard.get("/v1/tools?q=sums"))[:2]
    assert names(yard.get("/v1/tools?q=saxophone")) == []


def test_search_filters_and_pages_go_together(yard):
    # By name, so that the order is the same before and after the vectors are made.
    answer = yard.get("/v1/tools?q=where&namespace=desk&limit=1")
    following = yard.get(f"/v1/tools?q=where&namespace=desk&limit=1&cursor={answer.json['next_cursor']}")
    assert (names(answer), names(following)) == (["desk::where"], ["desk::where"])
    assert answer.json["tools"] != following.json["tools"], "the overloads, one a page"


@pytest.mark.parametrize("spelling", ["openai", "anthropic", "gemini", "mcp"])
def test_the_providers_spellings_have_a_tool_each(yard, spelling):
    answer = yard.get(f"/v1/tools?format={spelling}&namespace=core")
    assert set(answer.json) == {"tools", "generation", "changes", "names"}
    text = answer.body.decode()
    assert all(word in text for word in ("echo", "calc", "time_now", "expression"))
    key = {"openai": "function", "anthropic": "input_schema", "gemini": None, "mcp": "inputSchema"}[spelling]
    if key is not None:
        assert all(key in tool for tool in answer.json["tools"])
        assert len(answer.json["tools"]) == 3


def test_the_list_is_tagged_and_need_not_travel_twice(yard):
    for path in ("/v1/tools", "/arp/v1/tools"):
        tag = yard.get(path).headers["etag"]
        for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = yard.get(path, headers={"if-none-match": given})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
            assert again.headers["x-request-id"]
        assert yard.get(path, headers={"if-none-match": '"other"'}).status == 200


def test_the_tag_changes_with_the_catalog(yard):
    before = yard.get("/v1/tools").headers["etag"]
    yard.service.yard.tool_registry.add(Tool("newcomer", "late", "New."))
    try:
        answer = yard.get("/v1/tools", headers={"if-none-match": before})
        assert answer.status == 200 and "late::newcomer" in [line["name"] for line in answer.json]
    finally:
        yard.service.yard.tool_registry.remove("late::newcomer")
    assert yard.get("/v1/tools").headers["etag"] == before


def test_head_has_the_headers_of_get_and_no_body(yard):
    for path in ("/v1/tools", "/v1/tools?limit=1", "/v1/tools/echo", "/arp/v1/tools", "/v1/health", "/v1/tools/nope"):
        got, head = yard.get(path), yard.ask("HEAD", path)
        assert head.status == got.status and head.body == b""
        assert head.headers["content-type"] == got.headers["content-type"]
        if "health" not in path:
            assert int(head.headers["content-length"]) == len(got.body)


def many(number):
    return [Tool(f"tool{place}", "big", f"Does the thing number {place}") for place in range(number)]


def test_a_search_takes_no_more_words_than_it_can_answer_quickly():
    with served(tools=many(50)) as server:
        refused = server.get("/v1/tools?q=" + "word+" * 200)
        assert (refused.status, refused.error["code"]) == (400, "request.invalid_query")
        found = server.get("/v1/tools?q=tool7&limit=2").json
        assert found["tools"][0]["name"] == "tool7"


FORMATS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")
CITY, PLACE, SIZE = {"city": "Rome"}, {"lat": 1.0, "lon": 2.0}, {"value": "four"}


def listed_names(yard, spelling, limit):
    """Every name that the pages of a list give out, with the qualified one."""
    found, path = [], f"/v1/tools?format={spelling}&limit={limit}"
    while path:
        page = yard.get(path).json
        text = str(page["tools"])
        assert all(repr(wire) in text for wire in page["names"])
        found += page["names"].items()
        path = (
            f"/v1/tools?format={spelling}&limit={limit}&cursor={page['next_cursor']}" if "next_cursor" in page else ""
        )
    return found


def answers_on_every_face(yard, wire, args):
    """What a call by that name gives over each wire."""
    calls = {"calls": [{"name": wire, "arguments": args}]}
    yield yard.invoke(wire, args).json["result"]
    yield yard.post("/v1/calls", calls).json["results"][0]["result"]
    yield yard.arp(f"by-name-{wire}", wire, args).json["result"]
    by_id = {"invocation_id": f"by-id-{wire}", "tool_id": f"tool_{wire}", "args": args}
    yield yard.post("/arp/v1/tool-invocations", by_id).json["result"]
    yard.post("/v1/sessions", {"session_id": wire})
    for verb in ("execute", "simulate"):
        yield yard.post(f"/v1/sessions/{wire}/{verb}", calls).json["results"][0]["result"]
    yield read_result(Stateless(yard).call(wire, args))["structuredContent"]
    session = {"session_id": wire, "calls": calls["calls"]}
    yield read_result(Stateless(yard).call("toolyard.session_execute", session))["structuredContent"]["results"][0][
        "result"
    ]
    with RemoteToolEngine(yard.url) as engine:
        engine.setup(f"remote {wire}")
        yield engine.execute(f"remote {wire}", [ToolCall(wire, args)])[0].result


@pytest.fixture(scope="module")
def odd():
    """Names that no provider takes, overloads, a name in brackets, and aliases that pass for others' wire names."""

    def filtered(**given: object) -> object:
        return given

    properties = {"filter[id]": {"type": "string"}}
    thief = Tool("thief", "rogue", aliases=("desk__add", "other__twice"))
    filtering = function_tool(filtered, namespace="desk", parameters={"type": "object", "properties": properties})
    with served(tools=[thief, *desk_tools(), filtering], mcp=McpBlock(sessions=True)) as server:
        server.url = f"http://127.0.0.1:{server.port}"
        yield server


@pytest.mark.parametrize("spelling", FORMATS)
def test_names_that_a_list_gives_out_are_the_same_on_every_page_and_are_each_one_tools(odd, spelling):
    whole = listed_names(odd, spelling, 1000)
    assert listed_names(odd, spelling, 2) == whole
    assert len({wire for wire, _ in whole}) == len(whole) == len(odd.get("/v1/tools?limit=1000").json["tools"])


@pytest.mark.parametrize(
    ("qualified", "args", "value"),
    [
        ("desk::add", {"a": 1, "b": 2}, 3),
        ("core::echo", {"text": "hi"}, "hi"),
        ("wörk/shop::größe 100% / día", SIZE, 4),
        ("other::twice", {"a": 1, "b": 2}, 3),
    ],
)
def test_a_name_that_a_list_gives_out_is_callable_on_every_face(odd, qualified, args, value):
    [wire] = {wire for spelling in FORMATS for wire, name in listed_names(odd, spelling, 1000) if name == qualified}
    plain = [
        found.get("result", found) if type(found) is dict else found for found in answers_on_every_face(odd, wire, args)
    ]
    assert plain == [plain[0]] * len(plain) and value in (
        plain[0],
        *(plain[0].values() if type(plain[0]) is dict else ()),
    )
    assert odd.get(f"/v1/tools/{wire}").json["name"] in (qualified, qualified.removeprefix("core::"))


def test_the_name_of_an_overload_calls_that_one_and_arguments_are_spelt_back(odd):
    first, second = [wire for wire, name in listed_names(odd, "anthropic", 1000) if name == "desk::where"]
    assert odd.invoke(first, CITY).status == odd.invoke(second, PLACE).status == 200
    assert odd.invoke(second, CITY).json["error"]["code"] == "tool.invalid_args"
    assert odd.get(f"/v1/tools/{second}").status == 200
    [spelt] = odd.get("/v1/tools?format=anthropic&q=desk::filtered&limit=1").json["tools"]
    [key] = spelt["input_schema"]["properties"]
    assert key != "filter[id]"
    assert odd.invoke(spelt["name"], {key: "x"}).json["result"] == {"filter[id]": "x"}


def test_an_mcp_list_says_what_each_tool_is_called_in_the_registry(odd):
    lines = [line for line in Stateless(odd).tools()["tools"] if not line["name"].startswith("toolyard.")]
    found = [line["_meta"]["toolyard/qualified_name"] for line in lines]
    assert found == [tool["qualified_name"] for tool in odd.get("/v1/tools?limit=1000").json["tools"]]
