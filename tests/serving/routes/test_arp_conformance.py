"""The published checker of ARP v1, its vectors and its schemas, against this server."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from conftest import SOAK
from serving.service_support import desk_tools, served
from toolyard.serving.routes.arp import ArpDefinition, ArpErrorEnvelope, ArpInvocation, ArpResult
from toolyard.serving.routes.operations import Health, VersionInfo

pytestmark = pytest.mark.process

SPEC = Path(str(files("arp_conformance"))) / "_spec" / "v1"
SHAPES = {
    "tool_definition": ArpDefinition,
    "tool_invocation_request": ArpInvocation,
    "tool_invocation_result": ArpResult,
}
# As published, the checker cannot follow the references in its own schemas; that scheme has to be made known.
CHECKER = (
    "import sys, urllib.parse as u; u.uses_relative.append('arp'); u.uses_netloc.append('arp');"
    "from arp_conformance.cli import main; sys.exit(main())"
)


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools()) as server:
        yield server


def vectors(kind):
    return {
        path.stem: path for path in sorted((SPEC / "conformance" / kind / "tool_registry" / "tools").glob("*.json"))
    }


def schema(name):
    """A validator of one of the published schemas, which refer to each other by relative path."""
    pairs = []
    for path in sorted((SPEC / "schemas").rglob("*.json")):
        uri = f"https://arp.invalid/{path.relative_to(SPEC / 'schemas').as_posix()}"
        pairs.append((uri, {**json.loads(path.read_text()), "$id": uri}))
    registry = jsonschema_rs.Registry(pairs)
    return jsonschema_rs.Draft202012Validator({"$ref": f"https://arp.invalid/{name}.schema.json"}, registry=registry)


# Each tier makes the checks of those before it too.
@pytest.mark.parametrize("tier", ["smoke", "surface", "core", "deep"] if SOAK else ["deep"])
def test_the_published_checker_passes_in_strict_mode(yard, tier):
    options = ["--tier", tier, "--allow-mutations", "--tool-name", "echo", "--strict", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKER, "check", "tool-registry", "--url", f"{yard.url}/arp", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout)["counts"]
    assert counts == {"PASS": {"smoke": 2, "surface": 7}.get(tier, 10), "FAIL": 0, "WARN": 0, "SKIP": 0}


@pytest.mark.parametrize("name", SHAPES)
def test_the_published_valid_examples_are_read_and_written_unchanged(name):
    document = json.loads(vectors("json_vectors")[name].read_text())
    assert msgspec.to_builtins(msgspec.convert(document, SHAPES[name])) == document


@pytest.mark.parametrize("name", SHAPES)
def test_the_published_invalid_examples_are_refused(name):
    document = json.loads(vectors("json_vectors_invalid")[name].read_text())
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, SHAPES[name])


def test_the_server_answers_valid_examples_and_refuses_invalid_ones(yard):
    valid = json.loads(vectors("json_vectors")["tool_invocation_request"].read_text())
    answer = yard.post("/arp/v1/tool-invocations", valid)
    assert answer.json["ok"] is True
    expected = json.loads(vectors("json_vectors")["tool_invocation_result"].read_text())
    assert {key: answer.json[key] for key in expected} == expected
    invalid = json.loads(vectors("json_vectors_invalid")["tool_invocation_request"].read_text())
    refused = yard.post("/arp/v1/tool-invocations", invalid)
    assert refused.status == 400
    schema("common/error").validate(refused.json)


def test_every_published_example_has_a_type():
    assert set(vectors("json_vectors")) == set(vectors("json_vectors_invalid")) == set(SHAPES)


def test_our_answers_fit_the_published_schemas(yard):
    schema("common/health").validate(yard.get("/arp/v1/health").json)
    schema("common/version_info").validate(yard.get("/arp/v1/version").json)
    definition = schema("tool_registry/tools/tool_definition")
    tools = yard.get("/arp/v1/tools").json
    assert len(tools) > 10
    for tool in tools:
        definition.validate(tool)
    definition.validate(yard.get("/arp/v1/tools/tool_calc").json)
    result = schema("tool_registry/tools/tool_invocation_result")
    for number, (name, args) in enumerate(
        [
            *(("echo", {"text": "x"}), ("echo", {}), ("nope", {}), ("desk::add", {"a": 1, "b": 2})),
            *(("desk::crash", {"secret": "x"}), ("desk::unanswered", {}), ("desk::where", {}), ("twice", {})),
        ]
    ):
        result.validate(yard.arp(f"schema-{number}", name, args).json)
    envelope = schema("common/error")
    yard.arp("schema-again", "echo", {"text": "x"})
    for answer in (
        yard.get("/arp/v1/tools/tool_nope"),
        yard.get("/arp/v1/tools/tool_desk::where"),
        yard.get("/arp/nothing"),
        yard.ask("PUT", "/arp/v1/tools", {}),
        yard.post("/arp/v1/tool-invocations", b"{"),
        yard.post("/arp/v1/tool-invocations", b"{}", headers={"content-type": "text/plain"}),
        yard.arp("schema-again", "echo", {"text": "y"}),
        yard.get("/arp/v1/health", headers={"host": "evil.example"}),
    ):
        assert answer.status >= 400
        envelope.validate(answer.json)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *((f"tool_registry/tools/{name}", shape) for name, shape in SHAPES.items()),
        *(("common/health", Health), ("common/version_info", VersionInfo), ("common/error", ArpErrorEnvelope)),
    ],
)
def test_no_optional_field_may_be_null(name, shape):
    """Neither by the published schema nor by ours."""
    path = SPEC / "schemas" / f"{name}.schema.json"
    optional = set(json.loads(path.read_text())["properties"]) & set(shape.__struct_fields__)
    required = {field.name for field in msgspec.structs.fields(shape) if field.required}
    for field in optional - required:
        with pytest.raises(msgspec.ValidationError, match=field):
            msgspec.convert({**sample(shape), field: None}, shape)


def sample(shape):
    known = {
        ArpDefinition: {"tool_id": "t", "name": "n", "input_schema": {}, "source": "remote"},
        ArpInvocation: {"invocation_id": "i", "tool_id": "t", "args": {}},
        ArpResult: {"invocation_id": "i", "ok": True},
        Health: {"status": "ok", "time": "2020-01-01T00:00:00Z"},
        VersionInfo: {"service_name": "a", "service_version": "b", "supported_api_versions": ["v1"]},
        ArpErrorEnvelope: {"error": {"code": "c", "message": "m"}},
    }
    document = known[shape]
    msgspec.convert(document, shape)
    return document
