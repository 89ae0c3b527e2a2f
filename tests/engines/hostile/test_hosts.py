"""Where a specification or a server wants calls to go is not trusted by itself."""

import json
import socket
from contextlib import contextmanager, suppress
from urllib.parse import quote

import pytest
from links.fake_server import respond

from engines.engine_support import SOON, call
from engines.hostile.hostile_server import (
    LOOPBACK,
    METADATA,
    clear,
    one,
    operation,
    parameter,
    pets,
    specification,
    written,
)
from toolyard import RESTToolLoader, ToolRegistry
from toolyard.engines.rest import RESTToolEngine

SECRET = "something of another folder"


@contextmanager
def canary(server):
    """Nobody is asked at the server's port, on IPv4 or, where there is such a thing, IPv6."""
    sockets = []
    with suppress(OSError):
        sockets.append(socket.create_server(("::1", server.port), family=socket.AF_INET6))
    try:
        yield
        assert server.connections == []
        for listener in sockets:
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
    finally:
        for listener in sockets:
            listener.close()


def blocked(engine, ask, *calls):
    """The calls are denied, or were never made tools and are listed as such."""
    if not len(engine.tool_registry):
        assert one(engine.tool_registry.report.rejected).reason
        return
    for result in ask(engine, *calls):
        info = clear(result, "tool.denied", "tool.no_engine")
        assert (info.effect, info.retryable) == ("none", False)


SPELLINGS = tuple(dict.fromkeys((*METADATA, *LOOPBACK)))


def test_there_are_more_than_forty_spellings():
    assert len(SPELLINGS) > 40


@pytest.fixture(params=range(4))
def hosts(request):
    """A quarter of the spellings: a test tries all of its own, and says which were taken for something else."""
    return SPELLINGS[request.param :: 4]


@contextmanager
def noting(missed, host):
    try:
        yield
    except AssertionError as error:
        missed[host] = str(error)


def test_a_specification_is_not_trusted_to_name_private_hosts(server, make, ask, hosts):
    missed = {}
    for host in hosts:
        url = f"http://{host.format(port=server.port)}:{server.port}"
        with noting(missed, host), canary(server):
            blocked(make(pets("/pets/{id}") | {"servers": [{"url": url}]}), ask, call("get", id="7"))
    assert missed == {} and server.connections == []


def test_a_redirect_is_not_trusted_to_name_private_hosts(server, evil, make, ask, hosts):
    missed, url = {}, None
    server.otherwise = lambda request: respond(302, b"", f"Location: {quote(url, safe=':/@[]%')}")
    for number, host in enumerate(hosts, 1):
        url = f"http://{host.format(port=evil.port)}:{evil.port}/latest/meta-data"
        with noting(missed, host), canary(evil):
            info = clear(one(ask(make(pets(), server.url), call("get", id="7"))), "tool.denied")
            assert info.effect == "none" and len(server.requests) == number
    assert missed == {}


def _pointing(url, host):
    variables = {"url": "http://{where}", "variables": {"where": {"default": host}}}
    get = operation("get", [parameter("id")])
    fine = {"servers": [{"url": "https://api.example.com"}]}
    path = "/pets/{id}"
    swagger = {"swagger": "2.0", "info": {"title": "x", "version": "1"}, "host": host, "schemes": ["http"]}
    listed = {"name": "id", "in": "path", "required": True, "type": "string"}
    return {
        "an operation's server": specification({path: {"get": get | {"servers": [{"url": url}]}}}, **fine),
        "a path's server": specification({path: {"get": get, "servers": [{"url": url}]}}, **fine),
        "a server's variable": specification({path: {"get": get}}, servers=[variables]),
        "Swagger 2": swagger | {"paths": {path: {"get": get | {"parameters": [listed]}}}},
        "the second server": specification(
            {path: {"get": get}}, servers=[{"url": "ftp://api.example.com"}, {"url": url}]
        ),
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254"])
@pytest.mark.parametrize("place", list(_pointing("", "")))
def test_no_place_in_a_specification_is_trusted(server, make, ask, place, host):
    document = _pointing(f"http://{host}:{server.port}", f"{host}:{server.port}")[place]
    with canary(server):
        blocked(make(document), ask, call("get", id="7"))
    assert server.connections == []


def test_a_specification_from_an_address_may_call_that_and_nothing_near_it(server, evil, ask):
    """Its own origin was named by the operator; another port of the same host was not."""
    get = operation("near", servers=[{"url": f"http://127.0.0.1:{evil.port}"}])
    document = specification({"/near": {"get": get}, "/here": {"get": operation("here")}}, servers=[{"url": "/api"}])
    server.acts["GET", "/spec.json"] = [respond(200, document)]
    registry = ToolRegistry.from_loaders([RESTToolLoader(f"{server.url}/spec.json", "n")])
    near, here = ask(RESTToolEngine(registry, timeout=SOON), call("near"), call("here"))
    clear(near, "tool.denied")
    assert not here.is_error and server.targets == ["/spec.json", "/api/here"]


def test_what_the_operator_allows_may_be_called(server, make, ask):
    document = pets() | {"servers": [{"url": server.url}]}
    by_host = ask(make(document, allow_hosts=[f"127.0.0.1:{server.port}"]), call("get", id="7"))
    by_network = ask(make(document, allow_networks=["127.0.0.0/8"]), call("get", id="7"))
    elsewhere = ask(make(document, allow_hosts=["127.0.0.1:1"], allow_networks=["10.0.0.0/8"]), call("get", id="7"))
    assert [one(results).is_error for results in (by_host, by_network, elsewhere)] == [False, False, True]


def test_the_environment_has_no_say(server, evil, make, ask, monkeypatch, tmp_path):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, evil.url)
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert not one(ask(make(pets(), server.url), call("get", id="7"))).is_error
    assert "authorization" not in one(server.requests).headers


def test_cookies_of_one_answer_are_not_sent_with_the_next_call(server, make, ask):
    server.otherwise = lambda request: respond(200, {}, "Set-Cookie: session=1; Path=/")
    ask(make(pets(), server.url), call("get", id="7"), call("get", id="8"))
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


REFERENCES = [
    *(
        "http://127.0.0.1:{port}/x.json",
        "//127.0.0.1:{port}/x.json",
        "ftp://127.0.0.1:{port}/x",
        "file:///etc/hostname",
    ),
    *("/etc/hostname", "../outside.json", "sub/../../outside.json", "link.json"),
]


@pytest.mark.parametrize("reference", REFERENCES)
def test_references_lead_neither_to_addresses_nor_out_of_the_folder(evil, tmp_path, reference):
    (tmp_path / "outside.json").write_text(json.dumps({"type": "string", "description": SECRET}))
    folder = tmp_path / "specs"
    (folder / "sub").mkdir(parents=True)
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    document = pets(schema={"$ref": reference.format(port=evil.port)})
    loader = RESTToolLoader(written(folder, document), "n", "https://api.example.com")
    tools = loader.load()
    assert len(tools) + len(loader.report.rejected) == 1
    assert len(loader.report.rewrites) + len(loader.report.rejected) > 0
    assert SECRET not in f"{[tool.parameters for tool in tools]} {loader.report}"
