"""Which handler answers a request."""

import pytest
from service_support import served

from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request
from toolyard.serving.routes import Parameter, Route, Router


async def handler(service, request):
    raise AssertionError("not called here")


ROUTER = Router(
    [
        Route("GET", "/v1/tools", handler, "list"),
        Route("GET", "/v1/tools/{name}", handler, "one"),
        Route("DELETE", "/v1/tools/{name}", handler, "drop"),
        Route("POST", "/v1/tools/{name}:invoke", handler, "call"),
        Route("GET", "/v1/a/{id}/b/{other}", handler, "two"),
        Route("GET", "/", handler, "root"),
    ]
)


def find(method, path):
    return ROUTER.find(Request({"method": method, "path": "", "raw_path": path.encode(), "headers": []}, None))


def refused(method, path):
    with pytest.raises(HttpFault) as caught:
        find(method, path)
    return caught.value


@pytest.mark.parametrize(
    ("method", "path", "summary", "values"),
    [
        ("GET", "/", "root", ()),
        ("GET", "/v1/tools", "list", ()),
        ("GET", "/v1/tools/", "list", ()),
        ("HEAD", "/v1/tools", "list", ()),
        ("GET", "/v1/tools/a", "one", ("a",)),
        ("GET", "/v1/tools/a/", "one", ("a",)),
        ("GET", "/v1/tools/a%2Fb", "one", ("a/b",)),
        ("GET", "/v1/tools/a%3A%3Ab", "one", ("a::b",)),
        ("GET", "/v1/tools/%252F", "one", ("%2F",)),
        ("GET", "/v1/tools/%C3%A9", "one", ("é",)),
        ("GET", "/v1/tools/..", "one", ("..",)),
        ("POST", "/v1/tools/a:invoke", "call", ("a",)),
        ("POST", "/v1/tools/a%3Ainvoke", "call", ("a",)),
        ("POST", "/v1/tools/n::a:invoke", "call", ("n::a",)),
        ("POST", "/v1/tools/a:invoke:invoke", "call", ("a:invoke",)),
        ("GET", "/v1/a/x/b/y", "two", ("x", "y")),
    ],
)
def test_a_route_is_found_by_method_and_decoded_path(method, path, summary, values):
    found = find(method, path)
    assert (found.route.summary, found.values) == (summary, values)


@pytest.mark.parametrize("path", ["/v1", "/v1/tools/a/b", "/v1//tools", "/v1/a//b/y", "/V1/tools", "/v1/tools//"])
def test_any_other_path_is_a_404(path):
    assert refused("GET", path).code == "route.not_found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/tools", b"GET, HEAD"),
        ("PUT", "/v1/tools/a", b"DELETE, GET, HEAD"),
        ("GET", "/v1/tools/a:invoke", b"POST"),
        ("DELETE", "/v1/tools/a:invoke", b"POST"),
        ("HEAD", "/v1/tools/a:invoke", b"POST"),
        ("BREW", "/", b"GET, HEAD"),
    ],
)
def test_another_method_is_a_405_that_says_which_are_allowed(method, path, allow):
    fault = refused(method, path)
    assert (fault.status, fault.code) == (405, "request.method_not_allowed")
    assert dict(fault.headers)[b"allow"] == allow


def test_a_path_that_is_no_utf_8_is_a_400():
    assert refused("GET", "/v1/tools/%FF").status == 400
    assert refused("GET", "/v1/tools/%C3").status == 400


def test_a_path_without_end_is_a_414():
    assert refused("GET", "/v1/tools/" + "x" * 9000).status == 414


def test_many_different_paths_are_not_all_remembered():
    for number in range(5000):
        find("GET", f"/v1/tools/t{number}")
    assert len(ROUTER._found) <= 4096


def test_parameters_are_checked_by_their_schema():
    word = Parameter("word", {"type": "string", "enum": ["a", "b"], "minLength": 1}, "")
    word.check(["a"])
    for values in (["c"], [""], ["a", "b"]):
        with pytest.raises(HttpFault, match="word"):
            word.check(values)
    Parameter("many", {"type": "string"}, "", repeatable=True).check(["a", "a", ""])
    with pytest.raises(HttpFault):
        Parameter("number", {"type": "string", "pattern": "^[0-9]+$"}, "").check(["1\n"])


def test_every_route_of_the_service_can_be_reached_and_refuses_other_methods():
    with served(page=True) as yard:
        for path in ("/v1/tools", "/arp/v1/tools", "/v1/sessions", "/v1/health", "/openapi.json", "/"):
            for method in ("PATCH", "PUT", "TRACE", "OPTIONS"):
                answer = yard.ask(method, path)
                assert answer.status == 405, (method, path, answer)
                assert "GET" in answer.headers["allow"] and "HEAD" in answer.headers["allow"]
                assert answer.error["code"] == "request.method_not_allowed"
