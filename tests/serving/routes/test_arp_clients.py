"""The published clients of ARP v1, by base URL alone."""

import gc
import warnings

import pytest
from arp_sdk import tool_registry as arp_sdk

from serving.service_support import desk_tools, served


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools()) as server:
        yield server


@pytest.fixture(autouse=True)
def _clients_that_close_nothing():
    """They leave their connections to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        gc.collect()


def test_the_sdk_lists_reads_and_calls_tools(yard):
    client = arp_sdk.ToolRegistryClient(base_url=f"{yard.url}/arp")
    assert client.health().status == "ok"
    assert client.version().supported_api_versions == ["v1"]
    assert [tool.name for tool in client.list_tools()][:3] == ["echo", "calc", "time_now"]
    assert client.get_tool("tool_calc").input_schema.to_dict()["required"] == ["expression"]
    request = arp_sdk.InvokeToolRequest(invocation_id="sdk", tool_name="calc", args={"expression": "6*7"})
    result = client.invoke_tool(request)
    assert result.ok is True and result.result.to_dict() == {"expression": "6*7", "value": 42}
    failed = client.invoke_tool(arp_sdk.InvokeToolRequest(invocation_id="sdk-2", tool_name="calc", args={}))
    assert failed.ok is False and failed.error.code == "tool.invalid_args"


def test_the_sdk_raises_our_refusals_as_its_own_error(yard):
    from arp_sdk.errors import ArpApiError

    client = arp_sdk.ToolRegistryClient(base_url=f"{yard.url}/arp")
    with pytest.raises(ArpApiError) as caught:
        client.get_tool("tool_nope")
    assert (caught.value.code, caught.value.status_code) == ("tool.not_found", 404)
    del caught


def test_the_later_client_reads_the_catalog_and_calls_by_its_lower_level(yard):
    import arp_standard_model as model
    from arp_standard_client.tool_registry.api.invocations import invoke_tool
    from arp_standard_client.tool_registry.facade import ToolRegistryClient

    client = ToolRegistryClient(base_url=f"{yard.url}/arp")
    assert client.health(model.ToolRegistryHealthRequest()).status.value == "ok"
    assert client.version(model.ToolRegistryVersionRequest()).supported_api_versions == ["v1"]
    assert next(tool.name for tool in client.list_tools(model.ToolRegistryListToolsRequest())) == "echo"
    wanted = model.ToolRegistryGetToolRequest(params=model.ToolRegistryGetToolParams(tool_id="tool_echo"))
    assert client.get_tool(wanted).name == "echo"
    # As published, its own invoke_tool cannot write what it sends.
    body = {"invocation_id": "low", "tool_name": "echo", "args": {"text": "hi"}}
    answer = invoke_tool.sync_detailed(client=client.raw_client, body=body)
    assert answer.status_code == 200 and answer.parsed.result == {"text": "hi"}
