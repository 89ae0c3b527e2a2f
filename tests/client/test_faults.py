"""An error has one class, one code and one status, on whichever wire it comes."""

import httpx2
import pytest

from client.served import served
from toolyard import MCPToolEngine, MCPToolLoader, ToolCall, ToolRegistry, function_tool
from toolyard.client import RemoteToolEngine, RemoteToolRegistry
from toolyard.client.wire import make_refusal_error
from toolyard.links.http.messages import Incoming
from toolyard.links.mcp.errors import make_rpc_error
from toolyard.model import errors
from toolyard.model.errors import (
    CallError,
    Denied,
    Held,
    InvalidArguments,
    StaleDefinition,
    ToolyardError,
    UnknownToolError,
    error_class,
)
from toolyard.words.redactor import Redactor

CALL_ERRORS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CallError)),
    key=lambda kind: kind.code,
)
CALL_ERRORS.remove(CallError)


def over_mcp_class(kind):
    """A call that another toolyard holds is denied here: nobody here can decide on an approval that is kept there."""
    return Denied if kind is Held else kind


def fail(code: str) -> str:
    """Fails with the code."""
    kind = error_class(code)
    raise kind(f"it is {code}")


def call_that_fails(kind, prefix="desk::"):
    """A tool cannot say that the caller's name or arguments are wrong: those two need a call that is."""
    name = f"{prefix}{'nothing' if kind is UnknownToolError else 'fail'}"
    return ToolCall(name, {"code": 7 if kind is InvalidArguments else kind.code})


@pytest.fixture(scope="module")
def service():
    with served(ToolRegistry([function_tool(fail, namespace="desk")])) as running:
        yield running


@pytest.fixture(scope="module")
def remote(service):
    with RemoteToolRegistry(service.url) as registry:
        yield registry


@pytest.fixture(scope="module")
def over_mcp(service):
    with (
        ToolRegistry.from_loaders([MCPToolLoader(f"{service.url}/mcp", "far", transport="http")]) as registry,
        MCPToolEngine(registry) as engine,
    ):
        yield engine


@pytest.mark.parametrize("kind", CALL_ERRORS)
def test_a_failed_call_raises_the_class_of_its_code_from_afar(remote, kind):
    with pytest.raises(kind) as caught:
        call = call_that_fails(kind)
        remote.dispatch(call.name, call.arguments)
    assert type(caught.value) is kind


@pytest.mark.parametrize("kind", CALL_ERRORS)
def test_a_failed_call_has_its_code_in_the_results_of_a_session(remote, kind):
    with RemoteToolEngine(remote) as engine:
        engine.setup("s-" + kind.code)
        [result] = engine.execute("s-" + kind.code, [call_that_fails(kind)])
        engine.teardown("s-" + kind.code)
    assert type(CallError.from_info(result.error_info)) is kind


@pytest.mark.parametrize("kind", CALL_ERRORS)
def test_a_failed_call_has_its_status_over_plain_http(service, kind):
    call = call_that_fails(kind)
    answer = httpx2.post(f"{service.url}/v1/tools/{call.name}:invoke", json={"args": call.arguments}, verify=False)
    assert answer.status_code == kind.http_status
    assert answer.json()["error"]["code"] == kind.code
    assert answer.json()["error"]["retryable"] == kind.retryable


@pytest.mark.parametrize("kind", CALL_ERRORS)
def test_a_failed_call_has_its_code_over_mcp(over_mcp, kind):
    over_mcp.setup("s-" + kind.code)
    [result] = over_mcp.execute("s-" + kind.code, [call_that_fails(kind, "far::desk__")])
    over_mcp.teardown("s-" + kind.code)
    assert type(CallError.from_info(result.error_info)) is over_mcp_class(kind)


@pytest.mark.parametrize("kind", CALL_ERRORS)
def test_a_json_rpc_error_of_another_toolyard_is_that_error_again(kind):
    error = {"code": -32000, "message": "no", "data": {"error": kind("no").info.to_dict()}}
    assert type(make_rpc_error("far", error, Redactor(()))) is over_mcp_class(kind)


@pytest.mark.parametrize(
    "kind",
    sorted(
        {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ToolyardError)}
        - {CallError},
        key=lambda kind: kind.__name__,
    ),
)
def test_a_refused_request_raises_the_class_of_its_code(kind):
    if error_class(kind.code) is not kind or kind.http_status in (401, 403):
        # A class without a code of its own never crosses a wire; a refused key is a mistake in the config.
        return
    body = {"error": {"code": kind.code, "message": "no", "retryable": kind.retryable}}
    answer = Incoming(status=kind.http_status, headers=(), body=httpx2.Response(200, json=body).content, url="")
    assert type(make_refusal_error(answer, "http://far", "none")) is kind


def test_a_tool_that_changed_since_it_was_read_is_a_stale_definition(service, remote):
    [known] = remote.get("desk::fail")
    registry = service.yard.tool_registry
    registry.remove("desk::fail")
    registry.add(known.replace(description="Another one."))
    try:
        with pytest.raises(StaleDefinition):
            remote.dispatch("desk::fail", {"code": "tool.denied"})
    finally:
        registry.remove("desk::fail")
        registry.add(function_tool(fail, namespace="desk"))
