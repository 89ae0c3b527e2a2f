"""`RESTToolLoader`: from a file or an address to tools in a registry."""

import copy
import gc
import json
import pickle
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from toolyard import (
    ConfigError,
    FilterToolLoader,
    MalformedSource,
    RenamespaceToolLoader,
    RESTToolLoader,
    SourceUnavailable,
    Tool,
    ToolRegistry,
    get_tool_loader,
)
from toolyard.schema.compile import compile_schema

SPEC = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/v1"}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "getPet",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {
                    "200": {
                        "description": "one",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    }
                },
            }
        }
    },
    "components": {"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}}},
}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(SPEC))
    return path


def echoing(text):
    """The document with a text wherever it can hold one, and a part that is rejected."""
    document = copy.deepcopy(SPEC)
    operation = document["paths"]["/pets/{id}"]["get"]
    operation |= {"summary": text, "description": text, "tags": [text]}
    operation["parameters"][0] |= {"description": text, "schema": {"enum": [text], "default": text}}
    document["paths"]["/bad"] = {"get": {"operationId": text, "parameters": [{"$ref": f"#/{text}"}]}}
    document["components"]["schemas"]["Pet"]["properties"][text] = {"title": text}
    return document


class Documents(BaseHTTPRequestHandler):
    """Serves the document to whoever has the key; elsewhere it redirects."""

    def do_GET(self):
        if self.path == "/moved":
            self.answer(302, b"", location="/pets.json")
        elif self.path.startswith("/echo.json"):
            self.answer(
                200,
                json.dumps(echoing(f"{self.path} {self.headers['X-Key']} {self.headers['Authorization']}")).encode(),
            )
        elif self.path.startswith("/pets.json") and self.headers.get("X-Key") == "k":
            self.answer(200, json.dumps(SPEC).encode())
        else:
            self.answer(403, b"no")

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Keep quiet."""


@pytest.fixture
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Documents)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_becomes_tools(spec):
    registry = ToolRegistry.from_loaders([RESTToolLoader(spec, "pets", base_url="https://api.example/v1")])
    (tool,) = registry.get("pets::getPet")
    assert tool.binding.base_url == "https://api.example/v1"
    assert tool.binding.named == ("api.example:443",)
    assert tool.output_parameters["properties"] == {"name": {"type": "string"}}
    assert registry.report.ok


def test_an_address_becomes_tools_served_where_the_document_is(address):
    loader = RESTToolLoader(f"{address}/pets.json?v=secret", "pets", headers={"X-Key": "k"})
    (tool,) = loader.load()
    assert tool.binding.base_url == f"{address}/v1"
    assert tool.binding.named == (address.removeprefix("http://"),)
    assert "secret" not in loader.source
    assert "secret" not in str(tool.source)


@pytest.mark.parametrize(("path", "said"), [("/pets.json", "403"), ("/moved", "403")])
def test_an_address_that_gives_no_document_is_unavailable(address, path, said):
    with pytest.raises(SourceUnavailable, match=said):
        RESTToolLoader(address + path, "pets").load()


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "requires authentication.*auth: {type: bearer"),
        ({"X-Key": "tell-nobody"}, "rejected the credential; .* are still right"),
    ],
)
def test_a_document_behind_a_key_says_which_option_gives_one_or_that_what_it_has_is_refused(address, headers, why):
    with pytest.raises(SourceUnavailable, match=why) as caught:
        RESTToolLoader(f"{address}/pets.json", "pets", headers=headers).load()
    assert "tell-nobody" not in str(caught.value)


def test_a_document_behind_a_key_is_fetched_with_the_credential_unless_that_is_for_another_place(address):
    auth = {"type": "api_key", "in": "header", "name": "X-Key", "value": "k"}
    assert RESTToolLoader(f"{address}/pets.json", "pets", auth=auth).load()
    for elsewhere in (
        {"auth": {**auth, "origin": "https://pets.example"}},
        {"auth": auth, "base_url": "https://pets.example"},
    ):
        with pytest.raises(SourceUnavailable, match="requires authentication"):
            RESTToolLoader(f"{address}/pets.json", "pets", **elsewhere).load()


BEARER = {"type": "bearer", "token": "tell-nobody/1"}


@pytest.mark.parametrize(
    ("query", "given"),
    [
        ("", {"headers": {"X-Key": "tell-nobody/1"}}),
        ("", {"auth": {"type": "api_key", "in": "header", "name": "X-Key", "value": "tell-nobody/1"}}),
        ("", {"auth": BEARER}),
        ("", {"auth": [BEARER, {**BEARER, "origin": "https://pets.example"}]}),
        ("?api_key=tell-nobody/1", {}),
        ("?api_key=tell-nobody%2F1", {}),
    ],
)
def test_a_credential_that_a_document_repeats_is_in_no_tool_and_no_report(address, query, given):
    loader = RESTToolLoader(f"{address}/echo.json{query}", "pets", **given)
    tools = loader.load()
    shown = (
        json.dumps([tool.to_dict() for tool in tools]) + repr([tool.binding for tool in tools]) + repr(loader.report)
    )
    assert "[redacted]" in shown
    assert "tell-nobody" not in shown


def test_nobody_there_is_unavailable():
    with pytest.raises(SourceUnavailable):
        RESTToolLoader("http://127.0.0.1:1/spec.json", "pets", timeout=2).load()


def test_references_of_a_fetched_document_lead_to_no_file(address, monkeypatch):
    schema = {"$ref": "/etc/hostname"}
    content = {"application/json": {"schema": {"type": "array", "items": schema}}}
    changed = copy.deepcopy(SPEC)
    changed["paths"]["/pets/{id}"]["get"]["responses"]["200"]["content"] = content
    monkeypatch.setitem(globals(), "SPEC", changed)
    loader = RESTToolLoader(f"{address}/pets.json", "pets", headers={"X-Key": "k"})
    assert loader.load()[0].output_parameters == {"type": "array", "items": {}}
    assert "never fetched" in loader.report.rewrites[0].change


def test_a_missing_file_is_unavailable(tmp_path):
    with pytest.raises(SourceUnavailable):
        RESTToolLoader(tmp_path / "nowhere.json", "pets").load()


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "ftp://a.example"},
        {"base_url": "https://user:pw@a.example"},
        {"base_url": "a.example"},
        {"spec": "ftp://a.example/spec.json"},
        {"spec": "https://user:pw@a.example/spec.json"},
        {"spec": "https://user:pw@[::1/spec.json"},
        {"on_error": "ignore"},
    ],
)
def test_options_nobody_can_mean_are_config_errors(options, spec):
    with pytest.raises(ConfigError) as raised:
        RESTToolLoader(**{"spec": spec, "namespace": "pets", **options})
    assert "pw" not in str(raised.value)


def test_it_is_found_by_its_type(spec):
    assert isinstance(get_tool_loader("rest", spec=spec, namespace="pets"), RESTToolLoader)


def test_a_tool_says_where_it_came_from(spec):
    loader = RESTToolLoader(spec, "pets")
    loader.load()
    (admitted, *_) = loader.admitted
    assert (admitted.tool.source, admitted.place) == (str(spec), "#/paths/~1pets~1{id}/get")


def test_a_call_is_checked_against_the_schema(spec):
    loader = RESTToolLoader(spec, "pets")
    loader.load()
    (candidate,) = loader.admitted
    assert compile_schema(candidate.tool.parameters).is_valid({"id": 3})
    assert not compile_schema(candidate.tool.parameters).is_valid({"id": 3, "undeclared": 1})
    assert not compile_schema(candidate.tool.parameters).is_valid({})


def test_wrapping_loaders_keep_the_binding(spec):
    wrapped = RenamespaceToolLoader(RESTToolLoader(spec, "pets"), "other")
    (tool,) = ToolRegistry.from_loaders([wrapped]).get("other::getPet")
    assert tool.binding.path == "/pets/{id}"
    kept = FilterToolLoader(RESTToolLoader(spec, "pets"), include=["pets::get*"])
    assert len(ToolRegistry.from_loaders([kept])) == 1


def test_a_tool_equals_its_dict_and_its_copies(spec):
    (tool,) = RESTToolLoader(spec, "pets").load()
    assert Tool.from_dict(tool.to_dict()) == tool
    assert tool.replace(description="d").binding == tool.binding
    for twin in (pickle.loads(pickle.dumps(tool)), copy.deepcopy(tool)):
        assert twin == tool
        assert twin.binding == tool.binding
        assert twin.parameters is not tool.parameters and twin.metadata is not tool.metadata
    assert repr(tool) == "RestTool('pets::getPet')"


def test_a_document_may_be_given_itself():
    loaded = RESTToolLoader({**SPEC, "servers": [{"url": "http://a.example"}]}, "pets").load()
    assert [tool.name for tool in loaded] == ["getPet"] and loaded[0].source == "OpenAPI document 'Pets'"
    lost = {**SPEC, "paths": {"/pets": {"$ref": "pets.yaml#/pets"}}}
    loader = RESTToolLoader(lost, "pets")
    assert loader.load() == [] and "beside that of the document" in loader.report.rejected[0].reason
    with pytest.raises(MalformedSource, match="JSON"):
        RESTToolLoader({**SPEC, "x": object()}, "pets").load()


def test_a_refresh_reads_the_document_again(spec):
    registry = ToolRegistry.from_loaders([RESTToolLoader(spec, "pets")])
    changed = copy.deepcopy(SPEC)
    changed["paths"]["/pets"] = {"post": {"operationId": "addPet", "responses": {}}}
    spec.write_text(json.dumps(changed))
    registry.refresh()
    assert [tool.name for tool in registry] == ["getPet", "addPet"]


def test_loading_is_linear_in_operations(tmp_path):
    """Counted in allocations, which do not depend on the machine: ten times the operations take ten times as many."""

    def blocks(count):
        content = {**SPEC, "paths": {f"/p{n}/{{id}}": SPEC["paths"]["/pets/{id}"] for n in range(count)}}
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps(content))
        loader = RESTToolLoader(path, "pets")
        gc.collect()
        before = sys.getallocatedblocks()
        tools = loader.load()
        assert len({tool.name for tool in tools}) == count
        return sys.getallocatedblocks() - before

    blocks(10)
    small, large = blocks(200), blocks(2_000)
    assert large < 12 * small
