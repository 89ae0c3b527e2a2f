"""Arguments stay where the specification puts them, whatever they hold."""

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engines.engine_support import call
from engines.hostile.hostile_server import (
    HOSTILE_PATHS,
    PATH_VALUES,
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

REFUSED = {"tool.denied", "tool.invalid_args", "tool.no_engine"}

PATHS = {
    "alone": "/pets/{id}",
    "between": "/pets/{id}/toys",
    "within": "/pets/x{id}y/toys",
    "after a dot": "/pets/.{id}/toys",
}
STYLES = [(style, explode) for style in ("simple", "label", "matrix") for explode in (False, True)]


def stays_in_place(request, template):
    """The request is for the template's own segments, in its own host, whatever stands for its parameter."""
    assert "?" not in request.target and "#" not in request.target
    assert set(request.headers) <= {"host", "accept", "accept-encoding", "user-agent", "connection"}
    segments, expected = request.target.split("/"), template.split("/")
    assert len(segments) == len(expected)
    for segment, known in zip(segments[1:], expected[1:], strict=True):
        before, brace, after = known.partition("{id}")
        assert segment == known if not brace else (segment.startswith(before) and segment.endswith(after))
        assert unquote(segment) not in ("", ".", "..")
    return segments


@pytest.mark.parametrize("template", PATHS.values(), ids=PATHS)
def test_a_path_value_stays_in_its_segment_or_is_refused(server, make, ask, template):
    engine = make(pets(template), f"{server.url}")
    results = ask(engine, *(call("get", id=value) for value in PATH_VALUES))
    sent = iter(server.requests)
    for value, result in zip(PATH_VALUES, results, strict=True):
        if result.is_error:
            clear(result, *REFUSED)
            continue
        request = next(sent)
        segment = stays_in_place(request, template)[2]
        assert unquote(segment, errors="strict") == template.split("/")[2].replace("{id}", value)
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert list(sent) == []
    passed = {value for value, result in zip(PATH_VALUES, results, strict=True) if not result.is_error}
    assert {"...", "a b", "é", "%2e%2e", "a?b", "a#b"} <= passed
    if template == PATHS["alone"]:
        assert not {"", ".", ".."} & passed


@pytest.mark.parametrize(("style", "explode"), STYLES)
def test_no_style_makes_a_segment_of_dots(server, make, ask, style, explode):
    engine = make(pets(style=style, explode=explode, schema={}), server.url)
    values = [
        "",
        ".",
        "..",
        [""],
        ["", ""],
        ["."],
        [".", "."],
        [],
        {},
        {"": ""},
        {".": "."},
        {"..": ""},
        "%2e",
        None,
        ["/"],
    ]
    results = ask(engine, *(call("get", id=value) for value in values))
    assert len(server.requests) == sum(not result.is_error for result in results)
    for request in server.requests:
        stays_in_place(request, "/pets/{id}/toys")
    for result in results:
        if result.is_error:
            clear(result, *REFUSED)


def test_two_values_in_one_segment_make_no_dots(server, make, ask):
    parameters = [parameter("a"), parameter("b")]
    engine = make(specification({"/pets/{a}{b}/toys": {"get": operation("get", parameters)}}), server.url)
    results = ask(engine, call("get", a=".", b="."), call("get", a="", b="."), call("get", a="x", b="y"))
    assert [result.is_error for result in results] == [True, True, False]
    assert server.targets == ["/pets/xy/toys"]


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NASTY = st.text("./\\%2eE;:?#@&= \r\n\t\0a", max_size=12)


@given(value=JSON_TEXT | NASTY, style=st.sampled_from(["simple", "label", "matrix"]), query=JSON_TEXT | NASTY)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_the_value_the_request_is_for_the_templates_segments(server, tmp_path, value, style, query):
    document = specification(
        {"/pets/{id}/toys": {"get": operation("get", [parameter("id", style=style), parameter("q", "query")])}}
    )
    loader = RESTToolLoader(written(tmp_path, document), "n", server.url)
    before = len(server.requests)
    with RESTToolEngine(ToolRegistry.from_loaders([loader])) as engine:
        engine.setup("s")
        result = one(engine.execute("s", [call("get", id=value, q=query)]))
    requests = server.requests[before:]
    if result.is_error:
        clear(result, *REFUSED)
        assert requests == []
        return
    path, _, text = one(requests).target.partition("?")
    segments = path.split("/")
    assert len(segments) == 4 and segments[1] == "pets" and segments[3] == "toys"
    shown = {"simple": "", "label": ".", "matrix": ";id="}[style] + value
    assert unquote(segments[2], errors="strict").rstrip("=") == shown.rstrip("=") and shown not in ("", ".", "..")
    assert parse_qsl(text, keep_blank_values=True, errors="strict") == [("q", query)]


@pytest.mark.parametrize("template", HOSTILE_PATHS)
def test_a_path_of_the_specification_leads_to_no_other_host(server, make, ask, template):
    engine = make(pets(template), f"{server.url}/api")
    if "get" not in engine.tool_registry.tool_names():
        assert one(engine.tool_registry.report.rejected).reason
        return
    result = one(ask(engine, call("get", id="7")))
    if result.is_error:
        clear(result, *REFUSED)
        assert server.requests == []
        return
    request = one(server.requests)
    assert request.headers["host"] == f"127.0.0.1:{server.port}" and "x-evil" not in request.headers
    assert request.target.startswith("/api/") and "7" in request.target
    assert not {".", ".."} & {unquote(segment) for segment in request.target.partition("?")[0].split("/")}


HEADER_VALUES = ("a\r\nX-Evil: 1", "a\nb", "\r", "a\x00", "é", "\u2028", " a", "a ", "", "\x7f", "a" * 70_000)


def test_a_header_value_adds_no_header(server, make, ask):
    document = specification({"/x": {"get": operation("get", [parameter("X-Mine", "header")])}})
    results = ask(make(document, server.url), *(call("get", **{"X-Mine": value}) for value in HEADER_VALUES))
    assert len(server.requests) == sum(not result.is_error for result in results)
    for request in server.requests:
        assert set(request.headers) <= {"x-mine", "host", "accept", "accept-encoding", "user-agent", "connection"}
    for result in results[:4]:
        clear(result, *REFUSED)


@pytest.mark.parametrize("value", ["a; admin=1", "a, admin=1", "a\r\nX-Evil: 1", 'a"', "a\\", "é", "=;=", ""])
def test_a_cookie_value_adds_no_cookie(server, make, ask, value):
    document = specification(
        {"/x": {"get": operation("get", [parameter("mine", "cookie"), parameter("too", "cookie")])}}
    )
    result = one(ask(make(document, server.url), call("get", mine=value, too="b")))
    if result.is_error:
        clear(result, *REFUSED)
        assert server.requests == []
        return
    request = one(server.requests)
    pairs = [pair.partition("=") for pair in request.headers["cookie"].split("; ")]
    assert [name for name, _, _ in pairs] == ["mine", "too"] and "x-evil" not in request.headers
    assert unquote(pairs[0][2]) == value


HEADER_NAMES = (
    *("Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect", "TE", "Trailer"),
    *(
        "Proxy-Authorization",
        "X-Evil\r\nHost",
        "X Evil",
        "X:Evil",
        "é",
        "",
        "Cookie",
        "Authorization",
        "Accept-Encoding",
    ),
)


@pytest.mark.parametrize("name", HEADER_NAMES)
def test_no_header_parameter_says_where_a_request_goes_or_ends(server, make, ask, name):
    document = specification(
        {"/x": {"post": operation("post", [parameter(name, "header")], requestBody={"content": {"text/plain": {}}})}}
    )
    engine = make(document, server.url)
    values = [{name: "evil.example"}, {name: "chunked"}, {name: "5"}, {}]
    calls = [call("post", **given, body="1234567890") for given in values]
    results = ask(engine, *calls)
    assert len(server.requests) == sum(not result.is_error for result in results)
    for result in results:
        if result.is_error:
            clear(result, *REFUSED)
    for request in server.requests:
        assert (request.headers["host"], request.headers["content-length"]) == (f"127.0.0.1:{server.port}", "10")
        assert request.body == b"1234567890" and "transfer-encoding" not in request.headers
