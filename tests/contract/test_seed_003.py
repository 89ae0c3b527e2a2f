"""What the tool registry document promises, tried as its reader would: with a server, over HTTP."""

import json
import os
import signal
import subprocess
import sys
from urllib.request import Request, urlopen

import pytest
from waiting import SOON
from warm_python import warm_toolyard


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    process = warm_toolyard().start(
        ["-m", "toolyard", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path_factory.mktemp("empty"),
        env={key: value for key, value in os.environ.items() if not key.startswith(("TOOL_REGISTRY", "TOOLYARD"))},
    )
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SOON)


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"} if data else {}), timeout=10) as answer:
        return json.load(answer)


def invoke(url, name, **body):
    return fetch(f"{url}/v1/tools/{name}:invoke", body)


@pytest.mark.process
def test_without_any_setting_the_core_domain_is_served(url):
    assert [tool["name"] for tool in fetch(f"{url}/v1/tools")] == ["echo", "calc", "time_now"]


@pytest.mark.process
def test_discovery_is_a_list_of_name_and_description_for_planners(url):
    assert all(set(tool) == {"name", "description"} and tool["description"] for tool in fetch(f"{url}/v1/tools"))


@pytest.mark.process
def test_a_definition_is_whole_and_its_parameters_are_json_schema(url):
    definition = fetch(f"{url}/v1/tools/time_now")
    assert definition["name"] == "time_now"
    assert definition["version"] == "0.1.0"
    assert definition["schema_version"] == "0.1.0"
    assert definition["parameters"]["type"] == "object"
    assert set(definition) <= {
        *("schema_version", "name", "description", "version", "parameters", "returns", "tags", "source")
    }


@pytest.mark.process
def test_an_invocation_gives_a_normalized_result_with_metrics(url):
    result = invoke(url, "calc", schema_version="0.1.0", args={"expression": "19*23"})
    assert result["ok"] is True and result["result"] == {"expression": "19*23", "value": 437}
    assert "error" not in result and isinstance(result["metrics"]["latency_ms"], int)


@pytest.mark.process
def test_context_and_trace_are_optional_and_accepted(url):
    trace = {"flow_id": "f", "step_id": "s"}
    assert invoke(url, "echo", args={"text": "a"}, context={"state": [1]}, trace=trace)["ok"] is True


@pytest.mark.process
def test_arguments_are_validated_and_the_error_is_normalized_too(url):
    from urllib.error import HTTPError

    with pytest.raises(HTTPError) as caught:
        invoke(url, "calc", args={"expression": 5})
    with caught.value as answer:
        result = json.load(answer)
    assert answer.code == 400
    assert result["ok"] is False and "result" not in result
    assert result["error"]["code"] == "tool.invalid_args" and "latency_ms" in result["metrics"]


@pytest.mark.process
def test_the_shape_of_a_request_is_validated(url):
    from urllib.error import HTTPError

    for body in ({"args": []}, {}, {"args": {"text": "a"}, "schema_version": "2"}, {"args": {"text": "a"}, "trace": 1}):
        with pytest.raises(HTTPError) as caught:
            fetch(f"{url}/v1/tools/echo:invoke", body)
        with caught.value as answer:
            assert answer.code == 400
            assert json.load(answer)["error"]["code"] == "request.invalid_shape"


@pytest.mark.process
def test_the_runtimes_three_steps_work_one_after_the_other(url):
    """Planning from the list, fetching the schema, and invoking."""
    name = next(tool["name"] for tool in fetch(f"{url}/v1/tools") if "time" in tool["description"])
    assert "tz" in fetch(f"{url}/v1/tools/{name}")["parameters"]["properties"]
    assert invoke(url, name, args={"tz": "Europe/Berlin"})["result"]["tz"] == "Europe/Berlin"


@pytest.mark.process
def test_enabled_domains_are_configured_by_the_environment(tmp_path):
    (tmp_path / "greetings.py").write_text(
        "from toolyard import function_tool\n"
        "def hello(name: str) -> str:\n    'Greet.'\n    return f'hello {name}'\n"
        "def load_tools():\n    return [function_tool(hello, namespace='greetings')]\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "toolyard", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "TOOL_REGISTRY_DOMAINS": "greetings",
            "TOOL_REGISTRY_PORT": "0",
            "TOOL_REGISTRY_HOST": "localhost",
        },
    )
    try:
        url = json.loads(process.stdout.readline())["url"]
        assert fetch(f"{url}/v1/tools") == [{"name": "hello", "description": "Greet."}]
        assert invoke(url, "hello", args={"name": "you"})["result"] == {"result": "hello you"}
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SOON)


@pytest.mark.process
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/tool-invocations", {"invocation_id": "i", "tool_name": "echo", "args": {"text": "a"}}),
        ("/v1/tools/tool_echo", None),
        ("/v1alpha1/tools", None),
        ("/v1beta1/tool-invocations", {}),
    ],
)
def test_a_client_of_arp_at_the_root_is_told_where_arp_is(url, path, body):
    from urllib.error import HTTPError

    with pytest.raises(HTTPError) as caught:
        fetch(f"{url}{path}", body)
    with caught.value as answer:
        assert answer.code == 404
        assert "served under /arp" in json.load(answer)["error"]["message"]
    if body and body.get("args"):
        assert fetch(f"{url}/arp{path}", body)["ok"] is True
