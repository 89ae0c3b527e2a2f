"""Tools that are registered while the server runs."""

import pytest
from waiting import until

from serving.service_support import CORE, desk_tools, served
from toolyard.model.errors import EnrichmentError

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools()) as server:
        yield server


def put(yard, name, body=None, **options):
    return yard.ask("PUT", f"/v1/tools/{name}", {"parameters": SCHEMA} if body is None else body, **options)


def test_a_new_tool_is_a_201_and_is_there_at_once(yard):
    body = {"description": "Tell the weather.", "parameters": SCHEMA, "tags": ["sky"], "version": "1.2.3"}
    answer = put(yard, "sky::weather", body)
    assert answer.status == 201
    assert answer.json["tool"]["qualified_name"] == "sky::weather"
    found = yard.get("/v1/tools/sky::weather").json
    assert (found["description"], found["parameters"], found["tags"], found["version"]) == (
        *("Tell the weather.", SCHEMA, ["sky"], "1.2.3"),
    )
    assert "sky::weather" in [line["name"] for line in yard.get("/v1/tools").json]


def test_registering_it_again_replaces_it(yard):
    assert put(yard, "sky::again").status == 201
    replaced = put(yard, "sky::again", {"description": "Better.", "parameters": {"type": "object"}})
    assert replaced.status == 200
    assert yard.get("/v1/tools/sky::again").json["description"] == "Better."


def test_a_registered_tool_can_be_taken_out_again(yard):
    put(yard, "sky::gone")
    assert yard.ask("DELETE", "/v1/tools/sky::gone").status == 204
    assert yard.get("/v1/tools/sky::gone").status == 404
    again = yard.ask("DELETE", "/v1/tools/sky::gone")
    assert (again.status, again.error["code"]) == (404, "tool.not_found")


def test_a_name_without_a_namespace_is_in_the_default_one(yard):
    assert put(yard, "lonely").json["tool"]["qualified_name"] == "default::lonely"
    assert yard.get("/v1/tools/lonely").json["name"] == "default::lonely"
    assert yard.ask("DELETE", "/v1/tools/lonely").status == 204


@pytest.mark.parametrize("name", ["echo", "core::echo", "desk::add"])
def test_tools_of_the_config_can_be_neither_replaced_nor_removed(yard, name):
    answer = put(yard, name)
    assert (answer.status, answer.error["code"]) == (409, "tool.exists")
    answer = yard.ask("DELETE", f"/v1/tools/{name}")
    assert (answer.status, answer.error["code"]) == (409, "tool.not_registered")
    assert yard.invoke("echo", {"text": "still here"}).status == 200


@pytest.mark.parametrize(
    "name",
    ["%20x", "a::b::c", "x%00", "x%E2%80%8B", "::x", "x::", "%D0%B0dmin", "y" * 129, "x%3A", "e%CC%81"],
)
def test_a_name_outside_the_grammar_is_refused(yard, name):
    answer = put(yard, name)
    assert (answer.status, answer.error["code"]) == (400, "tool.invalid_name")
    assert yard.ask("DELETE", f"/v1/tools/{name}").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"parameters": {"type": "nonsense-type"}},
        {"parameters": {"properties": [1]}},
        {"parameters": {"$ref": "http://example.org/schema"}},
        {"parameters": {"type": "object", "properties": {"a": {"pattern": "("}}}},
        {"output_parameters": {"$ref": "#/nowhere"}},
        {"parameters": {"type": "string"}},
    ],
)
def test_a_definition_that_is_no_schema_is_refused_and_changes_nothing(yard, body):
    generation = yard.get("/v1/tools?limit=1").json["generation"]
    answer = put(yard, "sky::broken", body)
    assert (answer.status, answer.error["code"]) == (400, "tool.invalid_definition"), answer
    assert yard.get("/v1/tools/sky::broken").status == 404
    assert yard.get("/v1/tools?limit=1").json["generation"] == generation


@pytest.mark.parametrize(
    "body",
    [
        {"binding": {"type": "python", "callable": "os:system"}},
        {"binding": {"type": "script", "path": "x.py"}},
        {"binding": {}},
        {"binding": None},
        {"binding": {"type": "rest", "method": "GET", "path": "/x"}},
        {"binding": {"type": "rest", "method": "GET", "path": "x", "base_url": "http://a"}},
        {"binding": {"type": "rest", "method": "GET", "path": "/x", "base_url": "file:///etc"}},
        {"binding": {"type": "mcp", "server": "s"}},
        {"code": "print(1)"},
        {"name": "x"},
        {"parameters": None},
        {"tags": "x"},
        {"effects": "maybe"},
    ],
)
def test_how_a_tool_is_reached_is_data_of_a_known_shape_and_never_code(yard, body):
    answer = put(yard, "sky::shape", body)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


@pytest.mark.parametrize(
    "binding",
    [
        {
            "type": "rest",
            "method": "GET",
            "path": "/w/{city}",
            "base_url": "http://127.0.0.1:9",
            "locations": {"city": ["path", "city"]},
        },
        {"type": "mcp", "server": "s", "tool_name": "t"},
        {"type": "simulator"},
    ],
)
def test_a_tool_may_be_bound_to_a_rest_call_an_mcp_server_or_a_simulator(yard, binding):
    answer = put(yard, f"sky::bound-{binding['type']}", {"parameters": SCHEMA, "binding": binding})
    assert answer.status == 201
    called = yard.invoke(f"sky::bound-{binding['type']}", {"city": "Rome"})
    if binding["type"] == "simulator":
        assert (answer.json["engine"], called.json["result"]) == ("lm", {"status": "success", "city": "Rome"})
    if "engine" not in answer.json:
        assert (called.status, called.json["error"]["code"]) == (409, "tool.no_engine")
    source = {tool["name"]: tool["source"] for tool in yard.get("/arp/v1/tools").json}
    assert source[f"sky::bound-{binding['type']}"] == ("registry_local" if binding["type"] == "simulator" else "remote")


DIALECTS = {
    "openai": {"type": "function", "function": {"name": "tell", "description": "Tell.", "parameters": SCHEMA}},
    "anthropic": {"name": "tell", "description": "Tell.", "input_schema": SCHEMA},
    "mcp": {"name": "tell", "description": "Tell.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    "listed": {"name": "tell", "desc": "Tell.", "arguments": [{"name": "city", "type": "str", "required": True}]},
    "qualified": {"name": "sky::tell", "namespace": "sky", "description": "Tell.", "parameters": SCHEMA},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_definition_may_be_in_any_dialect_that_files_may_be_in(yard, dialect):
    answer = put(yard, "sky::tell", {**DIALECTS[dialect], "binding": {"type": "simulator"}})
    assert answer.status in (200, 201), answer
    found = yard.get("/v1/tools/sky::tell").json
    assert (found["description"], found["parameters"]) == ("Tell.", SCHEMA)
    assert ("rewrites" in answer.json) == (dialect != "qualified")
    assert yard.invoke("sky::tell", {"city": "Rome"}).status == 200
    assert yard.invoke("sky::tell", {}).json["error"]["code"] == "tool.invalid_args"
    if dialect == "mcp":
        assert answer.json["tool"]["effects"] == "read"


@pytest.mark.parametrize(
    "body",
    [
        {"name": "other", "input_schema": SCHEMA},
        {"namespace": "bank", "input_schema": SCHEMA},
        {"type": "function", "function": {"name": "bank::tell", "parameters": SCHEMA}},
        {"namespace": "bank", "parameters": SCHEMA},
        {"inputSchema": SCHEMA, "binding": {"type": "python", "callable": "os:system"}},
        {"parameters": SCHEMA, "input_schema": {"type": "object"}},
    ],
)
def test_a_definition_of_another_tool_or_namespace_than_the_path_says_is_refused(yard, body):
    answer = put(yard, "sky::claimed", body)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")
    assert yard.get("/v1/tools/sky::claimed").status == 404


class _Fussy:
    """An enrichment that fails for one tool, or when one is missing."""

    reads = writes = ()
    refuses, wants = "sky::refused", None

    def enrich(self, snapshot):
        names = [tool.qualified_name for tool in snapshot.tools]
        if self.refuses in names or (self.wants is not None and self.wants not in names):
            raise EnrichmentError("the model does not answer")
        return snapshot.tools, {}


def test_a_change_that_an_enrichment_fails_at_is_refused_and_changes_nothing(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config, tools=desk_tools()) as yard:
        fussy = _Fussy()
        yard.service.yard.tool_registry.enrich(fussy)
        refused = put(yard, "sky::refused")
        assert (refused.status, refused.error["code"]) == (503, "catalog.enrichment_failed")
        assert (refused.error["retryable"], "the model does not answer" in refused.error["message"]) == (True, True)
        assert yard.get("/v1/tools/sky::refused").status == 404
        assert put(yard, "sky::kept").status == 201
        fussy.wants = "sky::kept"
        refused = yard.ask("DELETE", "/v1/tools/sky::kept")
        assert (refused.status, refused.error["code"]) == (503, "catalog.enrichment_failed")
        assert yard.get("/v1/tools/sky::kept").status == 200
    with served(config) as again:
        assert again.get("/v1/tools/sky::kept").status == 200
        assert again.get("/v1/tools/sky::refused").status == 404


def test_an_alias_that_hides_another_tool_is_refused(yard):
    answer = put(yard, "desk::hiding", {"parameters": SCHEMA, "aliases": ["add"]})
    assert answer.status in (400, 409)
    assert yard.get("/v1/tools/desk::hiding").status == 404
    assert yard.invoke("desk::add", {"a": 1, "b": 1}).status == 200


def test_a_name_that_ends_in_invoke_cannot_be_registered(yard):
    assert put(yard, "sky::x:invoke").status == 405


def test_a_reload_keeps_what_was_registered(yard):
    put(yard, "sky::kept")
    assert yard.ask("POST", "/v1/reload").status == 200
    assert yard.get("/v1/tools/sky::kept").status == 200


def config(path):
    return {
        "tools": [{"type": "domains", "domains": ["core"]}],
        "sessions": {"store": "sqlite", "path": str(path / "yard.db")},
    }


def test_registered_tools_survive_a_restart(tmp_path):
    with served(config(tmp_path)) as yard:
        definition = put(yard, "sky::durable").json["tool"]
        put(yard, "sky::removed")
        yard.ask("DELETE", "/v1/tools/sky::removed")
    with served(config(tmp_path)) as yard:
        found = yard.get("/v1/tools?namespace=sky").json["tools"]
    assert [tool["definition_hash"] for tool in found] == [definition["definition_hash"]]


def test_another_server_on_the_same_store_sees_registrations_and_removals(tmp_path):
    with served(config(tmp_path)) as one, served(config(tmp_path)) as two:
        put(one, "sky::shared")
        until(lambda: two.get("/v1/tools/sky::shared").status == 200)
        put(two, "sky::shared", {"description": "from two"})
        until(lambda: one.get("/v1/tools/sky::shared").json["description"] == "from two")
        two.ask("DELETE", "/v1/tools/sky::shared")
        assert until(lambda: one.get("/v1/tools/sky::shared").status == 404)


def test_a_schema_with_an_unknown_type_is_refused_at_registration(yard):
    broken = {"type": "object", "properties": {"a": {"type": "no such type at all"}}}
    assert yard.ask("PUT", "/v1/tools/ten::broken", {"parameters": broken}).error["code"] == "tool.invalid_definition"


def test_a_registration_says_which_engine_answers_only_where_one_does():
    with served() as server:
        made = server.ask("PUT", "/v1/tools/far::away", {"binding": {"type": "mcp", "server": "s", "tool_name": "t"}})
        assert made.status == 201 and "engine" not in made.json
        body = {"binding": {"type": "rest", "method": "GET", "path": "/", "base_url": "https://example.com"}}
        made = server.ask("PUT", "/v1/tools/web::get", body)
        assert made.status == 201 and made.json["engine"] == "rest"
        for address in ("http://user:pw@example.com", "http://exa mple.com", "http://example.com/?q=1"):
            body["binding"]["base_url"] = address
            refused = server.ask("PUT", "/v1/tools/web::other", body)
            assert refused.status == 400, address
            assert "pw" not in refused.body.decode()


class TestBareNames:
    """What a bare name means concerns everybody; who may change one namespace has no say in it."""

    @pytest.fixture
    def shop(self, tmp_path):
        config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
        with served(config, tools=desk_tools()) as server:
            server.token = server.key("*:list,execute,admin", name="owner")
            server.tenant = server.key("t:admin,list,execute", "core:admin", name="tenant")
            yield server

    def _invoke(self, shop, name, token=None):
        answer = shop.invoke(name, {"a": 1, "b": 2}, token=token)
        return answer.json.get("result", answer.json.get("error", {}).get("code"))

    @pytest.mark.parametrize(
        "spelling", [{"name": "t::add"}, {"name": "t::x", "aliases": ["add", "desk__add", "echo"]}]
    )
    def test_a_tool_of_a_namespace_admin_changes_no_existing_bare_name(self, shop, spelling):
        before = [self._invoke(shop, name) for name in ("add", "desk__add", "echo")]
        body = {
            "parameters": {"type": "object"},
            "aliases": spelling.get("aliases", []),
            "binding": {"type": "simulator"},
        }
        assert put(shop, spelling["name"], body, token=shop.tenant).status == 201
        assert [self._invoke(shop, name) for name in ("add", "desk__add", "echo")] == before
        assert before[0] == {"result": 3}

    @pytest.mark.parametrize("name", ["t::get_account", "t::desk__add", "core::fresh"])
    def test_a_tool_of_a_namespace_admin_gets_no_bare_name(self, shop, name):
        body = {"parameters": {"type": "object"}, "binding": {"type": "simulator"}}
        bare = name.partition("::")[2]
        known = self._invoke(shop, bare)
        assert put(shop, name, body, token=shop.tenant).status == 201
        assert self._invoke(shop, bare) == known
        assert shop.get(f"/v1/tools/{name}").status == 200

    def test_whoever_may_change_all_namespaces_can(self, shop):
        body = {"parameters": {"type": "object"}, "binding": {"type": "simulator"}}
        assert put(shop, "t::get_account", body).status == 201
        assert shop.get("/v1/tools/get_account").json["name"] == "t::get_account"

    def test_a_tool_of_a_namespace_admin_has_no_bare_name_after_a_restart(self, tmp_path):
        config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
        with served(config) as server:
            token, tenant = server.key("*:list,admin"), server.key("t:admin")
            assert put(server, "t::get_account", token=tenant).status == 201
        with served(config) as server:
            assert server.get("/v1/tools/t::get_account", token=token).status == 200
            assert server.get("/v1/tools/get_account", token=token).status == 404
