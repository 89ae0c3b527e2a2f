"""Which settings `toolyard serve` follows. How it runs is told in tests/serving."""

import json
import socket
import subprocess

import pytest
from waiting import SOON
from warm_python import warm_toolyard

from toolyard import ConfigError
from toolyard.app.blocks import ServerBlock
from toolyard.cli.main import run
from toolyard.cli.serve import _list_worker_arguments, apply_overrides


def settle(block=None, env=None, *, alone=False, **flags):
    return apply_overrides(block or ServerBlock(), flags, env or {}, alone=alone)


def test_flags_beat_the_environment_which_beats_the_config_which_beats_the_default():
    config = ServerBlock(host="10.0.0.1", port=1, domains=("a",))
    env = {"TOOL_REGISTRY_HOST": "10.0.0.2", "TOOL_REGISTRY_PORT": "2", "TOOL_REGISTRY_DOMAINS": "b, c"}
    assert settle() == ServerBlock()
    assert settle(config) == config
    block = settle(config, env)
    assert (block.host, block.port, block.domains) == ("10.0.0.2", 2, ("b", "c"))
    block = settle(config, env, host="h", port=0, domains="d")
    assert (block.host, block.port, block.domains) == ("h", 0, ("d",))
    assert settle(config, {"TOOL_REGISTRY_HOST": "", "TOOL_REGISTRY_PORT": "", "TOOL_REGISTRY_DOMAINS": ""}) == config


def test_without_a_config_the_core_domain_is_served_and_with_one_only_what_it_says():
    assert settle(alone=True).domains == ("core",)
    assert settle().domains is None
    assert settle(alone=True, domains="").domains == ()
    assert settle(env={"TOOL_REGISTRY_DOMAINS": "x"}, alone=True).domains == ("x",)


@pytest.mark.parametrize(
    ("env", "flags", "says"),
    [
        ({"TOOL_REGISTRY_PORT": "http"}, {}, "TOOL_REGISTRY_PORT: must be the number of a port, not 'http'"),
        ({"TOOL_REGISTRY_PORT": "70000"}, {}, "TOOL_REGISTRY_PORT: must be 65535 or less"),
        ({}, {"port": -1}, "--port: must be 0 or more"),
        ({}, {"workers": 0}, "--workers: must be 1 or more"),
        ({}, {"log": "jason"}, "--log: no such choice 'jason'; did you mean 'json'"),
        ({}, {"host": ""}, "--host: must be text, not empty"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_its_name(env, flags, says):
    with pytest.raises(ConfigError, match=says):
        settle(env=env, **flags)


def test_a_worker_is_started_with_what_was_settled(tmp_path):
    block = ServerBlock(host="::1", port=5, domains=("a", "b"), strict=True, log="json")
    arguments = _list_worker_arguments(tmp_path, block)
    assert arguments[:2] == ["serve", str(tmp_path)]
    assert "--strict" in arguments and "--no-strict" in _list_worker_arguments(None, ServerBlock())
    assert arguments[arguments.index("--domains") + 1] == "a,b"
    assert "--workers" not in arguments


@pytest.fixture
def clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLYARD_CONFIG", "TOOL_REGISTRY_HOST", "TOOL_REGISTRY_PORT", "TOOL_REGISTRY_DOMAINS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_busy_port_ends_the_command_with_what_to_do(clean, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "--auto-port" in capsys.readouterr().err


def test_a_wrong_server_block_ends_the_command_before_anything_listens(clean, capsys):
    (clean / "toolyard.yaml").write_text("tools: []\nserver: {prot: 1}\n")
    assert run(["serve"]) == 2
    assert "did you mean 'port'" in capsys.readouterr().err


def test_help_shows_what_people_may_say_and_not_what_workers_are_told(clean, capsys):
    run(["serve", "--help"])
    shown = capsys.readouterr().out
    assert "--auto-port" in shown and "--workers" in shown
    assert "--fd" not in shown and "--link" not in shown


@pytest.mark.process
def test_the_environment_chooses_where_to_listen_and_what_is_served(clean, monkeypatch):
    monkeypatch.setenv("TOOL_REGISTRY_PORT", "0")
    monkeypatch.setenv("TOOL_REGISTRY_DOMAINS", "core")
    process = warm_toolyard().start(
        ["-m", "toolyard", "serve", "--log", "off"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = json.loads(process.stdout.readline())
        assert said["port"] != 8000
    finally:
        process.terminate()
        _, err = process.communicate(timeout=3 * SOON)
    assert process.returncode == 0
    assert "serves 3 tools" in err


@pytest.mark.parametrize("flag", ["--names", "--expose"])
def test_what_mcp_clients_see_is_one_of_the_blocks_own_choices(clean, capsys, flag):
    assert run(["mcp", flag, "nope"]) == 2
    assert f"{flag}: no such choice 'nope'" in capsys.readouterr().err


@pytest.mark.process
def test_what_a_served_file_prints_does_not_come_before_the_address(clean, tmp_path):
    (tmp_path / "noisy.py").write_text("print('noise')\ndef f() -> int:\n    return 1\n")
    command = ["-m", "toolyard", "serve", str(tmp_path / "noisy.py"), "--port", "0", "--log", "off"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with warm_toolyard().start(command, **pipes) as server:
        assert json.loads(server.stdout.readline())["port"]
        server.terminate()
        assert "noise" in server.communicate()[1]


@pytest.mark.process
@pytest.mark.parametrize("verb", ["serve", "mcp"])
@pytest.mark.parametrize(("name", "says"), [("broken.py", "SyntaxError"), ("missing.py", "no such file")])
def test_a_file_that_is_served_in_place_of_a_config_and_cannot_be_loaded_is_an_error(tmp_path, verb, name, says):
    (tmp_path / "broken.py").write_text("def f(:\n")
    command = ["-m", "toolyard", verb, name, *(["--port", "0"] if verb == "serve" else [])]
    done = warm_toolyard().run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=SOON)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr


@pytest.mark.process
def test_over_pipes_what_was_left_out_and_which_rule_fits_nothing_is_told_on_standard_error(tmp_path):
    (tmp_path / "tools.yaml").write_text("- {name: add, description: A}\n- {name: b, parameters: {type: strng}}\n")
    rules = "policy: {rules: [{deny: 'default::ad'}]}\n"
    (tmp_path / "yard.yaml").write_text(f"tools: [{{type: file, path: tools.yaml}}]\n{rules}")
    words = ["-m", "toolyard", "mcp", "yard.yaml"]
    done = warm_toolyard().run(words, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=SOON)
    assert (done.returncode, done.stdout) == (0, "")
    assert "tools.yaml:2: left out: parameters of default::b" in done.stderr
    assert "default::ad matches no tool; did you mean default::add?" in done.stderr
