"""Every block of code of every page: Python is run, commands are typed, configs are read, JSON is parsed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from waiting import SOON
from warm_python import warm_toolyard

from toolyard import SourceUnavailable, Toolyard
from toolyard.app.config import is_config, read_config

from .pages import INSTALLS, ROOT, read_pages

pytestmark = pytest.mark.process

PAGES = {page.name: page for page in read_pages()}
PYTHON = [
    (name, index)
    for name, page in PAGES.items()
    for index, block in enumerate(page.blocks("python"))
    if not block.title
]
COMMANDS = [name for name, page in PAGES.items() if page.blocks("console")]
PORT = "8765"
TOKEN = "the-token-of-the-pets"
PETS = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets": {
            "post": {
                "operationId": "addPet",
                "summary": "Add a pet.",
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"type": "object", "properties": {"name": {"type": "string"}}}}
                    }
                },
                "responses": {"201": {"description": "made"}},
            }
        }
    },
}


class PetsHandler(BaseHTTPRequestHandler):
    """Tells its document, and keeps pets, for those alone who have the token."""

    def do_GET(self):
        self.answer(200, PETS)

    def do_POST(self):
        self.answer(201, json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def answer(self, status, value):
        if self.headers["authorization"] != f"Bearer {TOKEN}":
            status, value = 401, {"error": "who are you?"}
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nobody reads it."""


@pytest.fixture(scope="module")
def pets():
    with ThreadingHTTPServer(("127.0.0.1", 0), PetsHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write_files(page, folder):
    """The files that the page shows, and the catalog that several pages name."""
    shutil.copy(ROOT / "examples/catalogs/weather.yaml", folder)
    for block in page.blocks():
        if "." in block.title:  # else it is the name of a framework, whose tests run the block
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


@pytest.fixture
def shell(tmp_path, pets):
    """Runs a command as a new user has it: in an empty folder and home, with the installed `toolyard` on the path."""
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "PETS_URL": pets,
        "PETS_TOKEN": TOKEN,
    }
    ports, approvals, started = [], ["none yet"], []

    def run(command):
        # The port of the page may be taken here, and ids are not known before: what was said last stands for them.
        command = command.replace(PORT, ports[-1] if ports else "0").replace("APPROVAL_ID", approvals[-1])
        behind = command.endswith(" &")
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command.removesuffix(' &')}" if behind else command],
            cwd=folder,
            env=env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if behind else subprocess.STDOUT,
            start_new_session=True,
        )
        if behind:
            started.append(process)
            said = process.stdout.readline()
            ports.append(str(json.loads(said)["port"]))
            return 0, said.replace(ports[-1], PORT)
        said, _ = process.communicate(timeout=SOON)
        approvals.extend(re.findall(r"approve\|deny (\S+)", said))
        return process.returncode, said

    run.folder = folder
    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=SOON)


def read_commands(text):
    """Each command with the lines it is to say and the status it ends with."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            command, _, status = command.partition("  # exits ")
            yield command, lines, int(status or 0)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_say_what_the_page_says(shell, name):
    write_files(PAGES[name], shell.folder)
    commands = list(read_commands(PAGES[name].text))
    assert commands
    for command, lines, status in commands:
        if command.startswith("curl ") and shutil.which("curl") is None:
            continue  # a bare machine may have none; what it asks of the server, tests/serving ask, too
        code, said = shell(command)
        assert code == status, f"{command}\n{said}"
        for line in lines:
            words = ".*".join(r"\s+".join(map(re.escape, part.split())) for part in line.split("..."))
            assert re.search(rf"^\s*{words}", said, re.MULTILINE), f"{command}\nwanted: {line}\n{said}"


def test_each_task_of_the_first_hour_takes_the_commands_that_it_says():
    tasks = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGES["first-hour"].text, re.DOTALL | re.MULTILINE)
    assert len(tasks) >= 10
    for task, text in tasks:
        count = len(list(read_commands(text)))
        assert 0 < count <= 3 and f"({count} command{'s' * (count > 1)})" in task


@pytest.mark.parametrize(("name", "index"), PYTHON)
def test_python_prints_what_the_page_says(name, index, tmp_path):
    block = PAGES[name].blocks("python")[index].text
    write_files(PAGES[name], tmp_path)
    done = warm_toolyard().run(["-c", block], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"# -> (.*)", block)


@pytest.mark.parametrize("name", PAGES)
def test_configs_are_read_and_nothing_is_in_another_language(name, tmp_path):
    for block in PAGES[name].blocks():
        match block.language:
            case "yaml":
                document = yaml.safe_load(block.text)
                if not block.title or is_config(document):
                    values = dict.fromkeys(re.findall(r"\$\{(\w+)", block.text), "x")
                    read_config({"tools": [], **document}, base=tmp_path, env=values)
            case "json":
                json.loads(block.text)
            case "sh":
                # What installs and deploys; anything else belongs into a block of `console`, which runs.
                lines = block.text.replace("\\\n", "").splitlines()
                assert all(INSTALLS.match(line) for line in lines if line and not line.startswith("#")), block.text
            case language:
                assert language in ("python", "console", "text", "toml", "dockerfile", "ini", "mermaid"), language


def test_an_api_whose_document_is_behind_a_key_says_which_option_is_missing(pets):
    source = {"type": "rest", "spec": f"{pets}/openapi.json", "engine": "api"}
    engines = {"api": {"type": "rest", "auth": {"type": "bearer", "token": TOKEN}}}
    with pytest.raises(SourceUnavailable, match=r"answers 401.*`headers`.*not with the request for the document"):
        Toolyard.from_config({"tools": {"registry": [source], "engines": engines}})
