"""Servers: where an operation is served."""

import pytest

from sources.rest.documents import document, notes_of, operation, tool_of


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
