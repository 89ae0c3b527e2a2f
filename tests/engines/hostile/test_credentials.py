"""No credential leaves its origin, or shows up in an error, a log, a trace or a repr."""

import asyncio
import base64
import json
import logging
from contextlib import suppress
from urllib.parse import quote, quote_plus

import pytest
from links.fake_server import respond, send_raw

from conftest import in_pairs
from engines.engine_support import SOON, call
from engines.hostile.hostile_server import DRIPS, HostileServer, clear, one, operation, specification, written
from toolyard import ConfigError, RESTToolLoader, ToolRegistry, Toolyard
from toolyard.calls.sinks import JsonlSink, LoggingSink
from toolyard.calls.tracer import Tracer
from toolyard.engines.rest import RESTToolEngine
from toolyard.words.redactor import Redactor

SECRET = "tok3n+that/must-not=leave"
USER = "keeper"
FORMS = (
    SECRET,
    quote(SECRET, safe=""),
    quote_plus(SECRET),
    base64.b64encode(f"{USER}:{SECRET}".encode()).decode(),
    base64.b64encode(SECRET.encode()).decode(),
)
PAGE = {"200": {"description": "x", "content": {"application/json": {"schema": {"type": "object"}}}}}

SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "key"},
}


def guarded(kind, *, other=None):
    """One operation to read and one to write, both with the credential; and one that is said to be elsewhere."""
    paths = {"/x": {"get": operation("get", responses=PAGE), "post": operation("post", responses=PAGE)}}
    if other is not None:
        paths["/there"] = {"get": operation("there", servers=[{"url": other}])}
    return specification(paths, security=[{"mine": []}], components={"securitySchemes": {"mine": SCHEMES[kind]}})


def auth_of(kind, secret=SECRET, **more):
    """What the engine is told about the credential."""
    if kind == "bearer":
        return {"type": "bearer", "token": secret, **more}
    if kind == "basic":
        return {"type": "basic", "user": USER, "password": secret, **more}
    return {"type": "api_key", "in": kind, "name": SCHEMES[kind]["name"], "value": secret, **more}


def sent_with(request):
    return f"{request.target} {request.headers}"


def holds_secret(text):
    return any(form in text for form in FORMS)


def lines_with_secret(text):
    return [line for line in text.splitlines() if holds_secret(line)]


class Watched:
    """An engine that tells everybody everything, and all that could be seen of it."""

    def __init__(self, make, tmp_path, caplog, document, base_url, **options):
        self._trace = tmp_path / "trace.jsonl"
        self._caplog = caplog
        caplog.set_level(logging.DEBUG)
        sinks = [JsonlSink(self._trace), LoggingSink(level="debug")]
        redactor = Redactor()
        tracer = Tracer(sinks, arguments=True, results=True, redactor=redactor)
        self.engine = make(document, base_url, tracer=tracer, redactor=redactor, retries=0, **options)
        self.seen = [repr(self.engine), repr(self.engine.tool_registry), repr(self.engine.tool_registry.all_tools())]
        self.seen += [
            repr(vars(tool.binding) if hasattr(tool.binding, "__dict__") else tool.binding)
            for tool in self.engine.tool_registry
        ]

    def ask(self, *calls):
        """All of them twice, by both ways; the engine is closed then."""
        self.engine.setup("s")
        results = [*self.engine.execute("s", calls), *asyncio.run(self._aask(calls))]
        self.seen += [f"{result!r} {result.to_dict()} {result.error_info}" for result in results]
        return results

    async def _aask(self, calls):
        async with self.engine as engine:
            results = await engine.aexecute("s", calls)
            self.seen += [json.dumps(engine.get_session_state("s")), engine.state_hash("s")]
        return results

    def told(self):
        """What logs and the trace have."""
        records = [f"{record.getMessage()} {record.__dict__}" for record in self._caplog.records]
        return "\n".join([*records, self._trace.read_text()])

    def everything(self):
        return "\n".join([*self.seen, self.told()])


@pytest.fixture
def watched(make, tmp_path, caplog):
    return lambda document, base_url, **options: Watched(make, tmp_path, caplog, document, base_url, **options)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", SCHEMES)
def test_a_redirect_to_another_origin_takes_no_credential_along(server, evil, watched, kind, status):
    server.otherwise = lambda request: respond(status, b"", f"Location: {evil.url}/steal?key={quote(SECRET)}")
    yard = watched(guarded(kind), server.url, auth=auth_of(kind))
    for result in yard.ask(call("get"), call("post")):
        clear(result, "tool.denied", "tool.execution_error")
    assert len(server.requests) == 4 and all(holds_secret(sent_with(request)) for request in server.requests)
    assert lines_with_secret(yard.everything()) == []


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_credential_goes_to_its_own_origin_alone(server, watched, kind):
    """Even where the operator allows another host, and the specification asks for the same credential there."""
    server.otherwise = lambda request: respond(200, {})
    with HostileServer() as other:
        document = guarded(kind, other=other.url) | {"servers": [{"url": server.url}]}
        auth = auth_of(kind, origin=server.url)
        yard = watched(document, None, auth=auth, allow_networks=["127.0.0.0/8"])
        yard.ask(call("get"), call("there"))
        assert server.requests and all(holds_secret(sent_with(request)) for request in server.requests)
        assert not any(holds_secret(sent_with(request)) for request in other.requests)
    assert lines_with_secret(yard.everything()) == []


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_credential_without_an_origin_goes_nowhere_that_only_the_specification_names(server, watched, kind):
    document = guarded(kind) | {"servers": [{"url": server.url}]}
    yard = watched(document, None, auth=auth_of(kind), allow_networks=["127.0.0.0/8"])
    yard.ask(call("get"), call("post"))
    assert not any(holds_secret(sent_with(request)) for request in server.requests)
    assert lines_with_secret(yard.everything()) == []


def test_a_secret_for_tokens_goes_where_the_operator_says_and_not_the_specification(server, evil, watched):
    flow = {"tokenUrl": f"{evil.url}/token", "scopes": {}}
    document = guarded("bearer")
    document["components"]["securitySchemes"]["mine"] = {"type": "oauth2", "flows": {"clientCredentials": flow}}
    granted = {"access_token": "gr4nted-" + SECRET, "token_type": "bearer", "expires_in": 3600}
    server.otherwise = lambda request: (
        respond(200, granted) if request.path == "/token" else _echo(403, "body")(request)
    )
    auth = {"type": "oauth2", "token_url": f"{server.url}/token", "client_id": "me", "client_secret": SECRET}
    yard = watched(document, server.url, auth=auth)
    for result in yard.ask(call("get"), call("post")):
        clear(result, "tool.execution_error")
    assert [request.path for request in server.requests].count("/token") == 1
    assert server.asked("GET", "/x")[0].headers["authorization"] == "Bearer gr4nted-" + SECRET
    assert lines_with_secret(yard.everything()) == []


def _echo(status, where):
    def act(request):
        said = f"{request.target} {request.headers}"
        if where == "body":
            return respond(status, {"error": said, "again": said[:40]})
        if where == "text":
            return respond(status, said.encode(), kind="text/plain")
        if where == "reason":
            return send_raw(f"HTTP/1.1 {status} {said}\r\nContent-Length: 0\r\n\r\n".encode())
        return respond(status, b"{", f"Retry-After: {said}", f"WWW-Authenticate: {said}", kind=f"x/{said}")

    return act


@in_pairs(kind=SCHEMES, where=["body", "text", "reason", "headers"], status=[401, 429, 500])
def test_a_server_that_echoes_the_credential_in_an_error_does_not_make_it_known(server, watched, kind, status, where):
    server.otherwise = _echo(status, where)
    yard = watched(guarded(kind), server.url, auth=auth_of(kind))
    assert all(result.is_error for result in yard.ask(call("get"), call("post")))
    assert any(holds_secret(sent_with(request)) for request in server.requests)
    assert lines_with_secret(yard.everything()) == []


FAULTS = {
    "refused": None,
    "hung up": send_raw(b""),
    "cut short": send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
    "no HTTP": send_raw(b"220 smtp ready\r\n"),
    "no JSON": respond(200, b"{"),
    "late": DRIPS["headers"],
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", SCHEMES)
def test_no_fault_shows_the_credential(server, watched, kind, fault):
    server.otherwise = lambda request: FAULTS[fault]
    if fault == "refused":
        server.close()
    yard = watched(guarded(kind), server.url, auth=auth_of(kind), timeout=0.2 if fault == "late" else SOON)
    assert all(result.is_error for result in yard.ask(call("get"), call("post")))
    assert lines_with_secret(yard.everything()) == []


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_credential_of_a_session_is_as_well_kept(server, watched, kind):
    server.otherwise = _echo(403, "body")
    yard = watched(guarded(kind), server.url)
    yard.engine.set_credentials("s", auth_of(kind))
    assert all(result.is_error for result in yard.ask(call("get"), call("post")))
    assert len(server.requests) == 4 and all(holds_secret(sent_with(request)) for request in server.requests)
    assert lines_with_secret(yard.everything()) == []


@pytest.mark.parametrize("way", ["the engine's", "the session's"])
@pytest.mark.parametrize("kind", SCHEMES)
def test_an_answer_made_of_the_credential_is_not_traced_with_it(server, watched, kind, way):
    """An answer is the caller's, and so is what a service puts into it; logs and traces are read by others."""
    server.otherwise = _echo(200, "body")
    yard = watched(guarded(kind), server.url, **({"auth": auth_of(kind)} if way == "the engine's" else {}))
    if way == "the session's":
        yard.engine.set_credentials("s", auth_of(kind))
    assert not any(result.is_error for result in yard.ask(call("get"), call("post")))
    assert lines_with_secret(yard.told()) == []


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("kind", SCHEMES)
def test_a_credential_of_a_config_shows_nowhere(server, tmp_path, caplog, kind, literal):
    caplog.set_level(logging.DEBUG)
    server.otherwise = _echo(200, "body")
    spec = str(written(tmp_path, guarded(kind)))
    trace = tmp_path / "trace.jsonl"
    source = {"type": "rest", "spec": spec, "namespace": "n", "base_url": server.url, "engine": "api"}
    auth = auth_of(kind, SECRET if literal else "${KEY}")
    told = {"logging": {"level": "debug"}, "jsonl": {"path": str(trace)}, "arguments": True, "results": True}
    config = {"tools": {"registry": [source], "engines": {"api": {"type": "rest", "auth": auth}}}, "tracing": told}
    with Toolyard.from_config(config, env={"KEY": SECRET}) as yard:
        yard.tool_engine.setup("s")
        result = one(yard.tool_engine.execute("s", [call("get")]))
        shown = f"{yard!r} {yard.tool_engine!r} {vars(yard.tool_engine)}"
    assert not result.is_error and holds_secret(sent_with(one(server.requests)))
    records = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert not holds_secret("\n".join([shown, *records, trace.read_text()]))


@pytest.mark.parametrize(
    "fault", [{"type": "bearer", "tokn": SECRET}, {"type": "bearer", "token": f"{SECRET}\n"}, SECRET, [SECRET]]
)
def test_a_credential_that_is_wrongly_written_is_not_quoted(make, fault):
    with pytest.raises(ConfigError) as refused:
        make(guarded("bearer"), "https://api.example.com", auth=fault)
    assert not holds_secret(
        f"{refused.value} {refused.value!r} {refused.value.__cause__} {refused.value.__context__!r}"
    )


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("engine", [{}, {"engine": "api"}], ids=["no engine", "the same engine"])
def test_a_credential_of_a_config_does_not_go_to_every_service_that_it_names(server, tmp_path, kind, engine):
    """One without an origin is for one service; which of two, nobody can say but the operator."""
    spec = str(written(tmp_path, guarded(kind)))
    first = {"type": "rest", "spec": spec, "namespace": "n", "base_url": server.url, "engine": "api"}
    with HostileServer() as other:
        second = {
            "type": "rest",
            "spec": str(written(tmp_path, guarded(kind), "other.json")),
            "namespace": "other",
            "base_url": other.url,
        }
        config = {
            "tools": {"registry": [first, second | engine], "engines": {"api": {"type": "rest", "auth": auth_of(kind)}}}
        }
        with suppress(ConfigError), Toolyard.from_config(config) as yard:
            yard.tool_engine.setup("s")
            yard.tool_engine.execute("s", [call("n::get"), call("other::get")])
        assert not any(holds_secret(sent_with(request)) for request in other.requests)


def test_a_source_that_may_reach_a_private_host_does_not_send_it_the_credential_for_another(server, tmp_path):
    """`allow_hosts` of a source says what may be called, not who is to be told secrets."""
    with HostileServer() as other:
        loader = RESTToolLoader(
            written(tmp_path, guarded("bearer", other=other.url) | {"servers": [{"url": other.url}]}),
            "n",
            allow_hosts=[f"127.0.0.1:{other.port}"],
        )
        with RESTToolEngine(ToolRegistry.from_loaders([loader]), auth=auth_of("bearer")) as engine:
            engine.setup("s")
            engine.execute("s", [call("get"), call("there")])
        assert not any(holds_secret(sent_with(request)) for request in other.requests)
