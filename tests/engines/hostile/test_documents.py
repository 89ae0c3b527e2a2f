"""A specification that is fetched comes from a stranger too: what it is made of, how it comes, and from where."""

import logging
import tracemalloc

import pytest
from links.fake_server import respond, send_raw

from engines.engine_support import call
from engines.hostile.hostile_server import BOMBS, DRIPS, MIB, NOT_JSON, TOO_MUCH, one, pets, too_much
from toolyard import RESTToolLoader, ToolRegistry, ToolyardError
from toolyard.engines.rest import RESTToolEngine

SECRET = "tok3n-that-must-not-leave"
HEADERS = {"Authorization": f"Bearer {SECRET}", "X-Key": SECRET}


def refused(url, caplog, **options):
    """The error of loading it; nothing that can be seen of it shows the secret."""
    caplog.set_level(logging.DEBUG)
    loader = RESTToolLoader(url, "n", headers=HEADERS, **options)
    with pytest.raises(ToolyardError) as error:
        loader.load()
    chain, found = error.value, ""
    while chain is not None:
        found += f"{chain} {chain!r} {vars(chain)}"
        chain = chain.__cause__ or chain.__context__
    seen = [
        found,
        repr(loader),
        str(loader.source),
        *(f"{record.getMessage()} {record.__dict__}" for record in caplog.records),
    ]
    assert [text for text in seen if SECRET in text] == []
    return error.value


@pytest.mark.parametrize("drops", DRIPS)
def test_a_document_that_drips_is_left_at_the_deadline(server, caplog, drops):
    server.otherwise = lambda request: DRIPS[drops]
    assert refused(f"{server.url}/spec.json", caplog, timeout=0.4)


@pytest.mark.parametrize("much", [*TOO_MUCH, *BOMBS])
def test_a_document_beyond_the_limit_costs_no_more_than_the_limit(server, caplog, much):
    act = too_much(much)
    server.otherwise = lambda request: act
    tracemalloc.start()
    try:
        refused(f"{server.url}/spec.json", caplog, max_bytes=MIB)
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
NO_DOCUMENT = {
    **NOT_JSON,
    "a list": b"[]",
    "a text": b'"openapi: 3.1.0"',
    "nothing": b"",
    "an alias bomb": b"openapi: 3.1.0\npaths: {}\n" + ALIASES.encode(),
    "a Python object": b"!!python/object/apply:os.system [id]",
    "another version": b'{"openapi": "4.0.0", "paths": {}}',
}


@pytest.mark.parametrize("kind", NO_DOCUMENT)
def test_what_is_no_document_is_refused(server, caplog, kind):
    server.otherwise = lambda request: respond(200, NO_DOCUMENT[kind])
    assert refused(f"{server.url}/spec.json", caplog)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_origin_is_not_followed(server, evil, caplog, status):
    server.otherwise = lambda request: respond(status, b"", f"Location: {evil.url}/spec.json")
    assert evil.url in str(refused(f"{server.url}/spec.json", caplog))
    assert [request.headers["x-key"] for request in server.requests] == [SECRET]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 503])
def test_a_server_that_echoes_what_it_got_does_not_make_it_known(server, caplog, status):
    server.otherwise = lambda request: respond(status, {"error": f"{request.target} {request.headers}"})
    assert refused(f"{server.url}/spec.json?key={SECRET}", caplog)
    server.otherwise = lambda request: send_raw(
        f"HTTP/1.1 {status} {request.headers}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert refused(f"{server.url}/spec.json?key={SECRET}", caplog)


def test_a_document_that_repeats_the_headers_it_came_for_does_not_put_them_into_errors(server, caplog):
    server.otherwise = lambda request: respond(200, f"{{{request.headers}".encode())
    assert refused(f"{server.url}/spec.json", caplog)


def test_headers_for_the_document_do_not_go_with_calls(server, ask):
    server.acts["GET", "/spec.json"] = [respond(200, pets() | {"servers": [{"url": "/"}]})]
    registry = ToolRegistry.from_loaders([RESTToolLoader(f"{server.url}/spec.json", "n", headers=HEADERS)])
    assert not one(ask(RESTToolEngine(registry), call("get", id="7"))).is_error
    assert [SECRET in str(request.headers) for request in server.requests] == [True, False]
