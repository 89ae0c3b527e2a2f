"""One server for a whole file: hypothesis asks it a thousand times."""

import pytest

from engines.rest.echo_server import EchoServer


@pytest.fixture(scope="module")
def shared_echo():
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def echo(shared_echo):
    shared_echo.received.clear()
    shared_echo.answer = lambda received: (204, "", b"")
    return shared_echo
