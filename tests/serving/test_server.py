"""A server's life: where it listens, how it starts, how it stops."""

import asyncio
import json
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import threading

import pytest
from process_support import refused, served
from waiting import SOON, until
from wire_support import answer, read_answer

from toolyard import ConfigError
from toolyard.app.build import read_anything
from toolyard.app.server_block import ServerBlock
from toolyard.serving import server as server_module
from toolyard.serving.listening import Address, address_of, listen, room_for_connections

SLOW = """
import pathlib, time
from toolyard import tool

@tool
def nap(seconds: float) -> str:
    "Sleep."
    pathlib.Path("napping").touch()
    time.sleep(seconds)
    return "rested"

@tool
async def doze() -> str:
    "Sleep for long."
    import asyncio
    pathlib.Path("dozing").touch()
    await asyncio.sleep(1000)
    return "never"
"""


@pytest.fixture
def yard(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)

    def write(**blocks):
        document = {"tools": [{"type": "python", "target": "slow.py", "namespace": "slow"}], **blocks}
        path = tmp_path / "yard.json"
        path.write_text(json.dumps(document))
        return path.name

    return write


def test_a_socket_listens_where_the_block_says_and_names_itself():
    with listen(ServerBlock(port=0)) as listener:
        address = address_of(listener)
        assert address.host == "127.0.0.1"
        assert address.url == f"http://127.0.0.1:{address.port}"
        assert listener.proto == socket.IPPROTO_TCP
        socket.create_connection((address.host, address.port), timeout=SOON).close()


def test_a_busy_port_is_named_with_what_to_do_and_the_next_is_taken_only_on_request():
    with listen(ServerBlock(port=0)) as taken:
        port = address_of(taken).port
        with pytest.raises(ConfigError, match=rf"port {port} is in use at 127.0.0.1; .*--port.*--auto-port"):
            listen(ServerBlock(port=port))
        with listen(ServerBlock(port=port, auto_port=True)) as other:
            assert port < address_of(other).port < port + 100


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7", "a" * 300])
def test_an_address_that_cannot_be_had_is_an_error_that_names_it(host):
    with pytest.raises(ConfigError, match="cannot listen at"):
        listen(ServerBlock(host=host, port=0))


def test_addresses_are_written_so_that_a_browser_on_this_machine_finds_them():
    assert Address("::1", 80).url == "http://[::1]:80"
    assert Address("0.0.0.0", 80).url == "http://127.0.0.1:80"
    assert Address("::", 80).url == "http://[::1]:80"
    assert [Address(host, 1).is_private for host in ("127.8.8.8", "::1", "0.0.0.0", "10.0.0.1")] == [
        True,
        True,
        False,
        False,
    ]


def test_open_files_are_allowed_for_and_never_fewer_than_before():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert room_for_connections(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
        hard = before[1]
        if hard != resource.RLIM_INFINITY:
            assert room_for_connections(hard * 2) == hard - 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_three_requests_that_are_suggested_work(tmp_path):
    with served(tmp_path, "--port", "0") as server:
        assert set(server.said) == {"url", "host", "port", "pid", "workers"}
        assert server.said["pid"] == server.pid
        code, err = server.stop()
    assert code == 0
    lines = [line.strip() for line in err.splitlines() if line.startswith("  curl ")]
    assert len(lines) == 3
    assert "there are no API keys" in err
    with served(tmp_path, "--port", str(server.said["port"])) as server:
        for line in lines:
            done = subprocess.run([*shlex.split(line), "-sS", "-f"], capture_output=True, text=True, timeout=SOON)
            assert done.returncode == 0, (line, done.stderr)
        assert json.loads(done.stdout)["ok"] is True


def test_what_could_not_be_loaded_is_said_at_the_start_and_the_rest_is_served(tmp_path):
    (tmp_path / "yard.yaml").write_text(
        "tools: [{type: file, path: nowhere.yaml}]\nserver: {domains: 'core, no_such_domain', port: 0}\n"
    )
    with served(tmp_path, "yard.yaml") as server:
        assert server.invoke("echo", text="hi")[1]["result"] == {"text": "hi"}
        assert server.ask("/v1/report")[1]["ok"] is False
        _, err = server.stop()
    assert "nowhere.yaml: failed" in err
    assert "no_such_domain" in err
    code, err = refused(tmp_path, "yard.yaml", "--strict")
    assert code == 2
    assert "no_such_domain" in err or "nowhere.yaml" in err


def test_elsewhere_than_loopback_nothing_is_served_without_a_key(tmp_path):
    code, err = refused(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert code == 2
    assert "no usable API key" in err and "toolyard key create" in err
    (tmp_path / "yard.yaml").write_text("tools: [{type: domains}]\nsessions: {store: sqlite, path: s.db}\n")
    assert refused(tmp_path, "yard.yaml", "--host", "0.0.0.0", "--port", "0")[0] == 2
    made = subprocess.run(
        [*shlex.split(f"{sys.executable} -m toolyard key create me --scope *:* --config yard.yaml --json")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    token = json.loads(made.stdout)["token"]
    with served(tmp_path, "yard.yaml", "--host", "0.0.0.0", "--port", "0") as server:
        assert server.said["host"] == "0.0.0.0"
        assert server.ask("/v1/tools")[0] == 401
        assert server.ask("/v1/tools", Authorization=f"Bearer {token}")[0] == 200
        _, err = server.stop()
    assert "API keys are required; 1 is usable now" in err
    assert token not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_finishes_the_call_that_runs_and_ends_well(tmp_path, yard, number):
    with served(tmp_path, yard(), "--port", "0") as server:
        answers = []
        caller = threading.Thread(target=lambda: answers.append(server.invoke("slow::nap", seconds=0.5)))
        caller.start()
        until((tmp_path / "napping").exists)
        code, _ = server.stop(number)
        caller.join(SOON)
    assert code == 0
    assert answers[0][0] == 200
    assert answers[0][1]["ok"] is True


def test_a_call_that_does_not_end_in_time_is_cancelled_and_its_caller_told(tmp_path, yard):
    config = yard(server={"shutdown_timeout": 0.2})
    with served(tmp_path, config, "--port", "0") as server:
        answers = []
        caller = threading.Thread(target=lambda: answers.append(server.invoke("slow::doze")))
        caller.start()
        until((tmp_path / "dozing").exists)
        code, err = server.stop()
        caller.join(SOON)
    assert code == 0
    assert "1 requests did not end in time" in err
    assert answers[0][0] >= 500


@pytest.mark.parametrize("style", ["text", "json", "off"])
def test_a_tool_that_fails_cannot_forge_a_line_of_the_log(tmp_path, style):
    (tmp_path / "broken.py").write_text(
        "from toolyard import tool\n\n@tool\ndef fail(text: str) -> str:\n    'Fails.'\n    raise RuntimeError(text)\n"
    )
    (tmp_path / "yard.json").write_text('{"tools": [{"type": "python", "target": "broken.py", "namespace": "b"}]}')
    forged = "x\n2026-11-15T09:00:00.000Z request method=POST status=200 key=admin\r\x1b[2J password=hunter2"
    with served(tmp_path, "yard.json", "--port", "0", "--log", style) as server:
        _, answer = server.invoke("b::fail", text=forged)
        _, err = server.stop()
    number = answer["error"]["details"]["error_id"]
    [line] = [line for line in err.splitlines() if number in line]
    assert "\x1b" not in err and "hunter2" not in err and "Traceback" not in err
    assert not any(line.startswith("2026-11-15T09:00:00.000Z") for line in err.splitlines())
    assert "RuntimeError" in line and "broken.py:6" in line
    if style == "json":
        assert json.loads(line)["logger"] == "toolyard.calls.discretion"


def test_a_hangup_loads_the_sources_again(tmp_path):
    (tmp_path / "tools.yaml").write_text("x: [{name: one}]")
    (tmp_path / "yard.yaml").write_text("tools: [{type: file, path: tools.yaml}]")
    with served(tmp_path, "yard.yaml", "--port", "0") as server:
        assert [tool["name"] for tool in server.ask("/v1/tools")[1]] == ["x::one"]
        (tmp_path / "tools.yaml").write_text("x: [{name: one}, {name: two}]")
        os.kill(server.pid, signal.SIGHUP)
        until(lambda: len(server.ask("/v1/tools")[1]) == 2)


def test_an_app_that_refuses_to_start_is_a_failure_and_everything_is_closed(tmp_path, caplog):
    async def refusing(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "not today"})

    closed = []

    def make_app(service):
        service.yard.tool_registry.close = lambda: closed.append(True)
        return refusing

    config = read_anything({"tools": [{"type": "domains"}]})
    assert server_module.serve(config, ServerBlock(port=0), ready=print, make_app=make_app) is False
    assert closed == [True]
    assert "not today" in caplog.text


def test_the_server_runs_any_app_and_stops_when_its_lifeline_ends():
    ours, theirs = socket.socketpair()
    ready = threading.Event()
    addresses = []

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await asyncio.sleep(0)
        await answer(send, 200, b"fine")

    def run():
        config = read_anything({"tools": [{"type": "domains"}]})
        server_module.serve(
            *(config, ServerBlock(port=0)),
            ready=lambda address, text: (addresses.append(address), ready.set()),
            make_app=lambda service: app,
            lifeline=theirs,
        )

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(SOON)
    with socket.create_connection((addresses[0].host, addresses[0].port), timeout=SOON) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(line).body == b"fine"
        ours.close()
        thread.join(SOON)
        assert not thread.is_alive()
    theirs.close()
