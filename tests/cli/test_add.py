"""`toolyard add`: what it is told of is found out, loaded, and written into the config, whose other text stays."""

import json
import re
import shlex
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from mcp_rig.processes import start_url_server, toolyard_command
from warm_python import warm_toolyard

from toolyard.app.config import MAX_CONFIG_BYTES
from toolyard.app.toolyard import build_registry
from toolyard.cli.main import run
from toolyard.parsing import parse_yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SPEC = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "paths": {"/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "all"}}}}},
}
CONFIG = "# mine\ntools:\n  registry:\n    - {type: domains, domains: [core]}  # to begin with\n  # engines next\n  engines: {}\nserver: {port: 1}\n"


class SpecHandler(BaseHTTPRequestHandler):
    """An API with a key, as most are."""

    seen: ClassVar[list[tuple[int, bool]]] = []
    """Of each request: its answer's status, and whether it had the token."""

    def do_GET(self):
        allowed = self.headers["authorization"] == "Bearer the-secret-token"
        body = json.dumps(SPEC if allowed else {"error": "no"}).encode()
        status = (200 if allowed else 401) if self.path == "/openapi.json" else 404
        self.seen.append((status, "authorization" in self.headers))
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        """Nobody reads it."""


@pytest.fixture
def spec_url():
    with ThreadingHTTPServer(("127.0.0.1", 0), SpecHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A document that is larger than a config may be, written once."""
    place = tmp_path_factory.mktemp("large") / "large.json"
    place.write_text(json.dumps({**SPEC, "x-pad": "x" * MAX_CONFIG_BYTES}))
    return place


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, large):
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLYARD_CONFIG", "TOOL_REGISTRY_DOMAINS", "PETS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    Path("toolyard.yaml").write_text(CONFIG)
    Path("desk.py").write_text("def add(a: int) -> int:\n    return a\n")
    Path("spec.json").write_text(json.dumps(SPEC))
    Path("catalog.yaml").write_text("[{name: get_weather, parameters: {}}]")
    Path("lines.jsonl").write_text('{"name": "a"}\n{"name": "b"}\n')
    Path("rows.json").write_text('{"name": "a"}\n{"name": "b"}\n')
    Path("large.json").hardlink_to(large)
    return tmp_path


@pytest.fixture(scope="module")
def warm_mcp():
    """The words of `toolyard mcp` that start quickly; one test has the command itself."""
    return warm_toolyard().command("-m", "toolyard", "mcp")


@pytest.mark.parametrize(
    ("words", "source", "tools"),
    [
        (["desk.py"], {"type": "python", "target": "desk.py", "namespace": "desk"}, 1),
        (["spec.json"], {"type": "rest", "spec": "spec.json", "namespace": "spec"}, 1),
        (["catalog.yaml"], {"type": "file", "path": "catalog.yaml"}, 1),
        (["lines.jsonl", "-n", "mine"], {"type": "file", "path": "lines.jsonl", "namespace": "mine"}, 2),
        (["rows.json", "-n", "mine"], {"type": "file", "path": "rows.json", "namespace": "mine"}, 2),
        (["large.json"], {"type": "rest", "spec": "large.json", "namespace": "large"}, 1),
        (["json.tool"], {"type": "python", "target": "json.tool", "namespace": "tool"}, 1),
        pytest.param(
            [str(EXAMPLES / "scripts")],
            {"type": "scripts", "path": str(EXAMPLES / "scripts"), "namespace": "scripts"},
            4,
            marks=pytest.mark.process,
        ),
        pytest.param(
            [sys.executable, "-m", "toolyard", "mcp", "desk.py", "-n", "d"],
            {"type": "mcp", "command": sys.executable, "args": ["-m", "toolyard", "mcp", "desk.py"], "cwd": ".", "namespace": "d"},
            1,
            marks=pytest.mark.process,
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:30],
)  # fmt: skip
def test_what_it_is_is_found_out_and_the_config_keeps_its_text(words, source, tools, capsys):
    check_adding(words, source, tools, capsys)


def check_adding(words, source, tools, capsys):
    assert run(["add", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["source"] == source and told["tools"] == tools
    text = Path("toolyard.yaml").read_text()
    assert parse_yaml(text)["tools"]["registry"] == [{"type": "domains", "domains": ["core"]}, source]
    head, tail = CONFIG.split("  # engines next")
    assert text.startswith(head) and text.endswith("  # engines next" + tail)
    with build_registry("toolyard.yaml") as registry:
        assert len(registry) == 3 + tools


@pytest.mark.process
def test_a_file_of_servers_is_added_as_such(warm_mcp, capsys):
    servers = {"desk": {"command": warm_mcp[0], "args": [*warm_mcp[1:], "desk.py"]}}
    Path("servers.json").write_text(json.dumps({"mcpServers": servers}))
    check_adding(["servers.json"], {"type": "mcp_config", "path": "servers.json"}, 1, capsys)


def test_an_address_of_an_api_takes_what_its_document_needs_and_the_key_stays_a_variable(spec_url, monkeypatch, capsys):
    assert run(["add", spec_url]) == 2
    said = capsys.readouterr().err
    assert "as rest" in said and "as mcp" in said and "401" in said and "--token-env NAME" in said
    assert """--set 'auth={"type": "basic", "user": "${""" in said
    assert run(["add", spec_url, "--token-env", "PETS_TOKEN"]) == 2
    assert "PETS_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("PETS_TOKEN", "the-secret-token")
    assert run(["add", spec_url, "--token-env", "PETS_TOKEN"]) == 0
    source = parse_yaml(Path("toolyard.yaml").read_text())["tools"]["registry"][1]
    auth = {"type": "bearer", "token": "${PETS_TOKEN}"}
    assert source == {"type": "rest", "spec": f"{spec_url}/openapi.json", "namespace": "local", "auth": auth}
    said = capsys.readouterr()
    assert "the-secret-token" not in said.out + said.err
    assert "go to" not in said.out  # to where the document is, which was typed


def test_a_token_goes_only_to_who_refused_to_answer_without_it(spec_url, monkeypatch, capsys):
    monkeypatch.setenv("PETS_TOKEN", "the-secret-token")
    SpecHandler.seen.clear()
    assert run(["add", f"{spec_url}/elsewhere", "--token-env", "PETS_TOKEN"]) == 2
    assert len(SpecHandler.seen) > 1 and set(SpecHandler.seen) == {(404, False)}
    assert run(["add", spec_url, "--token-env", "PETS_TOKEN"]) == 0
    assert {status for status, with_token in SpecHandler.seen if with_token} == {200}


@pytest.mark.parametrize("token", ["sk-live-abc", "1abc", "", "A:-b", "env:A", "A B"])
def test_a_token_that_was_typed_for_the_name_of_its_variable_is_refused_and_not_repeated(token, capsys):
    assert run(["add", "https://x.example/openapi.json", "--token-env", token]) == 2
    said = capsys.readouterr()
    assert "the name of a variable" in said.err and (not token or token not in said.err + said.out)


@pytest.mark.process
def test_an_address_of_an_mcp_server_is_told_from_that_of_an_api(capsys):
    with start_url_server(toolyard_command("serve", "desk.py", "--port", "0")) as (url, _):
        assert run(["add", f"{url}/mcp", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["source"] == {
            "type": "mcp",
            "url": f"{url}/mcp",
            "namespace": "local",
        }
        named = ["add", f"{url}/mcp", "-n", "named", "--token-env", "PATH", "--json"]
        assert run(named) == 0  # asked without, and written for the calls that may need it
        assert json.loads(capsys.readouterr().out)["source"]["auth"] == {"type": "bearer", "token": "${PATH}"}
        assert run(["add", url, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["source"]
        assert found == {"type": "rest", "spec": f"{url}/openapi.json", "namespace": "local_2"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nothing-of-the-kind"], "not a URL, a file or folder here, a module, or a command"),
        (["nothing of the kind"], "'nothing of the kind' is not a URL, a file or folder here, a module, or a command"),
        (["nobody's.yaml"], '"nobody\'s.yaml" is not a URL, a file or folder here, a module, or a command'),
        (["toolyard.yaml"], "this is a config itself"),
        (["."], "`toolyard manifest init .` allows the scripts"),
        (["empty.py"], "no public function is defined there"),
        (["broken.json"], "broken.json:1:"),
        (["desk.py", "--set", "namespace"], "must be KEY=VALUE"),
        (["desk.py", "--set", "targett=x"], "targett"),
        (["desk.py", "--into", "catalog.yaml"], "this is a catalog, not a config"),
        ([], "name what to add"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_gives_no_tools_is_refused_and_the_config_is_untouched(words, error, capsys):
    Path("empty.py").write_text("x = 1\n")
    Path("broken.json").write_text('{"openapi": ')
    assert run(["add", *words]) == 2
    assert error in capsys.readouterr().err
    assert Path("toolyard.yaml").read_text() == CONFIG


@pytest.mark.parametrize("name", ["yard.yaml", "yard.json"])
def test_a_config_is_made_and_namespaces_do_not_meet(name, capsys):
    config = Path("new") / name
    Path("other").mkdir()
    Path("other/desk.py").write_text(Path("desk.py").read_text())
    assert run(["add", "desk.py", "--into", str(config)]) == 0
    assert run(["add", "other/desk.py", "--into", str(config)]) == 0
    sources = parse_yaml(config.read_text())["tools"]
    assert [source["namespace"] for source in sources] == ["desk", "desk_2"]
    assert sources[0]["target"] == str(Path("desk.py").resolve())
    assert run(["add", "catalog.yaml", "--into", str(config), "--print"]) == 0
    told, _, printed = capsys.readouterr().out.rpartition("rejected\n")
    assert told and printed.startswith("- type: file\n  path: ")
    assert parse_yaml(printed)[0]["path"].endswith("catalog.yaml")
    assert len(parse_yaml(config.read_text())["tools"]) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["desk.py"],
        ["spec.json"],
        ["catalog.yaml"],
    ],
    ids=lambda words: words[0],
)
def test_what_is_there_already_is_not_added_twice_unless_under_another_name(words, capsys):
    check_adding_twice(words, capsys)


@pytest.mark.process
def test_neither_is_a_command(warm_mcp, capsys):
    check_adding_twice(["-n", "d", "--", *warm_mcp, "desk.py"], capsys)


@pytest.mark.process
def test_a_command_may_be_quoted_as_a_whole(warm_mcp, capsys):
    words = [*warm_mcp, "desk.py"]
    source = {"type": "mcp", "command": words[0], "args": words[1:], "cwd": ".", "namespace": "d"}
    check_adding([shlex.join(words), "-n", "d"], source, 1, capsys)


def check_adding_twice(words, capsys):
    assert run(["add", *words]) == 0
    text = Path("toolyard.yaml").read_text()
    assert run(["add", *words]) == 1
    said = capsys.readouterr().err
    assert "toolyard.yaml: " in said and "already exists, as tools.registry[1]" in said
    assert Path("toolyard.yaml").read_text() == text
    assert run(["add", *["-n", "other", *words[words[0] == "-n" and 2 :]]]) == 0


@pytest.mark.parametrize("words", [["add", "desk.py", "--set"], ["call", "core::echo"]])
def test_a_value_that_is_nested_without_end_is_refused_in_words(words, capsys):
    assert run([*words, "text=" + "[" * 50_000]) == 2
    assert "[[[...: the value is nested too deeply" in capsys.readouterr().err


@pytest.mark.process
def test_a_program_by_its_path_from_here_is_found_from_another_folder(folder, warm_mcp, monkeypatch):
    (folder / "env").mkdir()
    (folder / "env" / "server").write_text(f'#!/bin/sh\nexec {shlex.join(warm_mcp)} "$@"\n')
    (folder / "env" / "server").chmod(0o755)
    assert run(["add", "-n", "d", "--", "env/server", "desk.py"]) == 0
    assert read_added()["command"] == str(folder / "env" / "server") and read_added()["cwd"] == "."
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert run(["check", str(folder / "toolyard.yaml")]) == 0


def test_a_config_that_is_a_link_stays_one():
    Path("kept.yaml").write_text("# mine\n")
    Path("link.yaml").symlink_to("kept.yaml")
    assert run(["add", "desk.py", "--into", "link.yaml"]) == 0
    assert Path("link.yaml").is_symlink() and Path("kept.yaml").read_text().startswith("# mine\ntools:\n")


SCHEMES = {
    "bearer": ({"type": "http", "scheme": "bearer"}, {"type": "bearer", "token": "${SECURED_TOKEN:-}"}),
    "basic": (
        {"type": "http", "scheme": "basic"},
        {"type": "basic", "user": "${SECURED_USER:-}", "password": "${SECURED_PASSWORD:-}"},
    ),
    "api_key": (
        {"type": "apiKey", "in": "header", "name": "X-Key"},
        {"type": "api_key", "in": "header", "name": "X-Key", "value": "${SECURED_KEY:-}"},
    ),
    "oauth2": (
        {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://x.example/token", "scopes": {}}}},
        {
            "type": "oauth2",
            "token_url": "https://x.example/token",
            "client_id": "${SECURED_CLIENT_ID:-}",
            "client_secret": "${SECURED_CLIENT_SECRET:-}",
        },
    ),
}


def write_secured(scheme):
    secured = {"components": {"securitySchemes": {"s": scheme}}, "security": [{"s": []}]}
    Path("secured.json").write_text(json.dumps({**SPEC, "servers": [{"url": "https://x.example"}], **secured}))


def read_added():
    return parse_yaml(Path("toolyard.yaml").read_text())["tools"]["registry"][-1]


@pytest.mark.parametrize("kind", SCHEMES)
def test_an_api_that_wants_credentials_gets_them_from_variables_that_are_told(kind, capsys, monkeypatch):
    scheme, auth = SCHEMES[kind]
    write_secured(scheme)
    assert run(["add", "secured.json"]) == 0
    # The origin, because the document alone says where its calls go.
    assert read_added()["auth"] == {**auth, "origin": "https://x.example"}
    said = capsys.readouterr().out
    assert re.search(r"^calls and the (token|credential) go to x\.example$", said, re.MULTILINE)
    assert ("the client's id and secret go to x.example" in said) is (kind == "oauth2")
    assert all(f"{name}=..." in said for name in re.findall(r"\{(\w+):-", str(auth))) and "export" in said
    assert run(["check"]) == 0  # what is not set yet stops nothing
    assert run(["check", "--strict"]) == 1
    capsys.readouterr()
    assert run(["check", "--strict", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    for name in ("TOKEN", "USER", "PASSWORD", "KEY", "CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(f"SECURED_{name}", "x-1-secret")
    assert run(["check", "--strict"]) == 0
    capsys.readouterr()
    assert run(["add", "secured.json", "-n", "secured"]) == 1
    assert "export" not in capsys.readouterr().out


@pytest.mark.parametrize("token", [(), ("--token-env", "MINE")])
@pytest.mark.parametrize(
    "scheme",
    [
        {"type": "apiKey", "in": "header", "name": "X-${AWS_SECRET}"},
        {"type": "apiKey", "in": "query", "name": "${AWS_SECRET}"},
        {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://x.example/${AWS_SECRET}"}}},
    ],
    ids=["header", "query", "token_url"],
)
def test_no_text_of_a_document_becomes_a_variable_of_the_config(scheme, token, capsys, monkeypatch):
    monkeypatch.setenv("AWS_SECRET", "aws-1-secret")
    monkeypatch.setenv("MINE", "x-1-secret")
    write_secured(scheme)
    assert run(["add", "secured.json", *token]) == 0
    assert "AWS_SECRET" not in Path("toolyard.yaml").read_text()
    # A token that is named stands for what the token address would give, which is not written then.
    is_written = bool(token) and scheme["type"] == "oauth2"
    assert ("auth" in read_added()) is is_written
    assert ("no `auth` is written" in capsys.readouterr().err) is not is_written


@pytest.mark.parametrize(("kind", "part"), [("bearer", "token"), ("api_key", "value"), ("oauth2", "token")])
def test_a_token_that_is_named_goes_where_the_document_wants_it(kind, part, monkeypatch, capsys):
    monkeypatch.setenv("MINE", "x-1-secret")
    write_secured(SCHEMES[kind][0])
    assert run(["add", "secured.json", "--token-env", "MINE"]) == 0
    auth = read_added()["auth"]
    assert auth[part] == "${MINE}" and auth["type"] == ("api_key" if kind == "api_key" else "bearer")
    assert run(["check"]) == 0 and "export" not in capsys.readouterr().out


def test_a_token_is_refused_where_it_says_nothing(capsys, monkeypatch):
    monkeypatch.setenv("MINE", "x-1-secret")
    write_secured(SCHEMES["basic"][0])
    before = Path("toolyard.yaml").read_text()
    for what, why in (
        ("secured.json", """--set 'auth={"type": "basic","""),
        ("desk.py", "is for APIs and for servers"),
    ):
        assert run(["add", what, "--token-env", "MINE"]) == 2
        assert why in capsys.readouterr().err
    assert Path("toolyard.yaml").read_text() == before


@pytest.mark.parametrize(
    "option",
    [
        'auth={"type": "bearer", "token": "typed-here-1"}',
        'auth=[{"type": "basic", "user": "${ME:-me}", "password": "typed-here-1"}]',
        'headers={"X-Mine": "typed-here-1"}',
    ],
)
def test_what_allows_a_private_host_is_told_without_the_credentials_that_were_typed(option, capsys):
    Path("near.json").write_text(json.dumps({**SPEC, "servers": [{"url": "http://localhost:9"}]}))
    assert run(["add", "near.json", "--set", option]) == 0
    said = capsys.readouterr()
    assert "allow_hosts" in said.err and "typed-here-1" not in said.out + said.err


@pytest.mark.parametrize("host", ["127.0.0.1:8711", "localhost:9", "[::1]:8000", "10.1.2.3:80"])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_an_api_that_is_not_public_is_told_the_source_and_the_option_that_allow_it(host, as_json, capsys):
    Path("near.json").write_text(json.dumps({**SPEC, "servers": [{"url": f"http://{host}"}]}))
    assert run(["add", "near.json", "--into", "new.yaml", *as_json]) == 0
    said = capsys.readouterr().err
    option = f'allow_hosts=["{host}"]'
    assert f"--set '{option}'" in said
    [source] = parse_yaml(Path("new.yaml").read_text(), what="new.yaml")["tools"]
    assert parse_yaml(said.partition("\n")[2], what="what was said") == [{**source, "allow_hosts": [host]}]
    assert run(["call", "new.yaml::listPets"]) == 1 and f'allow_hosts: ["{host}"]' in capsys.readouterr().err
    assert run(["add", "near.json", "-n", "again", "--set", option, *as_json]) == 0
    assert "which is not public" not in capsys.readouterr().err


def test_a_name_of_a_private_network_is_told_of_too(capsys):
    Path("near.json").write_text(json.dumps({**SPEC, "servers": [{"url": "http://api:8080"}]}))
    assert run(["add", "near.json"]) == 0 and 'allow_hosts=["api:8080"]' in capsys.readouterr().err


def test_an_api_that_is_public_or_named_by_its_address_needs_no_such_line(spec_url, capsys):
    Path("far.json").write_text(json.dumps({**SPEC, "servers": [{"url": "https://pets.example"}]}))
    assert run(["add", "far.json"]) == 0 and "allow_hosts" not in capsys.readouterr().err


def test_what_is_no_url_is_told_in_words_in_a_document_too(capsys):
    assert run(["add", "http://[::1/"]) == 2 and "no valid host" in capsys.readouterr().err
    flows = {"clientCredentials": {"tokenUrl": "http://[::1/token", "scopes": {}}}
    schemes = {"one": {"type": "oauth2", "flows": flows}}
    Path("odd.json").write_text(
        json.dumps({**SPEC, "components": {"securitySchemes": schemes}, "security": [{"one": []}]})
    )
    assert run(["add", "odd.json"]) == 0 and "1 tool loaded" in capsys.readouterr().out
