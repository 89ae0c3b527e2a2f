"""`ServerWire`: which requests are repeated, and which errors responses become."""

import logging
import threading
import traceback

import pytest
from hypothesis import given, strategies as st
from links.fake_server import hang_up, respond, respond_error, send_raw
from waiting import SOON

from client.fake_wire import EXECUTE, TOOLS, VERSION, FakeWire, after_running
from toolyard.client import RemoteToolEngine, RemoteToolRegistry
from toolyard.client.wire import LONGEST_PAUSE, quote_segment
from toolyard.loop.home import home_loop
from toolyard.model.call import ToolCall
from toolyard.model.errors import (
    ConfigError,
    DefinitionError,
    DuplicateToolError,
    Interrupted,
    SessionBusyError,
    SessionError,
    SessionExistsError,
    SourceUnavailable,
    SyncInAsyncError,
    ToolyardError,
    Unavailable,
    UnknownSessionError,
    UnknownToolError,
)

CALLS = [ToolCall("n::echo", {"text": "hi"}, "c1"), ToolCall("n::echo", {"text": "ho"})]
HALF = send_raw(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"results":')
SECRET = "ty_abcdefghijkl_" + "s" * 43
OPTIONS = {"retry_delay": 0.001}


@pytest.fixture
def engine(fake):
    with RemoteToolEngine(fake.url, **OPTIONS) as remote:
        yield remote


def values(results):
    return [result.result for result in results]


@pytest.mark.parametrize("fault", [hang_up, HALF], ids=["no answer", "half an answer"])
@pytest.mark.parametrize("times", [1, 2])
def test_calls_whose_answer_was_lost_are_sent_again_with_the_same_key_and_run_once(fake, engine, fault, times):
    fake.acts[EXECUTE] = [after_running(fake, fault)] * times
    assert values(engine.execute("s", CALLS)) == [{"text": "hi"}, {"text": "ho"}]
    sent = fake.asked(*EXECUTE)
    assert len(sent) == times + 1
    assert len({request.headers["idempotency-key"] for request in sent}) == len(fake.ran) == 1
    assert len({request.body for request in sent}) == 1


async def test_async_calls_are_sent_again_just_so(fake):
    async with await RemoteToolEngine.aopen(fake.url, **OPTIONS) as engine:
        fake.acts[EXECUTE] = [after_running(fake, HALF)]
        assert values(await engine.aexecute("s", CALLS)) == [{"text": "hi"}, {"text": "ho"}]
    assert len(fake.asked(*EXECUTE)) == 2 and len(fake.ran) == 1


def test_every_batch_has_a_key_of_its_own(fake, engine):
    engine.execute("s", CALLS)
    engine.execute("s", CALLS)
    assert len(fake.ran) == 2


def test_what_stays_lost_is_a_result_of_unknown_effect_for_each_call(fake, engine):
    fake.acts[EXECUTE] = [hang_up] * 3
    results = engine.execute("s", CALLS)
    assert [(r.call_id, r.name, r.error_info.code, r.error_info.effect) for r in results] == [
        ("c1", "n::echo", "tool.unavailable", "unknown"),
        (None, "n::echo", "tool.unavailable", "unknown"),
    ]
    assert len(fake.asked(*EXECUTE)) == 3


def test_a_server_that_is_gone_is_a_result_without_effect(fake, engine):
    fake.close()
    results = engine.execute("s", CALLS)
    assert [(r.error_info.code, r.error_info.effect, r.error_info.retryable) for r in results] == [
        ("tool.unavailable", "none", True)
    ] * 2


def test_a_lost_answer_and_then_no_server_leaves_the_effect_unknown(fake, engine):
    def vanish(connection, request):
        fake.stop_listening()
        return False

    fake.acts[EXECUTE] = [vanish]
    results = engine.execute("s", CALLS)
    assert {r.error_info.effect for r in results} == {"unknown"}


def test_what_passed_its_deadline_is_not_sent_again(fake):
    release = threading.Event()
    fake.acts[EXECUTE] = [lambda connection, request: release.wait(SOON) and False]
    with RemoteToolEngine(fake.url, timeout=0.5, request_timeout=1, **OPTIONS) as engine:
        results = engine.execute("s", CALLS)
    release.set()
    assert [(r.error_info.code, r.error_info.effect) for r in results] == [("tool.timeout", "unknown")] * 2
    assert len(fake.asked(*EXECUTE)) == 1


def test_a_server_without_room_is_asked_again_after_the_pause_it_wants(fake, engine):
    busy = respond_error(429, "server.overloaded", "Retry-After: 0.01", retryable=True)
    fake.acts[EXECUTE] = [busy, busy]
    assert values(engine.execute("s", CALLS)) == [{"text": "hi"}, {"text": "ho"}]
    assert len(fake.asked(*EXECUTE)) == 3


@pytest.mark.parametrize("pause", [str(LONGEST_PAUSE + 1), "86400"])
def test_a_long_pause_is_left_to_the_caller(fake, engine, pause):
    fake.acts[EXECUTE] = [respond_error(429, "request.rate_limited", f"Retry-After: {pause}")]
    info = engine.execute("s", CALLS)[0].error_info
    assert (info.code, info.effect, info.retryable, info.retry_after) == (
        "tool.unavailable",
        "none",
        True,
        float(pause),
    )
    assert info.details == {"status": 429, "code": "request.rate_limited"}
    assert len(fake.asked(*EXECUTE)) == 1


@pytest.mark.parametrize("pause", ["nan", "-1", "inf", "Wed, 21 Oct 2015 07:28:00 GMT", ""])
def test_a_pause_that_is_no_number_of_seconds_is_our_own(fake, engine, pause):
    fake.acts[EXECUTE] = [respond_error(429, "request.rate_limited", f"Retry-After: {pause}")]
    assert not any(result.is_error for result in engine.execute("s", CALLS))


def test_asking_for_room_ends(fake, engine):
    fake.acts[EXECUTE] = [respond_error(429, "server.overloaded", "Retry-After: 0")] * 9
    assert {r.error_info.code for r in engine.execute("s", CALLS)} == {"tool.unavailable"}
    assert len(fake.asked(*EXECUTE)) == 3


def test_a_503_is_not_asked_again_and_its_effect_is_unknown(fake, engine):
    fake.acts[EXECUTE] = [respond_error(503, "server.stopping")]
    info = engine.execute("s", CALLS)[0].error_info
    assert (info.code, info.effect, len(fake.asked(*EXECUTE))) == ("tool.unavailable", "unknown", 1)


def test_calls_that_a_server_was_killed_in_are_interrupted(fake, engine):
    fake.acts[EXECUTE] = [respond_error(500, "tool.interrupted", details={"effect": "unknown", "hint": "find out"})]
    info = engine.execute("s", CALLS)[0].error_info
    assert (info.code, info.effect, info.hint) == (Interrupted.code, "unknown", "find out")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "auth.missing", ConfigError),
        (401, "auth.invalid", ConfigError),
        (403, "auth.forbidden", ConfigError),
        (404, "session.not_found", UnknownSessionError),
        (409, "session.exists", SessionExistsError),
        (409, "session.busy", SessionBusyError),
        (503, "session.unavailable", SessionError),
        (400, "request.invalid_shape", DefinitionError),
        (413, "request.too_large", DefinitionError),
        (409, "request.conflict", DefinitionError),
        (404, "route.not_found", ConfigError),
    ],
)
def test_the_programs_mistakes_are_the_exceptions_of_an_engine_in_process(fake, engine, status, code, kind):
    fake.acts[EXECUTE] = [respond_error(status, code, message="just so")]
    with pytest.raises(kind) as wrong:
        engine.execute("s", CALLS)
    assert type(wrong.value) is kind
    assert "just so" in str(wrong.value) or code == "route.not_found"


def test_refusals_about_tools_are_the_exceptions_of_a_registry_in_process(fake, engine):
    fake.acts["DELETE", "/v1/tools/n%3A%3Ax"] = [
        respond_error(404, "tool.not_found"),
        respond_error(409, "tool.exists"),
    ]
    with pytest.raises(UnknownToolError):
        engine.tool_registry.remove("n::x")
    with pytest.raises(DuplicateToolError):
        engine.tool_registry.remove("n::x")


@pytest.mark.parametrize(
    "answer",
    [
        respond(200, b"<html>hello</html>", kind="text/html"),
        respond(404, b"<html>not found</html>", kind="text/html"),
        respond(200, {"hello": "world"}),
        respond(200, []),
        respond(302, b"", "Location: http://example.com/"),
        respond(400, {"error": "no"}),
        respond(500, b"Internal Server Error"),
        respond(204),
    ],
)
def test_a_server_that_is_no_toolyard_server_is_said_to_be_none(fake, answer):
    fake.acts[VERSION] = [answer]
    with pytest.raises(
        (ConfigError, SourceUnavailable), match="not a toolyard server|not as a toolyard server|redirects"
    ):
        RemoteToolRegistry(fake.url)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_without_a_server_behind_it_is_unavailable(fake, status):
    fake.acts[VERSION] = [respond(status, b"<html>bad gateway</html>", kind="text/html")]
    with pytest.raises(SourceUnavailable, match=f"in between answers with {status}"):
        RemoteToolRegistry(fake.url)


def test_a_server_of_another_api_version_is_refused_by_name(fake):
    fake.versions = ["v2", "v3"]
    with pytest.raises(ConfigError, match=r"speaks v2, v3 of the API, and toolyard \S+ speaks v1.*9\.9\.9"):
        RemoteToolRegistry(fake.url)


@pytest.mark.parametrize(
    "answer",
    [
        respond(200, b"not json"),
        respond(200, {"results": []}),
        respond(200, {"results": [{"name": 1}, {}]}),
        respond(200, {"results": {}}),
        respond(200, [1]),
        respond(204),
        respond(200, b'{"results": [], "results": []}'),
    ],
)
def test_an_answer_to_calls_that_makes_no_sense_leaves_their_effect_unknown(fake, engine, answer):
    fake.acts[EXECUTE] = [answer]
    results = engine.execute("s", CALLS)
    assert {(r.error_info.code, r.error_info.effect, r.error_info.retryable) for r in results} == {
        ("tool.unavailable", "unknown", False)
    }


def test_an_answer_over_the_limit_is_a_result_that_names_the_option(fake):
    with RemoteToolEngine(fake.url, max_bytes=5000) as engine:
        fake.acts[EXECUTE] = [respond(200, b" " * 5001)]
        info = engine.execute("s", CALLS)[0].error_info
    assert (info.effect, info.hint) == ("unknown", "ask for less, or allow more with max_bytes=...")


def test_the_key_goes_along_and_is_in_no_text(fake, caplog):
    caplog.set_level(logging.DEBUG)
    told = []
    acts = [
        hang_up,
        respond_error(401, "auth.invalid"),
        respond_error(403, "auth.forbidden"),
        respond(200, b"?"),
        send_raw(b"?\r\n\r\n"),
    ]
    with RemoteToolEngine(fake.url, api_key=SECRET, retries=0) as engine:
        told += [repr(engine), repr(engine.tool_registry), repr(engine.tool_registry.wire)]
        for act in acts:
            fake.acts[EXECUTE] = [act]
            try:
                told.append(repr(engine.execute("s", CALLS)))
            except ToolyardError as error:
                told.append("".join(traceback.format_exception(error)))
    assert {request.headers.get("authorization") for request in fake.requests} == {f"Bearer {SECRET}"}
    assert SECRET not in "".join(told) + caplog.text


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "ключ", 7, "tab\t"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(fake, key):
    with pytest.raises(ConfigError, match="printable ASCII") as wrong:
        RemoteToolRegistry(fake.url, api_key=key)
    assert str(key) not in str(wrong.value) or key == ""


def test_a_missing_key_is_told_how_to_be_given(fake):
    fake.acts[TOOLS] = [respond_error(401, "auth.missing", message="an API key is needed")]
    with pytest.raises(ConfigError, match=r"an API key is needed.*pass api_key="):
        RemoteToolRegistry(fake.url)


def test_on_the_home_loop_the_twin_is_named(fake, engine):
    async def wait_there():
        with pytest.raises(SyncInAsyncError, match="await aexecute"):
            engine.execute("s", CALLS)
        with pytest.raises(SyncInAsyncError, match="await asetup"):
            engine.setup("s")
        with pytest.raises(SyncInAsyncError, match="await adispatch"):
            engine.tool_registry.dispatch("echo", {})
        with pytest.raises(SyncInAsyncError, match="await arefresh"):
            engine.tool_registry.refresh()
        with pytest.raises(SyncInAsyncError, match=r"await RemoteToolRegistry\.aopen"):
            RemoteToolRegistry(fake.url)
        return await engine.aexecute("s", CALLS)

    assert values(home_loop.run(wait_there(), twin="none")) == [{"text": "hi"}, {"text": "ho"}]


@given(st.text(min_size=1).filter(lambda text: text.isprintable() or text.isascii()))
def test_any_text_is_one_segment_of_a_path(text):
    from urllib.parse import unquote

    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    written = quote_segment(text)
    assert unquote(written) == text
    assert written.isascii() and "/" not in written and written not in (".", "..") and "?" not in written


def test_the_time_limit_of_a_registry_is_for_each_request(fake):
    release = threading.Event()
    fake.acts[TOOLS] = [lambda connection, request: release.wait(SOON) and False]
    try:
        with pytest.raises(SourceUnavailable, match="did not answer within 0.1 s"):
            RemoteToolRegistry(fake.url, timeout=0.1)
    finally:
        release.set()


@pytest.mark.parametrize(
    "option",
    [
        *({"timeout": value} for value in (0, -1, float("nan"), float("inf"), "1", True, None)),
        *({"max_bytes": value} for value in (0, -1, 1.5, True)),
        *({"retries": value} for value in (-1, 1.5, True)),
        *({"retry_delay": value} for value in (-1, float("nan"), "1", True)),
    ],
)
def test_an_option_of_no_use_is_a_config_error_that_names_it(fake, option):
    with pytest.raises(ConfigError, match=next(iter(option))):
        RemoteToolRegistry(fake.url, **option)


def test_a_tool_that_is_gone_because_the_first_attempt_arrived_is_removed(fake, engine):
    fake.acts["DELETE", "/v1/tools/n%3A%3Aecho"] = [hang_up, respond_error(404, "tool.not_found")]
    assert [tool.name for tool in engine.tool_registry.remove("n::echo")] == ["echo"]


def test_a_misspelt_option_is_a_type_error(fake):
    with pytest.raises(TypeError, match="retrys"):
        RemoteToolEngine(fake.url, retrys=1)
    with (
        RemoteToolRegistry(fake.url) as registry,
        pytest.raises(TypeError, match="api_key is an option of the registry"),
    ):
        RemoteToolEngine(registry, api_key="x")


def test_unavailable_is_raised_where_there_is_no_result_to_carry_it(fake, engine):
    fake.close()
    with pytest.raises(Unavailable, match="cannot connect"):
        engine.setup("s")
    with pytest.raises(Unavailable, match="cannot connect"):
        engine.tool_registry.dispatch("echo", {})


def test_several_servers_are_told_apart():
    with FakeWire() as one, FakeWire() as two, RemoteToolEngine(one.url) as first, RemoteToolEngine(two.url) as second:
        first.execute("s", CALLS)
        second.execute("s", CALLS[:1])
    assert [len(server.ran) for server in (one, two)] == [1, 1]
