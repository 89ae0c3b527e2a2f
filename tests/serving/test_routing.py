"""Which handler answers a request."""

import asyncio

import pytest
from starlette.routing import Router

from serving.service_support import desk_tools, served
from toolyard.serving.app import refuse_unknown_path
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.routing import Operation, make_routes


async def handler(request):
    raise AssertionError("not called here")


OPERATIONS = [
    Operation("GET", "/v1/tools", handler, "list"),
    Operation("GET", "/v1/tools/{name}", handler, "one"),
    Operation("DELETE", "/v1/tools/{name}", handler, "drop"),
    Operation("POST", "/v1/tools/{name}:invoke", handler, "call"),
    Operation("GET", "/v1/a/{id}/b/{other}", handler, "two"),
    Operation("GET", "/", handler, "root"),
]


class Found:
    """Notes which operation was found, instead of running it."""

    def __init__(self, operation):
        self.operation = operation

    async def __call__(self, scope, receive, send):
        scope["found"] = self.operation.summary, tuple(scope["path_params"].values())


ROUTER = Router(make_routes(OPERATIONS, Found), redirect_slashes=False, default=refuse_unknown_path)


MOUNTS = [
    ("/my%20app", "/my app"),
    ("/@yard", "/@yard"),
    ("/%40yard", "/@yard"),
    ("/team:a/b", "/team:a/b"),
    ("/team%3aa/b", "/team:a/b"),
    ("/%C3%BC", "/ü"),
    ("/a%2Fb", "/a/b"),
    ("/~x$&+,;=!'()*", "/~x$&+,;=!'()*"),
]


def find(method, path, root=""):
    scope = {"type": "http", "method": method, "path": "", "raw_path": path.encode(), "root_path": root, "headers": []}
    asyncio.run(ROUTER(scope, None, None))
    return scope["found"]


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
    assert find(method, path) == (summary, values)
    for mount, root in MOUNTS:
        assert find(method, mount + path, root=root) == (summary, values)


@pytest.mark.parametrize(("mount", "root"), MOUNTS)
def test_a_mount_is_its_own_root_and_no_prefix_of_a_name(mount, root):
    assert find("GET", mount, root=root) == ("root", ())
    with pytest.raises(HttpFault):
        find("GET", f"{mount}v1/tools", root=root)


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


def test_a_path_that_is_too_long_is_a_414():
    assert refused("GET", "/v1/tools/" + "x" * 9000).status == 414


def test_every_route_of_the_service_can_be_reached_and_refuses_other_methods():
    with served(page=True) as yard:
        for path in ("/v1/tools", "/arp/v1/tools", "/v1/sessions", "/v1/health", "/openapi.json", "/"):
            for method in ("PATCH", "PUT", "TRACE", "OPTIONS"):
                answer = yard.ask(method, path)
                assert answer.status == 405, (method, path, answer)
                assert "GET" in answer.headers["allow"] and "HEAD" in answer.headers["allow"]
                assert answer.error["code"] == "request.method_not_allowed"


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools(), body_timeout=0.5) as server:
        yield server


@pytest.mark.parametrize("path", ["/v1/tools", "/arp/v1/tools", "/arp/v1/health"])
def test_other_methods_are_a_405_in_json_and_head_works(yard, path):
    for method in ("DELETE", "PUT", "PATCH", "POST"):
        answer = yard.ask(method, path)
        assert (answer.status, answer.error["code"]) == (405, "request.method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD"
    head = yard.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"") and int(head.headers["content-length"]) > 0
