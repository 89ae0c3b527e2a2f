"""Scripts behind a real server: what it says of their sandbox, and how it takes edits over."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from script_folder import Folder
from waiting import SOON, until
from warm_python import warm_toolyard

from engines.scripts.support import AVAILABLE, put

pytestmark = pytest.mark.process

SAYS = "def run():\n    return '{}'\n"
MEET = """
    import os, time
    def run(meet=None):
        if meet:
            open(meet + "/began", "w").close()
            while not os.path.exists(meet + "/go"):
                time.sleep(0.01)
        return "{}"
"""


class Server:
    """A running `toolyard serve`."""

    def __init__(self, process):
        self.process = process
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        self.url = json.loads(line)["url"]
        self.pid = json.loads(line)["pid"]

    def ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=3 * SOON) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)

    def invoke(self, name, **arguments):
        """The answer; on this wire, what is no object is put into one."""
        answer = self.ask(f"/v1/tools/{name}:invoke", {"args": arguments})
        return {**answer, "result": answer["result"]["result"]} if answer.get("ok") else answer

    def reload(self):
        return self.ask("/v1/reload", method="POST")

    def names(self):
        return sorted(tool["name"] for tool in self.ask("/v1/tools"))


@contextmanager
def serving(folder, *flags, **options):
    path = folder.path.parent / "yard.json"
    path.write_text(json.dumps({"tools": [{"type": "scripts", "path": str(folder.path), "namespace": "y", **options}]}))
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TOOL_REGISTRY", "TOOLYARD"))}
    command = ["-m", "toolyard", "serve", str(path), "--port", "0", "--log", "off", *flags]
    with warm_toolyard().start(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            process.terminate()


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "tools")


@pytest.mark.parametrize(
    "options", [{"sandbox": level} for level in AVAILABLE] + [{}, {"isolation": "inprocess"}], ids=str
)
def test_health_and_the_first_lines_say_what_holds_the_scripts(folder, options):
    put(folder, "a", SAYS.format("hello"))
    expected = "inprocess" if "isolation" in options else options.get("sandbox", AVAILABLE[0])
    with serving(folder, **options) as server:
        health = server.ask("/v1/health")
        assert (health["status"], health["extensions"]["toolyard.sandbox"]) == ("ok", expected)
        assert server.invoke("y::a")["result"] == "hello"
        server.process.terminate()
        said = server.process.communicate(timeout=3 * SOON)[1]
        assert any("scripts run" in line and expected in line for line in said.splitlines()), said


def test_without_scripts_there_is_no_sandbox_to_speak_of(folder):
    folder.allow()
    with serving(folder) as server:
        assert server.ask("/v1/health")["extensions"]["toolyard.sandbox"] == "none"
        put(folder, "a", SAYS.format("hello"))
        server.reload()
        assert server.ask("/v1/health")["extensions"]["toolyard.sandbox"] == AVAILABLE[0]


def test_new_changed_and_deleted_files_take_effect_in_one_reload(folder):
    for name in ("stays", "changes", "goes"):
        put(folder, name, SAYS.format("old"))
    with serving(folder) as server:
        assert server.names() == ["y::changes", "y::goes", "y::stays"]
        assert {server.invoke(f"y::{name}")["result"] for name in ("stays", "changes", "goes")} == {"old"}
        put(folder, "changes", SAYS.format("new"))
        put(folder, "comes", SAYS.format("new"))
        (folder.path / "goes.py").unlink()
        assert server.names() == ["y::changes", "y::goes", "y::stays"]
        assert server.invoke("y::changes")["result"] == "old"
        server.reload()
        assert server.names() == ["y::changes", "y::comes", "y::stays"]
        answers = {name: server.invoke(f"y::{name}")["result"] for name in ("stays", "changes", "comes")}
        assert answers == {"stays": "old", "changes": "new", "comes": "new"}


@pytest.mark.parametrize("flags", [(), ("--watch",)], ids=["reload", "watch"])
def test_a_request_in_flight_is_answered_by_the_old_code(folder, meeting, flags):
    put(folder, "a", MEET.format("old"))
    with serving(folder, *flags, sandbox="rlimits") as server, ThreadPoolExecutor() as threads:
        flying = threads.submit(lambda: server.invoke("y::a", meet=str(meeting)))
        assert until((meeting / "began").exists)
        put(folder, "a", MEET.format("new"))
        if not flags:
            server.reload()
        assert until(lambda: server.invoke("y::a")["result"] == "new")
        assert not flying.done()
        (meeting / "go").touch()
        assert flying.result()["result"] == "old"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_server(folder, number, meeting):
    put(folder, "a", "import os\ndef run():\n    return os.getpid()\n")
    put(
        folder,
        "hang",
        "import os\nimport time\nTOOL_TIMEOUT = 6\ndef run(meet):\n    open(meet + '/' + str(os.getpid()), 'w').close()\n    time.sleep(600)\n",
    )
    with serving(folder, sandbox="rlimits") as server, ThreadPoolExecutor() as threads:
        pids = [server.invoke("y::a")["result"]]
        hung = threads.submit(lambda: _or_none(lambda: server.invoke("y::hang", meet=str(meeting))))
        assert until(lambda: list(meeting.iterdir()))
        pids += [int(path.name) for path in meeting.iterdir()]
        assert len(set(pids)) == 2 and all(Path(f"/proc/{pid}").exists() for pid in pids)
        os.kill(server.pid, number)
        assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        hung.result()


def _or_none(work):
    try:
        return work()
    except OSError:
        return None
