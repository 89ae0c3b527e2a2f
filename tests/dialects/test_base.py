"""What every dialect promises, checked on all of them."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from dialects.strategies import accepted, qualified, scalars, tool
from toolyard.dialects import DIALECTS, Dialect, WireNames, get_dialect
from toolyard.dialects.base import best_match, properties_of
from toolyard.model import ErrorInfo, Tool, ToolCall, ToolResult
from toolyard.model.errors import ToolFailed

every_dialect = pytest.mark.parametrize("name", list(DIALECTS))
talking = pytest.mark.parametrize("name", [name for name in DIALECTS if name != "mcp"])
"""Those in which models and programs talk to each other."""
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


@talking
@settings(max_examples=examples(25))
@given(pairs=st.lists(qualified, min_size=1, max_size=5, unique=True))
def test_any_name_goes_out_and_comes_back_through_a_call(name, pairs):
    tools = [Tool(own, namespace) for namespace, own in pairs]
    dialect = get_dialect(name, tools)
    sent = wire_names(dialect)
    assert len(set(sent)) == len(tools)
    back = [dialect.parse_calls(answer(dialect, wire, {"a": 1})) for wire in sent]
    assert back == [[ToolCall(item.qualified_name, {"a": 1}, "c1")] for item in tools]


@talking
def test_a_further_overload_is_called_by_its_own_name_and_pinned(name):
    first, second = tool(parameters=ONE), tool(parameters=TWO)
    dialect = get_dialect(name, [first, second])
    sent = wire_names(dialect)
    assert dialect.parse_calls(answer(dialect, sent[0], {})) == [ToolCall("hr::find", {}, "c1")]
    assert dialect.parse_calls(answer(dialect, sent[1], {})) == [ToolCall("hr::find", {}, "c1", second.fingerprint)]


def test_properties_are_compared_only_if_there_are_overloads():
    compared = []

    def spelling(item):
        compared.append(item)
        return properties_of(item)

    first, second = tool(parameters=ONE), tool(parameters=TWO)
    assert best_match([], {}, spelling) is None
    assert best_match([first], {"b": 1}, spelling) is first
    assert compared == []
    assert best_match([first, second], dict.fromkeys(properties_of(second)), spelling) is second
    assert compared == [first, second]


@talking
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


@talking
def test_a_history_is_a_conversation_in_which_every_call_has_its_own_id_and_its_result(name):
    ids = [None, "call_0", None, "call_0"]
    calls = [ToolCall("n::a", {"id": number}, call_id) for number, call_id in enumerate(ids)]
    entries = [
        SimpleNamespace(tool_call=call, tool_output=ToolResult(call.call_id, call.name, call.arguments))
        for call in calls
    ]
    dialect = get_dialect(name, [Tool("a", "n", parameters=ONE)])
    messages = dialect.format_history(entries)
    read = dialect.parse_calls(messages)
    assert [call.arguments for call in read] == [call.arguments for call in calls]
    assert len({call.call_id for call in read}) == 4 and read[1].call_id == "call_0"
    assert len(messages) == 8
    assert all(str(messages).count(repr(call.call_id)) == 2 for call in read), "once at the call, once at the result"


@talking
def test_arguments_that_are_not_json_survive_as_they_came(name):
    dialect = get_dialect(name, [tool()])
    made = [ToolCall("hr::find", '{"id": 1', "c1")]
    assert dialect.parse_calls(dialect.format_calls(made)) == made


@talking
def test_errors_carry_all_a_model_needs_to_act(name):
    dialect = get_dialect(name, [tool()])
    failed = ToolResult.failed(ToolCall("hr::find", {}, "c1"), FAILED)
    sent = dialect.format_results([failed])
    for word in ("tool.invalid_args", "id is missing", "send id", "violations", "/id"):
        assert word in str(sent)


@talking
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


@talking
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


@talking
@settings(max_examples=examples(40))
@given(junk=answers)
def test_nothing_in_an_answer_but_an_error_of_the_provider_makes_parsing_raise(name, junk):
    dialect = get_dialect(name, [tool()])
    try:
        calls = dialect.parse_calls(junk)
    except ToolFailed:
        assert "error" in junk  # not deeper, where it may be what a model wrote
    else:
        assert all(isinstance(call, ToolCall) for call in calls)


@talking
@pytest.mark.parametrize("payload", ["text", 5, None, [5]])
def test_what_is_no_answer_at_all_is_the_callers_mistake(name, payload):
    with pytest.raises(TypeError, match="expected a response, a message or a list of them"):
        get_dialect(name).parse_calls(payload)


@talking
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


@talking
def test_nothing_to_say_adds_nothing_to_a_conversation(name):
    dialect = get_dialect(name)
    assert dialect.format_tools() == dialect.format_calls([]) == dialect.format_results([]) == []


def test_nobody_talks_in_mcp_which_spells_tools_alone():
    for act in (lambda d: d.parse_calls({}), lambda d: d.format_calls([]), lambda d: d.format_results([])):
        with pytest.raises(TypeError, match="mcp has a format for tools only"):
            act(get_dialect("mcp"))
