"""The same calls in process, over HTTP and over MCP: equal results and equal error codes."""

import json
from contextlib import ExitStack, contextmanager

import pytest

from mcp_rig.processes import HERE, START, start_url_server, toolyard_command
from mcp_rig.yards import YardCaller, yard_of
from toolyard import ToolCall, Toolyard
from toolyard.client import RemoteToolEngine

pytestmark = pytest.mark.process

CONFIG = HERE / "table_yard.json"
WIDE = 'hällo \U0001f600 \u4e16\u754c \u0000 \u2028 \\ " </script>'
VALUES = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus": -1,
    "big": 2**53,
    "bigger": 2**63,
    "biggest": 10**40,
    "least": -(10**40),
    "fraction": 0.1,
    "exponent": 1e300,
    "tiny": 5e-324,
    "whole_float": 1.0,
    "empty_text": "",
    "text": "plain",
    "unicode": WIDE,
    "lone_number_text": "007",
    "json_text": '{"a": 1}',
    "long": "x" * 100_000,
    "empty_list": [],
    "list": [1, "a", None, True, 1.5, [], {}],
    "empty_object": {},
    "object": {"a": {"b": [{"c": None}]}, "": 1, "ü": "ü", "result": 3, "error": "no error", "content": []},
    "one_key_result": {"result": 3},
    "deep": None,
}
for _ in range(50):
    VALUES["deep"] = [VALUES["deep"]]

CALLS = {
    **{f"give-{name}": ("give", {"value": value}) for name, value in VALUES.items()},
    "give-in-a-list": ("give", {"value": list(VALUES.values())[:12]}),
    "defaults": ("add", {"a": 1}),
    "repaired": ("add", {"a": "4", "b": 2.0}),
    "record": ("record", {"name": "n", "tags": ["a"], "place": {"lat": 1.5}}),
    "nothing": ("nothing", {}),
    "async": ("later", {"seconds": 0}),
    "thread": ("blocking", {"seconds": 0}),
    "progress": ("told", {}),
    "blocks": ("show", {}),
    "blocks-and-value": ("show_with_value", {}),
    "text-blocks": ("say", {}),
    "missing": ("add", {}),
    "wrong-type": ("add", {"a": "x"}),
    "too-much": ("add", {"a": 1, "c": 2}),
    "unknown": ("no_such_tool", {}),
    "raises": ("fail", {"words": WIDE}),
    "unavailable": ("away", {}),
    "refuses-arguments": ("picky", {"value": 1}),
    "crashes": ("crash", {"words": "secret"}),
    "lies": ("liar", {}),
    "denied": ("forbidden", {}),
    "late-async": ("later", {"seconds": 30}),
    "late-thread": ("blocking", {"seconds": 2}),
}
CODES = {
    **dict.fromkeys(("missing", "wrong-type", "too-much"), "tool.invalid_args"),
    **dict.fromkeys(("raises", "crashes", "refuses-arguments"), "tool.execution_error"),
    **dict.fromkeys(("late-async", "late-thread"), "tool.timeout"),
    "unknown": "tool.not_found",
    "unavailable": "tool.unavailable",
    "lies": "tool.invalid_output",
    "denied": "tool.denied",
}
WAYS = ("http", "mcp", "mcp_sse", "mcp_stdio")


@contextmanager
def in_process():
    with Toolyard.from_config(CONFIG) as yard:
        yard.tool_engine.setup("s")
        yield lambda name, arguments: yard.tool_engine.execute("s", [ToolCall(f"table::{name}", arguments)])[0]


@contextmanager
def over_http(url):
    with RemoteToolEngine(url) as engine:
        engine.setup("s")
        yield lambda name, arguments: engine.execute("s", [ToolCall(f"table::{name}", arguments)])[0]


@contextmanager
def over_mcp(**source):
    with yard_of({"type": "mcp", "namespace": "there", "connect_timeout": START, **source}) as yard:
        assert len(yard.tools("there")) == len(yard.registry.all_tools()) > 10
        yield lambda name, arguments: YardCaller.call(yard, f"there::table__{name}", **arguments)


@pytest.fixture(scope="module")
def ways():
    """Every way to have a call answered, by name."""
    with ExitStack() as stack:
        url, _ = stack.enter_context(start_url_server(toolyard_command("serve", CONFIG, "--port", "0")))
        stdio = toolyard_command("mcp", CONFIG)
        yield {
            "here": stack.enter_context(in_process()),
            "http": stack.enter_context(over_http(url)),
            "mcp": stack.enter_context(over_mcp(url=url + "/mcp")),
            "mcp_sse": stack.enter_context(over_mcp(url=url + "/sse", transport="sse")),
            "mcp_stdio": stack.enter_context(over_mcp(command=stdio[0], args=stdio[1:])),
        }


@pytest.fixture(scope="module")
def answers(ways):
    """What each way answers to a call, asked once."""
    kept = {}

    def answer(way, call):
        if (way, call) not in kept:
            kept[way, call] = ways[way](*CALLS[call])
        return kept[way, call]

    return answer


def exact(value):
    """Told apart: 1 and 1.0, true and 1."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("call", CALLS)
def test_it_is_what_the_table_says_in_process_and_the_same_by_every_other_way(answers, call):
    here = answers("here", call)
    assert (here.error_info and here.error_info.code) == CODES.get(call)
    if CALLS[call][0] == "give":
        assert exact(here.result) == exact(CALLS[call][1]["value"])
    for way in WAYS:
        there = answers(way, call)
        if call == "denied" and way != "http":
            # A tool that the policy denies whatever is sent is not in the list that our MCP source reads. Other clients
            # that call it all the same are told `tool.denied`: test_other_clients.py.
            assert there.error_info.code == "tool.not_found", way
            continue
        assert (there.error_info and there.error_info.code) == CODES.get(call), (way, there)
        assert exact(there.result) == exact(here.result), way
        assert there.metadata.get("content") == here.metadata.get("content"), way
        if here.error_info is not None and call != "unknown":
            told = (here.error_info.retryable, here.error_info.effect)
            assert (there.error_info.retryable, there.error_info.effect) == told, way
        if call in {"raises", "unavailable", "denied"}:
            assert there.error == here.error, way
            assert exact(there.error_info.details) == exact(here.error_info.details), way
