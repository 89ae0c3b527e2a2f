"""What every dialect promises, checked on all of them."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from dialects.strategies import accepted, qualified, scalars, tool, values
from toolyard.dialects import DIALECTS, Dialect, WireNames, get_dialect
from toolyard.model import ErrorInfo, Tool, ToolCall, ToolResult
from toolyard.model.errors import InvalidArguments, MalformedSource

every_dialect = pytest.mark.parametrize("name", list(DIALECTS))
ONE = {"type": "object", "properties": {"id": {"type": "integer"}}}
TWO = {"type": "object", "properties": {"name": {"type": "string"}}}
FAILED = ErrorInfo("tool.invalid_args", "id is missing", hint="send id", details={"violations": [{"path": "/id"}]})


def wire_names(dialect: Dialect) -> list[str]:
    wire = dialect.format_tools()
    if dialect.name == "gemini":
        return [entry["name"] for entry in wire[0]["functionDeclarations"]]
    return [entry["function"]["name"] if "function" in entry else entry["name"] for entry in wire]


def answer(dialect: Dialect, wire_name: str, arguments: dict) -> object:
    """A model's call of a tool by the wire name it was given."""
    calls = type(dialect)().format_calls([ToolCall("x", arguments, "c1")])
    return rename(calls, wire_name)


def rename(node, wire_name):
    if isinstance(node, dict):
        return {key: wire_name if key == "name" else rename(value, wire_name) for key, value in node.items()}
    return [rename(item, wire_name) for item in node] if isinstance(node, list) else node


@every_dialect
@settings(max_examples=examples(25))
@given(pairs=st.lists(qualified, min_size=1, max_size=5, unique=True))
def test_any_name_goes_out_and_comes_back_through_a_call(name, pairs):
    tools = [Tool(own, namespace) for namespace, own in pairs]
    dialect = get_dialect(name, tools)
    sent = wire_names(dialect)
    assert len(set(sent)) == len(tools)
    back = [dialect.parse_calls(answer(dialect, wire, {"a": 1})) for wire in sent]
    assert back == [[ToolCall(item.qualified_name, {"a": 1}, "c1")] for item in tools]


@every_dialect
def test_a_further_overload_is_called_by_its_own_name_and_pinned(name):
    first, second = tool(parameters=ONE), tool(parameters=TWO)
    dialect = get_dialect(name, [first, second])
    sent = wire_names(dialect)
    assert dialect.parse_calls(answer(dialect, sent[0], {})) == [ToolCall("hr::find", {}, "c1")]
    assert dialect.parse_calls(answer(dialect, sent[1], {})) == [ToolCall("hr::find", {}, "c1", second.fingerprint)]


@every_dialect
@settings(max_examples=examples(12))
@given(calls=st.lists(st.tuples(qualified, accepted), max_size=3, unique_by=lambda call: call[0]))
def test_calls_survive_the_way_through_a_conversation(name, calls):
    tools = [Tool(own, namespace, parameters=pair[0]) for (namespace, own), pair in calls]
    made = [
        ToolCall(item.qualified_name, pair[1], f"id{n}")
        for n, (item, (_, pair)) in enumerate(zip(tools, calls, strict=True))
    ]
    dialect = get_dialect(name, tools)
    assert dialect.parse_calls(dialect.format_calls(made)) == made


@every_dialect
def test_arguments_that_are_not_json_survive_as_they_came(name):
    dialect = get_dialect(name, [tool()])
    made = [ToolCall("hr::find", '{"id": 1', "c1")]
    assert dialect.parse_calls(dialect.format_calls(made)) == made


@every_dialect
@settings(max_examples=examples(25))
@given(result=values)
def test_results_survive_the_way_through_a_conversation(name, result):
    dialect = get_dialect(name, [tool()])
    back = dialect.parse_results(dialect.format_results([ToolResult("c1", "hr::find", result)]))
    assert [(item.call_id, item.result, item.is_error) for item in back] == [("c1", result, False)]
    assert repr(back[0].result) == repr(result)


@every_dialect
def test_a_result_that_looks_like_an_error_is_still_a_result(name):
    dialect = get_dialect(name, [tool()])
    error = {"error": FAILED.to_dict()}
    for value in (error, {"result": error}, {"result": {"result": error}}, {"error": "x"}, {"result": 1}):
        assert dialect.parse_results(dialect.format_results([ToolResult("c1", "hr::find", value)]))[0].result == value


@every_dialect
def test_errors_carry_all_a_model_needs_to_act_and_come_back_whole(name):
    dialect = get_dialect(name, [tool()])
    failed = ToolResult.failed(ToolCall("hr::find", {}, "c1"), FAILED)
    sent = dialect.format_results([failed])
    for word in ("tool.invalid_args", "id is missing", "send id", "violations", "/id"):
        assert word in str(sent)
    back = dialect.parse_results(sent)
    assert [(item.call_id, item.error, item.error_info) for item in back] == [("c1", "id is missing", FAILED)]


@every_dialect
def test_an_error_without_facts_is_an_execution_error(name):
    dialect = get_dialect(name, [tool()])
    back = dialect.parse_results(dialect.format_results([ToolResult("c1", "hr::find", None, "it broke")]))
    assert back[0].error == "it broke"
    assert back[0].error_info.code == "tool.execution_error"
    assert back[0].error_info.effect == "unknown"


@every_dialect
def test_several_results_keep_their_order(name):
    dialect = get_dialect(name, [tool(), tool("other")])
    results = [ToolResult(f"c{n}", "hr::find", n) for n in range(3)]
    back = dialect.parse_results(dialect.format_results(results))
    assert [(item.call_id, item.result) for item in back] == [("c0", 0), ("c1", 1), ("c2", 2)]


@every_dialect
def test_tools_come_back_from_a_list_with_their_own_names(name):
    tools = [tool(parameters=ONE), Tool("météo du jour", "temps", "Le temps.", TWO)]
    dialect = get_dialect(name, tools)
    back = dialect.parse_tools(dialect.format_tools(), "elsewhere")
    assert [(item.qualified_name, item.description, item.parameters) for item in back] == [
        ("hr::find", "Find people.", ONE),
        ("temps::météo du jour", "Le temps.", TWO),
    ]


@every_dialect
def test_a_strangers_names_stay_as_they_are_in_the_given_namespace(name):
    sent = get_dialect(name, [tool("a__b", "x"), tool()]).format_tools()
    back = get_dialect(name).parse_tools(sent, "elsewhere")
    assert [item.namespace for item in back] == ["elsewhere", "elsewhere"]
    assert back[1].name == "hr__find"


@every_dialect
def test_a_list_may_stand_under_tools_in_a_request(name):
    dialect = get_dialect(name, [tool()])
    assert dialect.parse_tools({"tools": dialect.format_tools(), "model": "m"}, "n")[0].qualified_name == "hr::find"


@every_dialect
@pytest.mark.parametrize("payload", [5, {}, {"tools": 5}, [5], [{"description": "no name"}], "junk"])
def test_what_is_no_list_of_tools_is_refused(name, payload):
    with pytest.raises(MalformedSource):
        get_dialect(name).parse_tools(payload, "n")


@every_dialect
def test_a_schema_that_is_no_object_is_refused_with_its_place(name):
    sent = get_dialect(name, [tool(parameters=ONE)]).format_tools()
    broken = rename_schema(sent)
    with pytest.raises(MalformedSource, match=r"tools\[0\]: the input schema must be an object, not list"):
        get_dialect(name).parse_tools(broken, "n")


def rename_schema(node):
    if isinstance(node, dict):
        keys = ("parameters", "input_schema", "inputSchema")
        return {key: [] if key in keys else rename_schema(value) for key, value in node.items()}
    return [rename_schema(item) for item in node] if isinstance(node, list) else node


@every_dialect
def test_tools_formatted_later_are_understood_too(name):
    dialect = get_dialect(name)
    extra = Tool("un peu", "plus", parameters=ONE)
    dialect.format_tools([extra])
    wire = dialect.names.encode(extra)
    assert dialect.parse_calls(answer(dialect, wire, {}))[0].name == "plus::un peu"


def test_tools_formatted_in_many_threads_are_all_understood():
    dialect = get_dialect("openai")
    tools = [Tool(f"tool {n}", "many") for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(lambda item: dialect.format_tools([item])[0]["function"]["name"], tools))
    assert [dialect.names.find(wire)[0] for wire in sent] == [item.qualified_name for item in tools]


@every_dialect
def test_dialects_can_share_their_names(name):
    names = WireNames([tool("a b")])
    dialect = get_dialect(name, names=names)
    assert dialect.names is names
    assert len(dialect.format_tools()) == 1


@every_dialect
def test_an_unknown_name_is_kept_for_the_call_path_to_refuse(name):
    dialect = get_dialect(name, [tool()])
    calls = dialect.parse_calls(answer(dialect, "no such tool", {"a": 1}))
    assert calls == [ToolCall("no such tool", {"a": 1}, "c1")]


KEYS = "choices message tool_calls function name arguments output type content input candidates parts functionCall args"
MORE_KEYS = (
    "params id function_call role result error functionResponse response structuredContent isError jsonrpc method"
)
WORDS = (
    "function",
    "function_call",
    "function_call_output",
    "tool_use",
    "tool_result",
    "tool",
    "hr__find",
    "tools/call",
)
answers = st.recursive(
    scalars | st.text(max_size=3) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYS.split(), *MORE_KEYS.split()]), inner, max_size=5)
    ),
    max_leaves=15,
).filter(lambda value: isinstance(value, dict))


@every_dialect
@settings(max_examples=examples(40))
@given(junk=answers)
def test_nothing_in_an_answer_makes_parsing_raise(name, junk):
    dialect = get_dialect(name, [tool()])
    assert all(isinstance(call, ToolCall) for call in dialect.parse_calls(junk))
    assert all(isinstance(result, ToolResult) for result in dialect.parse_results(junk))


@every_dialect
@pytest.mark.parametrize("payload", ["text", 5, None, [5]])
def test_what_is_no_answer_at_all_is_the_callers_mistake(name, payload):
    with pytest.raises(TypeError, match="expected a response, a message or a list of them"):
        get_dialect(name).parse_calls(payload)


@every_dialect
def test_answers_of_an_sdk_are_read_like_json(name):
    dialect = get_dialect(name, [tool(parameters=ONE)])
    made = [ToolCall("hr::find", {"id": 1}, "c1")]
    objects = [SimpleNamespace(model_dump=lambda message=message: message) for message in dialect.format_calls(made)]
    assert dialect.parse_calls(objects) == made
    assert dialect.parse_calls(objects[0]) == made


@every_dialect
def test_the_report_is_about_the_last_list(name):
    odd = tool(parameters={"type": "string"})
    dialect = get_dialect(name, [tool(parameters=ONE), odd])
    dialect.format_tools()
    assert [(item.tool, item.pointer) for item in dialect.report] == [("hr::find", "/type")]
    dialect.format_tools([tool(parameters=ONE)])
    assert dialect.report == ()


@every_dialect
def test_nothing_to_say_adds_nothing_to_a_conversation(name):
    dialect = get_dialect(name)
    assert dialect.format_tools() == dialect.format_calls([]) == dialect.format_results([]) == []


def test_errors_of_the_call_path_fit():
    info = InvalidArguments("id: 5 is not text", details={"violations": []}).info
    dialect = get_dialect("anthropic", [tool()])
    back = dialect.parse_results(dialect.format_results([ToolResult.failed(ToolCall("hr::find"), info)]))
    assert back[0].error_info == info
