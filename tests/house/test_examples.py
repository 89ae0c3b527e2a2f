"""Every example runs."""

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from waiting import SOON
from warm_python import warm_toolyard

from toolyard import ToolCall, Toolyard
from toolyard.calls.batch import CallRequest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


def test_first_steps_runs_and_shows_report_call_and_error():
    done = warm_toolyard().run(["examples/first_steps.py"], cwd=ROOT)
    assert done.returncode == 0
    assert "tool.invalid_args" in done.stdout
    assert "weather_api__get_weather" in done.stdout
    assert "state unchanged: True" in done.stdout
    assert "reopened what-if: ['ok', 'tool.not_found', 'tool.invalid_args', 'ok', 'ok', 'tool.denied']" in done.stdout
    assert done.stderr == ""


def test_the_remote_example_gives_the_same_in_process_and_over_http():
    done = warm_toolyard().run(["examples/remote.py"], cwd=ROOT)
    assert done.returncode == 0
    here, there = done.stdout.split("Over HTTP\n")
    assert here.removeprefix("In process\n") == there
    assert "[33.34, 33.33, 33.33]" in there and "tool.invalid_args" in there and "same hash True" in there
    assert done.stderr == ""


@pytest.mark.parametrize(("folder", "name"), [("examples", "yard.yaml"), (".", "examples/yard.yaml")])
def test_the_example_yard_checks_clean_from_anywhere(folder, name):
    done = warm_toolyard().run(["-m", "toolyard", "check", name], cwd=ROOT / folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "24 tools loaded, 0 rejected" in done.stdout


def test_the_petstore_conversation_creates_reads_updates_and_deletes():
    done = warm_toolyard().run(["examples/petstore/conversation.py"], strict=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    said = re.findall(r"  (\w+)\(.*\)\n    -> (.*)", done.stdout)
    pet = '{"id": 3, "name": "Tom", "status": "available", "tags": ["cat"]}'
    sold = pet.replace("available", "sold")
    assert [name for name, _ in said] == [
        *("createPet", "getPet", "updatePet", "uploadImage", "getImage", "listPets"),
        *("getPet", "deletePet", "deletePet", "getPet"),
    ]
    answers = [answer for _, answer in said]
    assert answers[:2] == [pet, pet] and answers[2].startswith(f"{sold} {{'coercions'")
    assert '"bytes": 18' in answers[3] and '"base64": "iVBORw0KGgogYW5kIHNvIG9u"' in answers[4]
    assert answers[5:7] == [f'{{"pets": [{sold}], "total": 1}}', sold]
    assert answers[7].startswith("tool.denied") and answers[8] == "null"
    assert "404 Not Found: there is no pet 3" in answers[9]
    assert "8 calls are kept; the key is in none of them: True" in done.stdout


def test_the_petstore_keeps_pets_behind_its_key_and_ends_when_told_to():
    command = ["examples/petstore/server.py", "--port", "0"]
    env = {**os.environ, "PETSTORE_KEY": "let me in"}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with warm_toolyard().start(command, cwd=ROOT, env=env, text=True, **pipes) as pets:
        url = json.loads(pets.stdout.readline())["url"]
        codes = []
        for key in ("", "Bearer let me out", "Bearer let me in"):
            request = Request(f"{url}/pets", b'{"name": "Tom"}', {"Authorization": key})
            try:
                codes.append(urlopen(request).status)
            except HTTPError as refused:
                codes.append(refused.status)
                assert json.load(refused)["error"] == "Unauthorized"
        assert codes == [401, 401, 201]
        pets.terminate()
        assert (pets.wait(SOON), pets.stderr.read()) == (0, "")


def test_without_the_petstore_the_yard_still_loads_and_says_what_is_wrong():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    command = ["-m", "toolyard", "call", "petstore::getPet", '{"petId": 1}', "--config", "examples/yard.yaml"]
    done = warm_toolyard().run(command, cwd=ROOT, env={**os.environ, "PETSTORE_URL": url})
    assert done.returncode == 1
    assert f"tool.unavailable: cannot connect to {url}: connection refused" in done.stderr


@pytest.fixture(scope="module")
def yard():
    with Toolyard.from_config(ROOT / "examples" / "yard.yaml") as yard:
        yield yard


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("text_stats", {"text": "to be or not to be", "top": 1}, '"words": 6'),
        ("count_words", {"text": "one two"}, '"words": 2'),
        ("workdays_between", {"start": "2026-11-15", "end": "2026-11-22"}, '"working_days": 5'),
        ("add_workdays", {"start": "2026-11-13", "days": 1}, "2026-11-16"),
        ("csv_totals", {"text": "what,price\ntea,2.5\ncake,4\n"}, '"price": 6.5'),
    ],
)
async def test_the_scripts_of_the_yard_answer(yard, name, arguments, answer):
    # In no session of the yard, which keeps them in a file.
    (result,) = await yard.tool_engine.arun(CallRequest(calls=[ToolCall(f"office::{name}", arguments)]))
    assert not result.is_error
    assert answer in json.dumps(result.result)
