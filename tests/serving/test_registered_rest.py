"""REST tools that are registered over HTTP: answered, but only where anybody may call."""

import pytest
from engines.rest.echo_server import EchoServer

from serving.routes.test_registration import put, yard  # noqa: F401 - a fixture


@pytest.fixture
def echo():
    server = EchoServer()
    yield server
    server.close()


def test_registered_tools_are_called_by_the_rest_engine_and_reach_no_private_address(yard, echo):  # noqa: F811
    binding = {"type": "rest", "method": "GET", "path": "/w", "base_url": echo.url}
    answer = put(yard, "sky::weather", {"binding": binding, "effects": "read"})
    assert (answer.status, answer.json["engine"]) == (201, "rest")
    called = yard.invoke("sky::weather", {})
    assert called.json["error"]["code"] == "tool.denied" and echo.received == []
