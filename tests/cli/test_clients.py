"""`toolyard install` and `uninstall`: real files in a home of their own; what was written is what a client can start."""

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from mcp_rig.sdk_client import connect, describe_process

from toolyard.cli.clients import CLIENTS, find_file
from toolyard.cli.main import run
from toolyard.parsing.text_edits import JSONC

NAMES = list(CLIENTS)
HELD = {
    "claude-desktop": '{\n  "globalShortcut": "",\n  "mcpServers": {\n    "time": {"command": "uvx"}\n  }\n}\n',
    "claude-code": '{"numStartups": 3, "mcpServers": {}, "projects": {"/x": {"allowedTools": []}}}',
    "cursor": "",
    "vscode": '{\n\t// keys are asked for\n\t"inputs": [],\n\t"servers": {\n\t\t"x": {"type": "http", "url": "https://x"}, // mine\n\t},\n}\n',
    "codex": 'model = "gpt"  # the one\n\n[mcp_servers.x]\ncommand = "y"\n\n[projects."/x"]\ntrust_level = "trusted"\n',
    "gemini-cli": '{\r\n    "theme": "Dark" /* at night */\r\n}\r\n',
}
"""What people have in these files; an empty one is one that is not there."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "TOOLYARD_CONFIG", "YARD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work place").mkdir()
    monkeypatch.chdir(tmp_path / "work place")
    Path("desk.py").write_text('def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n')
    Path("yard.yaml").write_text("tools: [{type: python, target: desk.py, namespace: desk}]\n")
    return tmp_path / "home"


def place_of(client, home):
    return find_file(CLIENTS[client], "linux", {}, home)


def hold(client, home, text):
    place = place_of(client, home)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode())
    return place


def entries(client, place):
    text = place.read_bytes().decode()
    return (tomllib.loads(text) if client == "codex" else JSONC.read(text, "f"))[CLIENTS[client].key]


def test_each_client_has_its_place_on_each_system():
    home = Path("/h")
    found = {
        system: {name: str(find_file(client, system, {}, home)) for name, client in CLIENTS.items()}
        for system in ("linux", "darwin", "win32")
    }
    assert found["linux"] == {
        "claude-desktop": "/h/.config/Claude/claude_desktop_config.json",
        "claude-code": "/h/.claude.json",
        "cursor": "/h/.cursor/mcp.json",
        "vscode": "/h/.config/Code/User/mcp.json",
        "codex": "/h/.codex/config.toml",
        "gemini-cli": "/h/.gemini/settings.json",
    }
    settings = {"darwin": "/h/Library/Application Support", "win32": "/h/AppData/Roaming"}
    for system, folder in settings.items():
        other = {
            "claude-desktop": f"{folder}/Claude/claude_desktop_config.json",
            "vscode": f"{folder}/Code/User/mcp.json",
        }
        assert found[system] == {**found["linux"], **other}
    moved = {"XDG_CONFIG_HOME": "/c", "CODEX_HOME": "/x", "CLAUDE_CONFIG_DIR": "/d"}
    assert [str(find_file(CLIENTS[name], "linux", moved, home)) for name in ("vscode", "codex", "claude-code")] == [
        *("/c/Code/User/mcp.json", "/x/config.toml", "/d/.claude.json")
    ]


@pytest.mark.parametrize("client", NAMES)
def test_what_is_there_stays_and_comes_back_to_the_byte(client, home, capsys):
    place = hold(client, home, HELD[client]) if HELD[client] else place_of(client, home)
    kept = {} if not HELD[client] or client == "gemini-cli" else entries(client, place)
    assert run(["install", client, "yard.yaml"]) == 0
    assert CLIENTS[client].title in capsys.readouterr().out
    now = entries(client, place)
    assert now == {**kept, "toolyard": now["toolyard"]}
    assert now["toolyard"]["args"] == ["-m", "toolyard", "mcp", str(Path("yard.yaml").absolute())]
    assert ("type" in now["toolyard"]) == (client in ("claude-code", "vscode"))
    for comment in ("// keys are asked for", "// mine", "# the one", "/* at night */"):
        assert (comment in place.read_text()) == (comment in HELD[client])

    assert run(["install", client, "desk.py"]) == 0  # changed in place
    assert entries(client, place)["toolyard"]["args"][-1].endswith("desk.py")
    assert run(["uninstall", client, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["done"] == "taken"
    assert (place.read_bytes().decode() if place.exists() else "") == HELD[client]
    assert [path.name for path in place.parent.iterdir() if "toolyard" in path.name] == []
    assert run(["uninstall", client]) == 1
    assert "has no server 'toolyard'" in capsys.readouterr().err


@pytest.mark.process
async def test_the_entry_written_for_each_starts_the_same_server_that_lists_and_calls_tools(home, monkeypatch):
    written = []
    for client in NAMES:
        assert run(["install", client, "yard.yaml", "--name", "my yard"]) == 0
        entry = entries(client, place_of(client, home))["my yard"]
        written.append({"command": entry["command"], "args": entry["args"], "env": entry.get("env")})
    assert written == written[:1] * len(NAMES)
    monkeypatch.chdir("/")  # where desktop programs start what they start
    server = describe_process([written[0]["command"], *written[0]["args"]], written[0]["env"])
    async with connect(server) as started:
        assert [tool.name for tool in (await started.list_tools()).tools] == ["desk__add"]
        assert (await started.call_tool("desk__add", {"a": 1, "b": 2})).structured_content == {"result": 3}


def test_what_others_change_meanwhile_stays_when_the_yard_is_taken_out(home):
    place = hold("cursor", home, '{"mcpServers": {}}')
    run(["install", "cursor", "yard.yaml"])
    run(["install", "cursor", "desk.py", "--name", "desk"])
    place.write_text(place.read_text().replace('"mcpServers"', '"new": 1, "mcpServers"'))
    assert run(["uninstall", "cursor"]) == 0
    assert list(json.loads(place.read_text())["mcpServers"]) == ["desk"]
    assert run(["uninstall", "cursor", "--name", "desk"]) == 0
    assert json.loads(place.read_text()) == {"new": 1}


@pytest.mark.parametrize(
    ("client", "text", "error"),
    [
        (
            "cursor",
            '{\n  "mcpServers": {\n    "x": 1,,\n  }\n}',
            "mcp.json:3:11" if sys.version_info >= (3, 13) else "mcp.json:4:3",
        ),
        ("vscode", '{"servers": [', "mcp.json:1"),
        ("codex", "a = 1\n[b\n", "line 2"),
        ("gemini-cli", '{"mcpServers": {"toolyard": {"command": "theirs"}}}', "say another --name"),
        ("gemini-cli", '{"mcpServers": {"toolyard": "text"}}', "say another --name"),
    ],
)
def test_a_broken_file_or_an_entry_of_somebody_else_is_refused_and_left_alone(client, text, error, home, capsys):
    place = hold(client, home, text)
    for verb in (["install", client, "yard.yaml"], ["uninstall", client]):
        assert run(verb) == 2
        assert error in capsys.readouterr().err
    assert place.read_text() == text and len(list(place.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("config", "text", "error"),
    [
        ("nofile.py", None, "nofile.py: no such file"),
        ("none.yaml", None, "none.yaml: no such file"),
        ("bad.yaml", "tools: [{type: pyhton, target: desk.py}]", "did you mean 'python'?"),
        ("bad.yaml", "tools: [{type: python, targett: desk.py}]", "tools.registry[0]: "),
        ("bad.yaml", "tools: [{type: python, target: gone.py}]", "tools.registry[0].target: there is no /"),
        (
            "bad.yaml",
            "tools: [{type: domains, domains: core}, {type: file, path: gone.yaml}]",
            "[1].path: there is no /",
        ),
        ("bad.yaml", "tools: [{type: rest, spec: sub/gone.json}]", "sub/gone.json"),
        ("bad.yaml", "tools: [{type: scripts, path: gone}]", "[0].path: there is no /"),
        ("bad.yaml", "tools: [{type: mcp_config, path: gone.json}]", "[0].path: there is no /"),
        ("bad.yaml", "tools: {registry: [], engines: {e: {type: rest, timeout: soon}}}", "tools.engines.e"),
        ("bad.yaml", "tools: {registry: [], enrichments: [{type: nothing}]}", "tools.enrichments[0]"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused_with_the_reason_and_nothing_is_written(
    config, text, error, home, capsys
):
    if text:
        Path(config).write_text(text)
    assert run(["install", "cursor", config]) == 2
    assert error in capsys.readouterr().err and not place_of("cursor", home).exists()


@pytest.mark.parametrize(
    "source",
    ["{type: python, target: json}", "{type: rest, spec: 'http://127.0.0.1:1/x.json'}", "{type: mcp, command: x}"],
)
def test_what_is_no_file_need_not_be_there_yet(source, home):
    Path("later.yaml").write_text(f"tools: [{source}]")
    assert run(["install", "cursor", "later.yaml"]) == 0


def test_a_part_of_a_python_file_is_installed(home):
    Path("parts.py").write_text("class Desk:\n    def ring(self) -> int:\n        return 3\n")
    assert run(["install", "cursor", "parts.py:Desk"]) == 0
    assert str(Path("parts.py:Desk").absolute()) in place_of("cursor", home).read_text()
    assert run(["install", "cursor", "gone.py:Desk"]) == 2
    for target, status in (("parts.py:Desk", 0), ("gone.py:Desk", 2)):
        Path("whole.yaml").write_text(f"tools: [{{type: python, target: '{target}'}}]")
        assert run(["install", "cursor", "whole.yaml", "--name", "whole"]) == status


def test_where_the_old_text_is_kept_is_said(home, capsys):
    place = hold("cursor", home, "{}")
    assert run(["install", "cursor", "yard.yaml"]) == 0
    assert f"{place.resolve()}.before-toolyard" in capsys.readouterr().out


@pytest.mark.parametrize("order", [["toolyard", "desk"], ["desk", "toolyard"]])
def test_a_second_entry_keeps_the_first_backup_and_the_file_comes_back_to_the_byte_in_either_order(order, home, capsys):
    place = hold("gemini-cli", home, HELD["gemini-cli"])
    first = place.with_name(f"{place.name}.before-toolyard")
    run(["install", "gemini-cli", "yard.yaml"])
    between = place.read_bytes()
    capsys.readouterr()
    assert run(["install", "gemini-cli", "desk.py", "--name", "desk", "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["backup"]).read_bytes() == between
    assert first.read_bytes().decode() == HELD["gemini-cli"]
    for name in order:
        assert run(["uninstall", "gemini-cli", "--name", name]) == 0
    assert place.read_bytes().decode() == HELD["gemini-cli"]


def test_a_link_stays_a_link_and_a_file_keeps_its_mode_and_its_backup_is_private(home):
    real = home.parent / "dotfiles.json"
    real.write_text('{"a": 1}')
    real.chmod(0o644)
    place = place_of("cursor", home)
    place.parent.mkdir(parents=True)
    place.symlink_to(real)
    assert run(["install", "cursor", "yard.yaml"]) == 0
    assert place.is_symlink() and "toolyard" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o644
    backup = real.with_name("dotfiles.json.before-toolyard")
    assert backup.read_text() == '{"a": 1}' and stat.S_IMODE(backup.stat().st_mode) == 0o600


@pytest.mark.parametrize("client", NAMES)
def test_print_shows_the_entry_and_the_place_and_changes_nothing(client, home, capsys):
    assert run(["install", client, "yard.yaml", "--print"]) == 0
    shown = capsys.readouterr().out
    assert str(place_of(client, home)) in shown and sys.executable in shown
    assert run(["install", client, "yard.yaml", "--print", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entry"]["command"] == sys.executable
    assert not home.exists()


def test_a_file_of_a_project_is_named(home, capsys):
    assert run(["install", "cursor", "yard.yaml", "--file", ".cursor/mcp.json"]) == 0
    assert "toolyard" in Path(".cursor/mcp.json").read_text() and not home.exists()


def test_variables_that_a_client_would_not_pass_on_are_told_and_written_only_when_asked_for(home, monkeypatch, capsys):
    Path("yard.yaml").write_text(
        "tools: [{type: rest, spec: 'https://a.example/${YARD_TOKEN}', namespace: '${YARD_NAME:-a}'}]\n"
    )
    assert run(["install", "cursor", "yard.yaml"]) == 2
    assert "the variable YARD_TOKEN is not set" in capsys.readouterr().err
    assert run(["install", "cursor", "yard.yaml", "--env", "YARD_TOKEN"]) == 2
    assert "write --env YARD_TOKEN=VALUE" in capsys.readouterr().err
    monkeypatch.setenv("YARD_TOKEN", "very-secret-value")
    assert run(["install", "cursor", "yard.yaml"]) == 0
    said = capsys.readouterr()
    assert "--env YARD_TOKEN writes it" in said.err and "YARD_NAME" not in said.err
    assert "very-secret-value" not in said.out + said.err + place_of("cursor", home).read_text()
    assert run(["install", "cursor", "yard.yaml", "--env", "YARD_TOKEN", "--env", "B=1=2"]) == 0
    assert entries("cursor", place_of("cursor", home))["toolyard"]["env"] == {
        "YARD_TOKEN": "very-secret-value",
        "B": "1=2",
    }
    said = capsys.readouterr()
    assert "very-secret-value" not in said.out + said.err


def test_without_a_config_the_error_says_how_to_get_one(capsys):
    assert run(["install", "cursor"]) == 2
    assert "`toolyard init` makes one" in capsys.readouterr().err


def test_a_program_that_only_your_path_has_is_told_of(capsys, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "my-mcp"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "yard.yaml").write_text("tools: [{type: mcp, command: my-mcp, namespace: mine}]")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    words = ["install", "cursor", str(tmp_path / "yard.yaml"), "--file", str(tmp_path / "mcp.json"), "--print"]
    assert run(words) == 0
    assert "starts my-mcp, on your PATH but perhaps not on a client's; --env PATH" in capsys.readouterr().err
    assert run([*words, "--env", "PATH"]) == 0
    assert "my-mcp" not in capsys.readouterr().err
