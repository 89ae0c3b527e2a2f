"""What is over is let go of at once: the collector comes seldom, and would find the largest bodies in what it finds."""

import asyncio
import gc

import pytest

from serving.mcp.mcp_support import BOTH, Session, Stateless
from serving.service_support import desk_tools, served
from toolyard import function_tool

TEXT = "a long text" * 20_000


async def stumble(text: str) -> str:
    """Fails after a while."""
    await asyncio.sleep(0)
    raise RuntimeError("no")


async def dawdle(text: str) -> str:
    """Never answers."""
    await asyncio.Event().wait()


@pytest.fixture(scope="module")
def yard():
    tools = [*desk_tools(), function_tool(stumble, namespace="desk"), function_tool(dawdle, namespace="desk")]
    with served(tools=tools) as running:
        running.post("/v1/sessions", {"session_id": "s"})
        running.session, running.stateless = Session(running), Stateless(running)
        yield running


def execute(yard, name, arguments, **options):
    return yard.post("/v1/sessions/s/execute", {"calls": [{"name": name, "arguments": arguments}], **options})


REQUESTS = {
    "a tool that fails": ("tool.execution_error", lambda yard: yard.invoke("desk::crash", {"secret": TEXT})),
    "one that says so itself": ("tool.execution_error", lambda yard: yard.invoke("desk::refuse", {"reason": TEXT})),
    "an async one": ("tool.execution_error", lambda yard: yard.invoke("desk::stumble", {"text": TEXT})),
    "one that takes too long": (
        "tool.timeout",
        lambda yard: execute(yard, "desk::dawdle", {"text": TEXT}, timeout=0.1),
    ),
    "arguments that do not fit": ("tool.invalid_args", lambda yard: yard.invoke("desk::add", {"a": TEXT, "b": 1})),
    "no overload that fits": ("tool.invalid_args", lambda yard: yard.invoke("desk::where", {"where": TEXT})),
    "a tool that is not there": ("tool.not_found", lambda yard: yard.invoke("desk::nobody", {"text": TEXT})),
    "in a session": ("tool.execution_error", lambda yard: execute(yard, "desk::crash", {"secret": TEXT})),
    "on the ARP wire": ("tool.execution_error", lambda yard: yard.arp("i", "desk::crash", {"secret": TEXT})),
    "no JSON": (
        "request.invalid_json",
        lambda yard: yard.post("/v1/tools/desk::add:invoke", f'{{"args": "{TEXT}'.encode()),
    ),
    "another shape": (
        "request.invalid_shape",
        lambda yard: yard.post("/v1/tools/desk::add:invoke", {"arguments": TEXT}),
    ),
    "MCP": ("tool.execution_error", lambda yard: yard.session.call("desk__crash", {"secret": TEXT})),
    "MCP without sessions": ("tool.execution_error", lambda yard: yard.stateless.call("desk__crash", {"secret": TEXT})),
    "MCP, a tool that is not there": ("tool.not_found", lambda yard: yard.session.call("nobody", {"text": TEXT})),
    "MCP, no JSON": ("-32700", lambda yard: yard.post("/mcp", f'{{"params": "{TEXT}'.encode(), headers=BOTH)),
}


@pytest.fixture
def garbage():
    """Collects what nothing but the collector would let go of."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(("code", "send"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_leaves_no_body_to_the_garbage_collector(yard, garbage, code, send):
    for _ in range(3):  # of the last, the server may still be busy with the end
        assert code in send(yard).body.decode()
    gc.collect()
    assert [type(found).__name__ for found in garbage if holds_body(found)] == []


def holds_body(found):
    return any(isinstance(held, str | bytes) and len(held) >= len(TEXT) for held in gc.get_referents(found))
