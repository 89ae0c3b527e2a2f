"""A server's life: where it listens, how it starts, how it stops."""

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from http.client import HTTPException

import pytest
from waiting import SOON, until
from warm_python import warm_toolyard

from serving.process_support import refused, served
from serving.service_support import Served
from serving.wire_support import answer, read_answer
from toolyard.app.blocks import ServerBlock
from toolyard.app.config import read_anything
from toolyard.serving.process import server as server_module
from toolyard.serving.process.server import write_banner
from toolyard.serving.process.workers import notify_systemd
from toolyard.serving.service import build_service

pytestmark = pytest.mark.process

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


@pytest.mark.process
def test_the_three_requests_that_are_suggested_work(tmp_path):
    with served(tmp_path, "--port", "0") as server:
        assert set(server.said) == {"url", "host", "port", "pid", "workers"}
        assert server.said["pid"] == server.pid
        code, err = server.stop()
    assert code == 0
    lines = [line.strip() for line in err.splitlines() if line.startswith("  curl ")]
    assert len(lines) == 3
    assert "there are no API keys" in err and f"console: {server.said['url']}/console/" in err
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


@pytest.mark.process
def test_elsewhere_than_loopback_nothing_is_served_without_a_key(tmp_path):
    code, err = refused(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert code == 2
    assert "no usable API key" in err and "toolyard key create" in err
    (tmp_path / "yard.yaml").write_text("tools: [{type: domains}]\nsessions: {store: sqlite, path: s.db}\n")
    assert refused(tmp_path, "yard.yaml", "--host", "0.0.0.0", "--port", "0")[0] == 2
    made = warm_toolyard().run(
        shlex.split("-m toolyard key create me --scope *:* --config yard.yaml --json"), cwd=tmp_path
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
def test_on_a_signal_it_finishes_running_calls_and_exits_with_0(tmp_path, yard, number):
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


def test_while_it_waits_for_what_runs_probes_find_nobody(tmp_path, yard):
    def is_refused():
        try:
            return server.ask("/readyz")[0] != 200
        except OSError:
            return True

    def doze():
        with suppress(OSError, HTTPException):
            server.invoke("slow::doze")

    with served(tmp_path, yard(server={"shutdown_timeout": SOON}), "--port", "0") as server:
        assert server.ask("/readyz") == server.ask("/livez") == (200, {"status": "ok"})
        caller = threading.Thread(target=doze)
        caller.start()
        until((tmp_path / "dozing").exists)
        server.process.send_signal(signal.SIGTERM)
        until(is_refused)
        assert server.process.poll() is None
        server.stop(signal.SIGINT)  # at once
        caller.join(SOON)


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
        assert json.loads(line)["logger"] == "toolyard.calls.failure"


def test_a_hangup_loads_the_sources_again(tmp_path):
    (tmp_path / "tools.yaml").write_text("x: [{name: one}]")
    (tmp_path / "yard.yaml").write_text("tools: [{type: file, path: tools.yaml}]")
    with served(tmp_path, "yard.yaml", "--port", "0") as server:
        assert [tool["name"] for tool in server.ask("/v1/tools")[1]] == ["x::one"]
        (tmp_path / "tools.yaml").write_text("x: [{name: one}, {name: two}]")
        os.kill(server.pid, signal.SIGHUP)
        until(lambda: len(server.ask("/v1/tools")[1]) == 2)


def test_a_hangup_after_a_change_of_the_config_says_that_this_needs_a_restart(tmp_path):
    (tmp_path / "tools.yaml").write_text("x: [{name: one}]")
    (tmp_path / "yard.yaml").write_text("tools: [{type: file, path: tools.yaml}]")
    with served(tmp_path, "yard.yaml", "--port", "0") as server:
        for names, config in (("one}, {name: two", ""), ("three", "# changed")):
            (tmp_path / "tools.yaml").write_text(f"x: [{{name: {names}}}]")
            with (tmp_path / "yard.yaml").open("a") as file:
                file.write(config)
            os.kill(server.pid, signal.SIGHUP)
            assert until(lambda last=names[-3:]: last in str(server.ask("/v1/tools")[1]))
        _, err = server.stop()
    assert err.count("restart to use it") == 1


def test_a_hangup_during_the_start_does_not_end_it_and_is_heeded_afterwards(tmp_path):
    (tmp_path / "desk.py").write_text(
        "import os, signal\nfrom pathlib import Path\n\n\ndef look() -> int:\n    return 1\n\n\n"
        "began = Path(__file__).with_name('began')\n"
        "Path(__file__).with_name('again' if began.exists() else 'began').touch()\n"
        "if not Path(__file__).with_name('again').exists():\n    os.kill(os.getpid(), signal.SIGHUP)\n"
    )
    (tmp_path / "yard.yaml").write_text("tools: [{type: python, target: desk.py, namespace: desk}]")
    with served(tmp_path, "yard.yaml", "--port", "0") as server:
        assert until((tmp_path / "again").exists)
        assert [tool["name"] for tool in server.ask("/v1/tools")[1]] == ["desk::look"]


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


def fail_to_start(tmp_path, *arguments, **env):
    """`toolyard serve` that does not come up: its exit status and what it said."""
    done = warm_toolyard().run(
        ["-m", "toolyard", "serve", *arguments], timeout=SOON, cwd=tmp_path, env={**os.environ, **env}
    )
    return done.returncode, done.stderr, done.stdout


@contextmanager
def serving(tmp_path, *arguments, **env):
    """`toolyard serve` as a process of its own."""
    process = warm_toolyard().start(
        ["-m", "toolyard", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), **env},
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Served(None, json.loads(line)["port"]), json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SOON)
    assert process.returncode == 0


@pytest.mark.process
def test_a_busy_port_is_an_error_unless_another_may_be_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said, printed = fail_to_start(tmp_path, "--port", str(port))
        assert status != 0 and str(port) in said and "--auto-port" in said and not printed
        status, said, _ = fail_to_start(tmp_path, TOOL_REGISTRY_PORT=str(port))
        assert status != 0 and str(port) in said
        with serving(tmp_path, "--port", str(port), "--auto-port") as (yard, line):
            assert line["port"] != port and line["url"] == f"http://127.0.0.1:{line['port']}"
            assert yard.get("/v1/tools").status == 200


@pytest.mark.process
def test_one_bad_domain_does_not_stop_the_others_and_domains_need_no_patching(tmp_path):
    (tmp_path / "my_domain.py").write_text(
        "from pathlib import Path\n"
        "from toolyard import function_tool\n"
        "def hello() -> str:\n    'Say hello.'\n    return 'hello'\n"
        "def load_tools():\n"
        "    names = Path(__file__).with_name('names.txt').read_text().split()\n"
        "    return [function_tool(hello, namespace='my_domain', name=name) for name in names]\n"
    )
    (tmp_path / "names.txt").write_text("hello")
    (tmp_path / "bad_domain.py").write_text("raise RuntimeError('broken')\n")
    env = {"TOOL_REGISTRY_DOMAINS": "core,tests_bad.nowhere,my_domain,bad_domain"}
    with serving(tmp_path, "--port", "0", **env) as (yard, _):
        names = [line["name"] for line in yard.get("/v1/tools").json]
        assert names == ["echo", "calc", "time_now", "hello"]
        assert yard.invoke("hello", {}).json["result"] == {"result": "hello"}
        assert yard.get("/v1/health").json["checks"][0]["details"] == {"loaded": 4, "rejected": 2}
        rejected = json.dumps(yard.get("/v1/report").json)
        assert "tests_bad.nowhere" in rejected and "bad_domain" in rejected
        (tmp_path / "names.txt").write_text("good_day")
        assert yard.ask("POST", "/v1/reload").status == 200
        assert [line["name"] for line in yard.get("/v1/tools").json][3:] == ["good_day"]
    status, said, _ = fail_to_start(tmp_path, "--port", "0", "--strict", PYTHONPATH=str(tmp_path), **env)
    assert status != 0 and "tests_bad.nowhere" in said


@contextmanager
def service_manager(address):
    """Where systemd would listen; what it is told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(address.replace("@", "\0"))
        line.setblocking(False)
        yield lambda: line.recv(100)


@pytest.mark.parametrize(("workers", "abstract"), [("1", False), ("2", True)])
def test_systemd_is_told_once_when_it_accepts_and_once_when_it_stops(tmp_path, workers, abstract):
    address = f"@toolyard-test-{os.getpid()}-{workers}" if abstract else str(tmp_path / "notify")
    (tmp_path / "yard.json").write_text(json.dumps({"tools": [], "sessions": {"store": "sqlite", "path": "s.db"}}))
    with service_manager(address) as read:
        options = ("yard.json", "--port", "0", "--workers", workers)
        with served(tmp_path, *options, env={"NOTIFY_SOCKET": address}) as server:
            assert read() == b"READY=1"
            assert server.ask("/livez")[0] == 200
            with pytest.raises(BlockingIOError):
                read()
            assert server.stop()[0] == 0
        assert read() == b"STOPPING=1"
        with pytest.raises(BlockingIOError):
            read()


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "/nowhere/at/all", "@"])
def test_a_manager_that_cannot_be_told_keeps_nobody_from_serving(address, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert notify_systemd("READY=1") is None


def test_what_a_policy_denies_is_said_at_the_start_and_not_suggested(tmp_path):
    (tmp_path / "shop.py").write_text("def refund(order: int) -> str: ...\ndef look(order: int) -> str: ...\n")
    config = {"tools": [{"type": "python", "target": str(tmp_path / "shop.py"), "namespace": "shop"}]}
    for rules, said, shown in (
        ([{"deny": "shop::refund"}], "may use every tool but 1 that the policy denies", "shop::look:invoke"),
        ([], "may use every tool\n", "shop::refund:invoke"),
    ):
        service = build_service(read_anything({**config, "policy": {"rules": rules}}), ServerBlock(port=0))
        try:
            banner = write_banner(service, "http://x")
        finally:
            service.yard.close()
        assert said in banner and shown in banner
