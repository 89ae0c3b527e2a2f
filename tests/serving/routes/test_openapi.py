"""The OpenAPI document, and what it says about answers."""

import jsonschema_rs
import pytest

from serving.service_support import desk_tools, served


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools(), page=True) as server:
        yield server


@pytest.fixture(scope="module")
def document(yard):
    return yard.get("/openapi.json").json


def operations(document):
    return [(path, method, made) for path, methods in document["paths"].items() for method, made in methods.items()]


def check(document, path, method, answer):
    """The answer is one that the document describes."""
    described = document["paths"][path][method]["responses"][str(answer.status)]
    content = described.get("content")
    if content is None:
        assert answer.body == b""
        return
    schema = {**content["application/json"]["schema"], "components": document["components"]}
    jsonschema_rs.Draft202012Validator(schema).validate(answer.json)


def test_every_schema_in_it_is_valid(document):
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    assert document["info"]["title"] == "toolyard"


def test_its_schemas_are_listed_by_name(document):
    names = list(document["components"]["schemas"])
    assert names == sorted(names)


def test_every_route_of_the_wires_is_in_it_and_no_page(document):
    routes = {(method, path) for path, method, _ in operations(document)}
    assert {
        ("get", "/v1/tools"),
        ("get", "/v1/tools/{name}"),
        ("post", "/v1/tools/{name}:invoke"),
        ("put", "/v1/tools/{name}"),
        ("delete", "/v1/tools/{name}"),
        ("get", "/arp/v1/tools"),
        ("get", "/arp/v1/tools/{tool_id}"),
        ("post", "/arp/v1/tool-invocations"),
        ("post", "/v1/sessions/{session_id}/fork"),
        ("post", "/v1/reload"),
        ("get", "/metrics"),
    } <= routes
    assert not any(path == "/" or path.startswith("/console") for _, path in routes)


def test_operations_have_names_of_their_own_and_say_what_they_do(document):
    made = [operation for _, _, operation in operations(document)]
    assert len({operation["operationId"] for operation in made}) == len(made)
    assert all(operation["summary"] and operation["description"] for operation in made)


def test_every_brace_in_a_path_is_a_parameter(document):
    for path, _, operation in operations(document):
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == {part.split("}")[0] for part in path.split("{")[1:]}


def test_no_field_of_a_request_may_be_null(document):
    schemas = document["components"]["schemas"]
    for name in ("V0Invocation", "ArpInvocation", "SessionBody", "CallsBody", "Registration"):
        for field, schema in schemas[name]["properties"].items():
            assert not jsonschema_rs.is_valid({**schema, "components": document["components"]}, None), (name, field)


def test_a_request_without_a_tool_fits_neither_the_document_nor_the_server(yard, document):
    schema = {"$ref": "#/components/schemas/ArpInvocation", "components": document["components"]}
    body = {"invocation_id": "x", "args": {}}
    assert not jsonschema_rs.is_valid(schema, body)
    assert jsonschema_rs.is_valid(schema, {**body, "tool_id": "x"})
    assert yard.post("/arp/v1/tool-invocations", body).status == 400


def test_answers_of_every_kind_are_as_described(yard, document):
    invoke, arp = "/v1/tools/{name}:invoke", "/arp/v1/tool-invocations"
    for path, method, answer in [
        ("/v1/tools", "get", yard.get("/v1/tools")),
        ("/v1/tools", "get", yard.get("/v1/tools?limit=5")),
        ("/v1/tools", "get", yard.get("/v1/tools?format=gemini")),
        ("/v1/tools", "get", yard.get("/v1/tools?x=1")),
        ("/v1/tools/{name}", "get", yard.get("/v1/tools/echo")),
        ("/v1/tools/{name}", "get", yard.get("/v1/tools/desk::where")),
        ("/v1/tools/{name}", "get", yard.get("/v1/tools/nope")),
        (invoke, "post", yard.invoke("echo", {"text": "x"})),
        (invoke, "post", yard.invoke("echo", {})),
        (invoke, "post", yard.invoke("nope", {})),
        (invoke, "post", yard.invoke("desk::crash", {"secret": "x"})),
        (invoke, "post", yard.invoke("desk::unanswered", {})),
        (invoke, "post", yard.post("/v1/tools/echo:invoke", b"{")),
        (invoke, "post", yard.post("/v1/tools/echo:invoke", b"{}", headers={"content-type": "x/y"})),
        (arp, "post", yard.arp("doc-1", "echo", {"text": "x"})),
        (arp, "post", yard.arp("doc-1", "echo", {"text": "y"})),
        (arp, "post", yard.arp("doc-2", "nope", {})),
        ("/arp/v1/tools/{tool_id}", "get", yard.get("/arp/v1/tools/tool_echo")),
        ("/v1/health", "get", yard.get("/v1/health")),
        ("/v1/version", "get", yard.get("/v1/version", headers={"host": "evil.example"})),
        ("/v1/report", "get", yard.get("/v1/report")),
        ("/v1/sessions", "post", yard.post("/v1/sessions", {"session_id": "doc"})),
        ("/v1/sessions", "post", yard.post("/v1/sessions", {"session_id": "doc"})),
        ("/v1/sessions", "get", yard.get("/v1/sessions")),
        ("/v1/calls", "post", yard.post("/v1/calls", {"calls": [{"name": "echo"}, {"name": "desk::refuse"}]})),
        ("/v1/sessions/{session_id}/state", "get", yard.get("/v1/sessions/doc/state")),
        ("/v1/sessions/{session_id}/history", "get", yard.get("/v1/sessions/nope/history")),
        ("/v1/tools/{name}", "put", yard.ask("PUT", "/v1/tools/doc::new", {"parameters": {"type": "object"}})),
        ("/v1/tools/{name}", "delete", yard.ask("DELETE", "/v1/tools/doc::new")),
    ]:
        check(document, path, method, answer)


def test_a_changed_thing_is_named_as_described(yard, document):
    for session_id, status in (("paid", "paid"), ("refunded", "refunded")):
        state = {"shop": {"order#1": {"id": 1042, "status": status}}}
        assert yard.post("/v1/sessions", {"session_id": session_id, "initial_state": state}).status == 201
    answer = yard.get("/v1/sessions/paid/diff?other=refunded")
    assert [change["thing"] for change in answer.json["changes"]] == ["order 1042"]
    check(document, "/v1/sessions/{session_id}/diff", "get", answer)


def test_the_document_asks_for_a_key_from_the_moment_on_that_the_server_does(tmp_path):
    config = {"tools": [], "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as yard:
        document = yard.get("/openapi.json").json
        assert yard.get("/v1/tools").status == 200
        assert "securitySchemes" not in document["components"]
        assert "security" not in document["paths"]["/v1/tools"]["get"]
        yard.key("*:*")
        document = yard.get("/openapi.json").json
        assert yard.get("/v1/tools").status == 401
        assert document["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
        assert document["paths"]["/v1/tools"]["get"]["security"] == [{"key": []}]
        assert "security" not in document["paths"]["/v1/health"]["get"]
