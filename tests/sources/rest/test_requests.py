"""Where a request goes and what it carries: parameters, how they are written, servers and credentials."""

import pytest

from sources.rest.documents import accepts, body, document, loader_of, notes_of, operation, parameter, tool_of


def bound(*parameters, path="/things", item=(), method="get", **options):
    operations = {method: operation(parameters=list(parameters)), "parameters": list(item)}
    return tool_of(document(operations, path=path, **options))


def test_every_place_is_an_argument_and_path_parameters_are_required():
    tool = bound(
        parameter("id", "path"),
        parameter("q", "query", required=True),
        parameter("X-Trace", "header"),
        parameter("theme", "cookie"),
        path="/things/{id}",
    )
    assert tool.binding.locations == {
        "id": ("path", "id"),
        "q": ("query", "q"),
        "X-Trace": ("header", "X-Trace"),
        "theme": ("cookie", "theme"),
    }
    assert tool.parameters["required"] == ["id", "q"]
    assert tool.parameters["additionalProperties"] is False


@pytest.mark.parametrize(("said", "is_required"), [("true", True), ("Yes", True), ([True], True), ("no", False)])
def test_required_may_be_said_in_text_or_in_a_list(said, is_required):
    body = {"required": said, "content": {"application/json": {"schema": {"type": "string"}}}}
    called = operation(parameters=[parameter("q", "query", required=said)], requestBody=body)
    assert tool_of(document({"post": called})).parameters.get("required", []) == ["q", "body"] * is_required


@pytest.mark.parametrize(
    ("where", "given", "style", "explode"),
    [
        ("path", {}, "simple", False),
        ("path", {"style": "label"}, "label", False),
        ("path", {"style": "matrix", "explode": True}, "matrix", True),
        ("query", {}, "form", True),
        ("query", {"explode": False}, "form", False),
        ("query", {"style": "spaceDelimited"}, "spaceDelimited", False),
        ("query", {"style": "pipeDelimited", "explode": False}, "pipeDelimited", False),
        ("query", {"style": "deepObject"}, "deepObject", True),
        ("header", {}, "simple", False),
        ("header", {"explode": True}, "simple", True),
        ("cookie", {}, "form", True),
    ],
)
def test_style_and_explode_have_the_defaults_of_their_place(where, given, style, explode):
    path = "/things/{x}" if where == "path" else "/things"
    (found,) = bound(parameter("x", where, **given), path=path).binding.parameters
    assert (found.style, found.explode) == (style, explode)


def test_a_style_that_means_nothing_there_is_replaced_and_listed():
    content = document({"get": operation(parameters=[parameter("x", "header", style="deepObject")])})
    assert tool_of(content).binding.parameters[0].style == "simple"
    assert "style 'deepObject' has no meaning in a header" in notes_of(content)


def test_a_content_parameter_keeps_its_media_type_and_schema():
    raw = {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    tool = bound(raw)
    assert tool.binding.parameters[0].media_type == "application/json"
    assert tool.parameters["properties"]["filter"] == {"type": "object"}


def test_parameters_of_the_operation_override_those_of_its_path_by_name_and_place():
    tool = bound(
        parameter("id", "query", schema={"type": "integer"}),
        item=[parameter("id", "query"), parameter("id", "header"), parameter("kept", "query")],
    )
    kinds = {p.location + ":" + p.name: tool.parameters["properties"][p.argument] for p in tool.binding.parameters}
    assert kinds == {
        "query:id": {"type": "integer"},
        "header:id": {"type": "string"},
        "query:kept": {"type": "string"},
    }


def test_of_one_name_in_several_places_the_path_keeps_it():
    content = document(
        {
            "post": operation(
                parameters=[parameter("id", where) for where in ("path", "query", "header", "cookie")],
                requestBody=body({"type": "object", "properties": {"id": {"type": "integer"}}}),
            )
        },
        path="/things/{id}",
    )
    assert tool_of(content).binding.locations == {
        "id": ("path", "id"),
        "id_in_query": ("query", "id"),
        "id_in_header": ("header", "id"),
        "id_in_cookie": ("cookie", "id"),
        "id_in_body": ("body", "id"),
    }
    assert "body 'id' is the argument 'id_in_body'" in notes_of(content)


def test_a_name_made_up_is_never_one_that_is_there():
    names = [parameter("a", "query"), parameter("a", "header"), parameter("a_in_query", "query")]
    locations = bound(*names).binding.locations
    assert len(locations) == 3
    assert locations["a_in_query"] == ("query", "a_in_query")
    assert locations["a_in_query_2"] == ("query", "a")


def test_a_whole_body_and_a_parameter_called_body_are_told_apart():
    content = document({"post": operation(parameters=[parameter("body")], requestBody=body({"type": "array"}))})
    assert tool_of(content).binding.locations == {"body_in_query": ("query", "body"), "body_in_body": ("body", "")}


@pytest.mark.parametrize("name", ["Accept", "content-type", "AUTHORIZATION"])
def test_headers_that_openapi_ignores_are_no_arguments_and_listed(name):
    content = document({"get": operation(parameters=[parameter(name, "header")])})
    assert tool_of(content).parameters["properties"] == {}
    assert f"header parameter {name!r} is not an argument" in notes_of(content)


def test_references_to_parameters_are_followed():
    components = {"parameters": {"Page": parameter("page", schema={"type": "integer"}), "Again": ref("Page")}}
    tool = bound(ref("Again"), components=components)
    assert tool.parameters["properties"] == {"page": {"type": "integer"}}


def ref(name):
    return {"$ref": f"#/components/parameters/{name}"}


def test_a_parameter_that_cannot_be_found_is_left_out_and_listed():
    content = document(
        {"get": operation(parameters=[ref("Gone"), "text", {"name": "x", "in": "moon"}, {"in": "query"}])}
    )
    assert tool_of(content).parameters["properties"] == {}
    notes = notes_of(content)
    assert "#/paths/~1things/get" in notes
    assert "'#/components/parameters/Gone' cannot be read" in notes
    assert "in 'moon' is left out" in notes
    assert "without name or place" in notes


def test_a_parameter_that_many_refer_to_through_another_reference_is_noted_once():
    shared = {"A": {**ref("B"), "description": "mine"}, "B": parameter("b", "query", style="odd")}
    operations = {method: operation(operationId=method, parameters=[ref("A")]) for method in ("get", "put", "post")}
    loader = loader_of(document(operations, version="3.1.0", components={"parameters": shared}))
    assert [rewrite.count for rewrite in loader.report.rewrites if "'odd'" in rewrite.change] == [1]


def test_a_path_parameter_that_only_the_path_tells_of_is_any_text():
    content = document(path="/a/{x}/b/{y}")
    assert tool_of(content).parameters["required"] == ["x", "y"]
    assert "path parameter 'x' is not described" in notes_of(content)


def test_a_path_parameter_that_is_not_in_the_path_is_left_out_and_listed():
    content = document({"get": operation(parameters=[parameter("ghost", "path")])})
    assert tool_of(content).parameters["properties"] == {}
    assert "path parameter 'ghost' is not in the path" in notes_of(content)


def test_templates_of_other_kinds_find_their_parameter():
    tool = bound(parameter("name", "path"), path="/v1/{+name}:run")
    assert (tool.binding.path, tool.parameters["required"]) == ("/v1/{name}:run", ["name"])


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/cards/:card_id/pin", "/cards/{card_id}/pin"),
        ("/cards/:card_id", "/cards/{card_id}"),
        ("/cards/{cardId}", "/cards/{card_id}"),
        ("/cards/{card_id*}", "/cards/{card_id}"),
    ],
)
def test_a_path_that_spells_a_parameter_otherwise_still_takes_it(path, read):
    content = document({"get": operation(parameters=[parameter("card_id", "path")])}, path=path)
    tool = tool_of(content)
    assert tool.binding.path == read
    assert tool.binding.locations == {"card_id": ("path", "card_id")}
    assert "is read as {card_id}" in notes_of(content)


def test_a_colon_that_no_parameter_is_named_for_stays():
    assert bound(path="/cards/:freeze").binding.path == "/cards/:freeze"


def test_a_path_whose_braces_do_not_pair_is_a_listed_rejection():
    loader = loader_of(document(path="/a/{x"))
    (rejected,) = loader.report.rejected
    assert rejected.where.endswith("spec.json#/paths/~1a~1{x/get")
    assert "do not pair" in rejected.reason


def test_the_fragment_of_a_path_is_not_sent():
    assert tool_of(document(path="/#X-Amz-Target=Do")).binding.path == "/"


def test_descriptions_and_examples_of_parameters_reach_the_schema():
    tool = bound(parameter("q", description="What to look for.", example="cats", deprecated=True))
    assert tool.parameters["properties"]["q"] == {
        "type": "string",
        "description": "What to look for.",
        "deprecated": True,
        "examples": ["cats"],
    }


@pytest.mark.parametrize(
    ("written", "style", "explode"),
    [
        ("csv", "form", False),
        ("ssv", "spaceDelimited", False),
        ("pipes", "pipeDelimited", False),
        ("multi", "form", True),
        (None, "form", False),
    ],
)
def test_swagger_lists_are_written_as_they_say(written, style, explode):
    raw = {"name": "ids", "in": "query", "type": "array", "items": {"type": "integer"}}
    if written:
        raw["collectionFormat"] = written
    tool = bound(raw, version="2.0")
    assert (tool.binding.parameters[0].style, tool.binding.parameters[0].explode) == (style, explode)
    assert tool.parameters["properties"]["ids"] == {"type": "array", "items": {"type": "integer"}}


def test_swagger_types_stand_on_the_parameter_itself():
    raw = {"name": "n", "in": "query", "type": "integer", "minimum": 1, "exclusiveMinimum": True, "enum": [2, 3]}
    schema = bound(raw, version="2.0").parameters
    assert schema["properties"]["n"] == {"type": "integer", "exclusiveMinimum": 1, "enum": [2, 3]}
    assert accepts(schema, {"n": 2})
    assert not accepts(schema, {"n": "2"})


def test_a_whole_query_string_is_an_exploded_form():
    content = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    tool = bound({"name": "all", "in": "querystring", "content": content}, version="3.2.0")
    (found,) = tool.binding.parameters
    assert (found.location, found.style, found.explode, found.media_type) == ("query", "form", True, None)


@pytest.mark.parametrize(
    ("path", "parameters", "left", "sent"),
    [
        ("/r?page={page}", [parameter("page", "path")], "/r", {"page": True}),
        ("/r?page={page}", [parameter("page")], "/r", {"page": False}),
        ("/r?page={page}", [], "/r", {"page": True}),
        ("/r?p={page}&size=10", [parameter("page", "path")], "/r?size=10", {"p": True}),
        ("/r?p={page}", [parameter("page", required=True)], "/r", {"p": True}),
        (
            "/{id}?a%5B%5D={a}&b={b}",
            [parameter("id", "path"), parameter("b", "path")],
            "/{id}",
            {"a[]": True, "b": True},
        ),
        ("/r{?page,size*}{&x}", [parameter("size")], "/r", {"page": False, "size": False, "x": False}),
        ("/r?ids={a},{b}&{c}", [], "/r?ids={a},{b}&{c}", {}),
        ("/{id}/r?owner={id}", [parameter("id", "path")], "/{id}/r?owner={id}", {}),
        ("/r?fixed=1#a", [], "/r?fixed=1", {}),
    ],
)
def test_a_place_in_the_query_of_a_path_is_a_parameter_of_the_query(path, parameters, left, sent):
    tool = tool_of(document({"get": operation(parameters=parameters)}, path=path))
    assert tool.binding.path == left
    found = {
        item.name: item.argument in tool.parameters.get("required", ())
        for item in tool.binding.parameters
        if item.location == "query"
    }
    assert found == sent


def address(servers=None, *, own=None, item=None, version="3.0.3", options=None, **top):
    fields = {"servers": own} if own else {}
    operations = {"get": operation(**fields), **({"servers": item} if item else {})}
    return tool_of(
        document(operations, version=version, **({"servers": servers} if servers else {}), **top), **(options or {})
    ).binding.base_url


def server(url, **variables):
    return {"url": url, "variables": variables}


def test_the_nearest_list_of_servers_counts():
    top, item, own = [server("https://a.example")], [server("https://b.example")], [server("https://c.example/v1/")]
    assert address(top) == "https://a.example"
    assert address(top, item=item) == "https://b.example"
    assert address(top, item=item, own=own) == "https://c.example/v1"


def test_variables_have_their_default_unless_the_operator_sets_them():
    servers = [server("https://{host}/{base}", host={"default": "a.example"}, base={"enum": ["v2", "v1"]})]
    assert address(servers) == "https://a.example/v2"
    assert address(servers, options={"server_variables": {"host": "b.example"}}) == "https://b.example/v2"


def test_a_variable_without_default_is_listed():
    content = document(servers=[server("https://{host}/")])
    assert "variable 'host' has no default" in notes_of(content)


@pytest.mark.parametrize("servers", [None, [server("/api/v3")], [server("//")], ["text"], [{}]])
def test_without_an_absolute_address_the_operator_must_give_one(servers):
    content = document(**({"servers": servers} if servers else {}))
    assert "base_url" in notes_of(content)
    tool = tool_of(content, base_url="http://127.0.0.1:8080/api/")
    assert tool.binding.base_url == "http://127.0.0.1:8080/api"
    assert tool.binding.named == ("127.0.0.1:8080",)
    assert tool.binding.origins == ("http://127.0.0.1:8080",)


def test_the_operators_address_stands_for_all():
    options = {"base_url": "https://mine.example"}
    own = [server("https://c.example")]
    assert address([server("https://a.example")], own=own, options=options) == "https://mine.example"


def test_a_server_that_is_not_http_is_passed_over():
    assert address([server("wss://a.example"), server("http://b.example")]) == "http://b.example"


def test_what_a_document_names_is_not_named_by_the_operator():
    tool = tool_of(document(servers=[server("http://127.0.0.1:9")]), allow_hosts=["10.0.0.5"])
    assert (tool.binding.named, tool.binding.origins) == ((), ())
    assert tool.binding.allowed == ("10.0.0.5",)


@pytest.mark.parametrize(
    ("top", "found"),
    [
        ({"host": "a.example", "basePath": "/v1", "schemes": ["http", "https"]}, "https://a.example/v1"),
        ({"host": "a.example:8080", "schemes": ["http"]}, "http://a.example:8080"),
        ({"host": "a.example"}, "https://a.example"),
        ({"basePath": "/v1"}, "/v1"),
    ],
)
def test_swagger_says_it_in_three_words(top, found):
    assert address(version="2.0", **top) == found


def test_words_of_openapi_3_mean_nothing_in_swagger():
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"name": {}}}}}}
    servers = [server("https://b.example")]
    operations = {"servers": servers, "post": operation(requestBody=body, servers=servers)}
    binding = tool_of(document(operations, version="2.0", host="a.example")).binding
    assert (binding.base_url, binding.body) == ("https://a.example", None)


SCHEMES = {
    "token": {"type": "http", "scheme": "Bearer"},
    "login": {"type": "http", "scheme": "basic"},
    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    "oauth": {
        "type": "oauth2",
        "flows": {
            "authorizationCode": {"tokenUrl": "https://a.example/code"},
            "clientCredentials": {"tokenUrl": "https://a.example/token"},
        },
    },
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example"},
    "mtls": {"type": "mutualTLS"},
    "again": {"$ref": "#/components/securitySchemes/token"},
}


def needs(own=None, default=None, version="3.0.3", **top):
    fields = {"security": own} if own is not None else {}
    extra = {"security": default} if default is not None else {}
    top = top or {"components": {"securitySchemes": SCHEMES}}
    return tool_of(document({"get": operation(**fields)}, version=version, **extra, **top)).binding


def test_alternatives_are_or_and_their_members_and():
    binding = needs([{"token": [], "key": []}, {"login": []}])
    assert binding.security == (("token", "key"), ("login",))
    assert {name: scheme.type for name, scheme in binding.schemes.items()} == {
        "token": "bearer",
        "key": "api_key",
        "login": "basic",
    }
    assert (binding.schemes["key"].location, binding.schemes["key"].name) == ("query", "api_key")


def test_an_empty_alternative_means_it_works_without():
    assert needs([{"token": []}, {}]).security == (("token",), ())
    assert needs([{}]).security == ()


def test_the_operation_overrides_the_document():
    assert needs(None, [{"token": []}]).security == (("token",),)
    assert needs([], [{"token": []}]).security == ()


def test_oauth2_knows_its_token_address_and_scopes():
    scheme = needs([{"oauth": ["read", "write"]}]).schemes["oauth"]
    assert (scheme.type, scheme.token_url, scheme.scopes) == ("oauth2", "https://a.example/token", ("read", "write"))
    assert needs([{"oidc": []}]).schemes["oidc"].type == "oauth2"


def test_other_schemes_and_references_to_schemes_are_read():
    assert needs([{"mtls": []}]).schemes["mtls"].type == "other"
    assert needs([{"again": []}]).schemes["again"].type == "bearer"


def test_a_scheme_nobody_describes_is_listed():
    content = document({"get": operation(security=[{"ghost": []}])})
    assert tool_of(content).binding.schemes["ghost"].type == "other"
    assert "security scheme 'ghost' is not described" in notes_of(content)


def test_swagger_has_its_own_words():
    definitions = {
        "login": {"type": "basic"},
        "oauth": {"type": "oauth2", "flow": "application", "tokenUrl": "https://a.example/t", "scopes": {"r": "read"}},
    }
    binding = needs([{"login": []}, {"oauth": ["r"]}], version="2.0", securityDefinitions=definitions)
    assert binding.schemes["login"].type == "basic"
    assert binding.schemes["oauth"].token_url == "https://a.example/t"
