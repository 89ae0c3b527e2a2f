"""A shell in a new user's environment for the commands on pages, and the API with a key that some of them use."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from waiting import SOON
from warm_python import warm_toolyard

from .pages import ROOT

PORTS = re.compile(r"\b876\d\b")
"""Ports that pages mention."""
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
    """Serves its OpenAPI document and stores pets, for clients with the token."""

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
        """Do not log."""


@pytest.fixture(scope="module")
def pets():
    with ThreadingHTTPServer(("127.0.0.1", 0), PetsHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write_files(page, folder):
    """Write the files that a page, or part of one, shows, and the catalog that several pages use."""
    shutil.copy(ROOT / "examples/catalogs/weather.yaml", folder)
    for block in page.blocks():
        if "." in block.title:  # otherwise the title names a framework, whose tests run the block
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


@pytest.fixture
def shell(tmp_path, pets):
    """Runs commands as a new user would: in an empty folder and home, with the installed `toolyard` on the path.

    Both the commands in the foreground and those behind, such as servers, run in a warm Python.
    """
    folder, home, quick = tmp_path / "folder", tmp_path / "home", tmp_path / "quick"
    for made in (folder, home, quick):
        made.mkdir()
    installed = Path(sys.executable).parent
    warm = quick / "toolyard"
    warm.write_text(f'#!/bin/sh\nexec {shlex.join(warm_toolyard().command(installed / "toolyard"))} "$@"\n')
    warm.chmod(0o755)
    env = {
        "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        # A new user has none of the test plugins installed here, one of which takes half a second to import.
        "PYTEST_ADDOPTS": "-p no:schemathesis -p no:hypothesispytest -p no:xdist -p no:asyncio -p no:anyio -p no:timeout",
    }
    ports, approvals, started = {}, ["none yet"], []

    def run(command):
        # The page's port may be in use, and ids are not known in advance: take them from the last output.
        if assigned := re.fullmatch(r"export (\w+)=(\S+)", command):
            env[assigned[1]] = assigned[2]
            return 0, ""
        behind, named = command.endswith(" &"), PORTS.search(command)
        command = command.replace("https://pets.example", pets)
        command = PORTS.sub(lambda found: "0" if behind else ports.get(found[0], "0"), command)
        command = command.replace("APPROVAL_ID", approvals[-1])
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command.removesuffix(' &')}" if behind else command],
            cwd=folder,
            env={**env, "PATH": f"{quick}{os.pathsep}{env['PATH']}"},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if behind else subprocess.STDOUT,
            start_new_session=True,
        )
        if behind:
            started.append(process)
            said = process.stdout.readline()
            ports[named[0]] = str(json.loads(said)["port"])
            return 0, said.replace(ports[named[0]], named[0])
        said, _ = process.communicate(timeout=SOON)
        approvals.extend(re.findall(r"approvals approve (\S+)", said))
        return process.returncode, said

    run.folder = folder
    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=SOON)


def read_commands(text):
    """Each command with its expected output and exit status."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            command, _, status = command.partition("  # exits ")
            yield command, lines, int(status or 0)


def run_commands(shell, page, text):
    """Run the commands of a text in a folder with the page's files; returns the transcript up to the first difference.

    The first command with other output or exit status is included with its actual output.
    """
    write_files(page, shell.folder)
    typed = []
    for command, lines, status in read_commands(text):
        typed.append(command)
        if command.startswith("curl ") and shutil.which("curl") is None:
            continue  # may not be installed; tests/serving send the same requests
        code, said = shell(command)
        if code != status:
            return [*typed[:-1], f"{command}\nended with {code}\n{said}"]
        for line in lines:
            words = ".*".join(r"\s+".join(map(re.escape, part.split())) for part in line.split("..."))
            if re.search(rf"^\s*{words}", said, re.MULTILINE) is None:
                return [*typed[:-1], f"{command}\nwanted: {line}\n{said}"]
    return typed
