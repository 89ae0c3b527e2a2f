"""What requests leave behind: nothing that only the garbage collector finds, while all others wait for it."""

import gc
import socket
from collections import Counter

import pytest
from service_support import CORE, served
from waiting import SOON
from wire_support import read_answer

from toolyard.serving.principal import Limits


@pytest.fixture
def collector():
    """Keeps what it finds, and looks only when told to."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield lambda: Counter(type(each).__name__ for each in (gc.collect(), gc.garbage)[1])
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def ask(port, token, count, close=False):
    head = f"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 24\r\n" + ("Connection: close\r\n" if close else "")
    with socket.create_connection(("127.0.0.1", port), SOON) as line:
        for _ in range(count):
            line.sendall(head.encode() + b'\r\n{"args": {"text": "hi"}}')
            yield read_answer(line).status


@pytest.mark.parametrize("burst", [1, 100])
def test_no_request_and_no_refusal_is_left_to_the_collector(tmp_path, collector, burst):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as yard:
        token = yard.key("*:*", limits=Limits(rate=0.001, burst=burst))
        first = list(ask(yard.port, token, 2))
        assert first == ([200, 429] if burst == 1 else [200, 200])
        collector()
        gc.garbage.clear()
        for _ in range(5):
            assert set(ask(yard.port, token, 1, close=True)) == {first[1]}
        found = collector()
        assert not {"Protocol", "Request", "RequestResponseCycle", "HttpFault", "traceback", "frame"} & set(found), (
            found
        )
