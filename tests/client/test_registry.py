"""`RemoteToolRegistry` against the real service: it behaves as a `ToolRegistry` in process."""

import asyncio
import inspect
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from client.served import served
from client.yard import make_registry
from conftest import examples
from toolyard import Effects, PythonToolEngine, RestBinding, Tool, ToolCall, ToolContext, ToolRegistry, function_tool
from toolyard.client import RemoteToolRegistry
from toolyard.model.bindings import RestParameter
from toolyard.model.errors import (
    ConfigError,
    DefinitionError,
    DuplicateToolError,
    InvalidArguments,
    InvalidNameError,
    NoEngine,
    ToolFailed,
    ToolyardError,
    UnknownToolError,
)
from toolyard.model.names import check_tool_name
from toolyard.serving.identity import read_scopes


@pytest.fixture(scope="module")
def local():
    return make_registry()


@pytest.fixture(scope="module")
def service(local):
    with served(make_registry()) as running:
        yield running


@pytest.fixture
def remote(service):
    with RemoteToolRegistry(service.url) as registry:
        yield registry


def test_it_is_a_tool_registry_with_the_same_methods(remote):
    assert isinstance(remote, ToolRegistry)
    for name, method in inspect.getmembers(ToolRegistry, inspect.isfunction):
        if not name.startswith("_") and name != "attach":
            assert (
                inspect.signature(getattr(RemoteToolRegistry, name)).parameters == inspect.signature(method).parameters
            )
    awaited = {"adispatch", "arefresh", "areload", "aserver_report", "aadd", "aremove", "aclose"}
    assert all(inspect.iscoroutinefunction(getattr(RemoteToolRegistry, name)) for name in awaited)


@pytest.mark.parametrize(
    "ask",
    [
        len,
        list,
        lambda registry: registry.namespaces(),
        lambda registry: registry.tool_names(),
        lambda registry: registry.tool_names("desk"),
        lambda registry: registry.all_tools(),
        lambda registry: registry.get("desk::overloaded"),
        lambda registry: registry.get("desk::plus"),
        lambda registry: registry.get("desk::nothing"),
        lambda registry: "desk::add" in registry,
        lambda registry: "desk::nothing" in registry,
        lambda registry: [tool.definition_hash for tool in registry],
        lambda registry: [tool.fingerprint for tool in registry],
        lambda registry: registry.match(ToolCall("desk::overloaded", {"city": "Rome"})).fingerprint,
        lambda registry: registry.match(ToolCall("desk::overloaded", {"lat": "1", "lon": 2})).fingerprint,
        lambda registry: registry.match(ToolCall("desk::overloaded", {"nonsense": 2})),
        lambda registry: registry.match(ToolCall("desk::nothing")),
        lambda registry: dict(registry.artifacts),
    ],
)
def test_it_says_of_tools_what_the_registry_in_process_says(local, remote, ask):
    assert ask(remote) == ask(local)


def test_its_dicts_are_those_of_the_registry_in_process(local, remote):
    for qualified in (False, True):
        assert remote.to_dicts(qualified) == local.to_dicts(qualified)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("desk::add", {"a": 2, "b": 3}),
        ("add", {"a": 2, "b": 3}),
        ("desk::plus", {"a": 2, "b": 3}),
        ("desk::add", '{"a": 2, "b": 3}'),
        ("desk::overloaded", {"city": "Rome"}),
        ("desk::overloaded", {"lat": 1.5, "lon": 2}),
        ("desk::greet", None),
        ("wörk/shop::größe 100%", {"value": "ä\u0000ö"}),
    ],
)
def test_dispatch_gives_the_value_that_dispatch_in_process_gives(local, remote, name, arguments):
    assert remote.dispatch(name, arguments) == local.dispatch(name, arguments)
    assert asyncio.run(remote.adispatch(name, arguments)) == local.dispatch(name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("desk::nothing", {}, UnknownToolError),
        ("twice", {}, UnknownToolError),
        ("desk::add", {"a": "2", "b": 3}, InvalidArguments),
        ("desk::add", {"a": 2}, InvalidArguments),
        ("desk::add", "{", InvalidArguments),
        ("desk::add", [], InvalidArguments),
        ("desk::overloaded", {"city": 7}, InvalidArguments),
        ("desk::refuse", {"reason": "because"}, ToolFailed),
        ("desk::unanswered", {}, NoEngine),
    ],
)
def test_dispatch_raises_what_dispatch_in_process_raises(local, remote, name, arguments, kind):
    with pytest.raises(kind) as here:
        local.dispatch(name, arguments)
    with pytest.raises(kind) as there:
        remote.dispatch(name, arguments)
    assert (there.value.info.code, there.value.info.effect) == (here.value.info.code, here.value.info.effect)
    if kind is not NoEngine:
        assert str(there.value) == str(here.value)


def test_dispatch_hands_context_and_trace_on(remote):
    ctx = ToolContext(tool=Tool("x", "y"), context={"locale": "de"}, trace={"flow_id": "f1"})
    assert remote.dispatch("desk::context", {}, ctx=ctx) == {"context": {"locale": "de"}, "trace": {"flow_id": "f1"}}


@pytest.fixture
def changing():
    """A server of its own, whose tools a test may change."""
    registry = make_registry()
    with served(registry) as running, RemoteToolRegistry(running.url) as remote:
        yield registry, remote


def test_add_and_remove_change_the_servers_registry(changing):
    server, remote = changing
    tool = Tool("size of/it", "späce", "How large.", {"type": "object"}, version="2", tags=("x",), effects=Effects.READ)
    remote.add(tool, tool.replace(name="100%"))
    assert [found.replace(source=None) for found in remote.get("späce::size of/it")] == [tool]
    assert "späce::100%" in server
    assert remote.remove("späce::100%") == [tool.replace(name="100%")]
    assert "späce::100%" not in server
    assert "späce::100%" not in remote
    # Unlike in process, it may come back: the server knows best.
    remote.add(tool.replace(name="100%"))
    assert "späce::100%" in remote


async def test_add_and_remove_have_twins(changing):
    server, remote = changing
    await remote.aadd(Tool("x", "later", parameters={"type": "object"}))
    assert "later::x" in server
    assert [tool.name for tool in await remote.aremove("later::x")] == ["x"]
    assert "later::x" not in server
    await remote.areload()
    assert (await remote.aserver_report()).loaded == len(server)
    await remote.aclose()


def test_a_binding_that_is_data_goes_along(changing):
    server, remote = changing
    binding = RestBinding(
        "GET",
        "/things/{id}",
        "https://api.example",
        (RestParameter(argument="id", name="id", location="path"),),
    )
    remote.add(Tool("thing", "rest", parameters={"type": "object"}, binding=binding))
    assert server.get("rest::thing")[0].binding == binding


def test_code_is_never_sent(changing):
    _, remote = changing
    with pytest.raises(ConfigError, match="code in this process"):
        remote.add(function_tool(lambda: 1, namespace="n", name="f"))


def test_add_is_all_or_nothing(changing):
    server, remote = changing
    good = Tool("good", "n", parameters={"type": "object"})
    before = server.tool_names()
    bad_schema = Tool("bad", "n", parameters={"type": "object", "properties": {"a": {"$ref": "http://x/"}}})
    for bad in (bad_schema, good, make_registry().get("desk::add")[0].replace(binding=None)):
        with pytest.raises(DefinitionError):
            remote.add(good, bad)
        assert server.tool_names() == before
    with pytest.raises(InvalidNameError):
        remote.add(good, Tool("a::b", "n"))
    with pytest.raises(DuplicateToolError, match="remove"):
        remote.add(make_registry().get("desk::add")[0].replace(binding=None))


def test_removing_what_is_not_there_or_belongs_to_the_config_is_refused(changing):
    server, remote = changing
    with pytest.raises(UnknownToolError):
        remote.remove("n::nothing")
    with pytest.raises(ToolyardError, match="desk::add"):
        remote.remove("desk::add")
    assert "desk::add" in server


def test_a_loader_cannot_be_attached(remote):
    closed = []

    class Loader:
        def close(self):
            closed.append(True)

    with pytest.raises(ConfigError, match="attach the loader there"):
        remote.attach(Loader())
    assert closed == [True]


def test_it_is_not_made_of_sources_of_its_own():
    with pytest.raises(ConfigError, match="its server's address"):
        RemoteToolRegistry.from_dicts([{"name": "x"}])


def test_the_servers_own_report_can_be_had(changing):
    server, remote = changing
    assert remote.server_report().loaded == len(server)
    assert remote.reload().loaded == len(server)
    assert remote.report.sources[0].source == remote.url


def test_tools_stay_readable_after_close(service):
    with RemoteToolRegistry(service.url) as registry:
        pass
    assert "desk::add" in registry
    with pytest.raises(ToolyardError, match="closed"):
        registry.dispatch("desk::add", {"a": 1, "b": 2})
    with pytest.raises(ToolyardError, match="closed"):
        registry.refresh()


NAMES = st.text(st.sampled_from("aZ9_-./ %?#&+=:äß中日;@!*'()[]{}|\\^~`\"<>,"), min_size=1, max_size=20)


def acceptable(name):
    try:
        check_tool_name(name)
    except InvalidNameError:
        return False
    return True


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES.filter(acceptable))
def test_any_name_the_grammar_allows_travels(changing, name):
    server, remote = changing
    remote.add(Tool(name, "n", "Odd.", {"type": "object"}))
    try:
        assert [tool.name for tool in remote.get(f"n::{name}")] == [name]
        assert f"n::{name}" in server
        with pytest.raises(NoEngine):
            remote.dispatch(f"n::{name}", {})
    finally:
        remote.remove(f"n::{name}")
    assert f"n::{name}" not in server


def test_a_key_sees_what_its_scopes_allow(local):
    with served(make_registry()) as service:
        _, all_of_it = service.keys.create("all", read_scopes(["*:*"]))
        _, some = service.keys.create("some", read_scopes(["desk:list,execute"]))
        with pytest.raises(ConfigError, match="api_key"):
            RemoteToolRegistry(service.url)
        with pytest.raises(ConfigError) as wrong:
            RemoteToolRegistry(service.url, api_key=some[:-1] + ("A" if some[-1] != "A" else "B"))
        assert some[20:] not in str(wrong.value)
        with RemoteToolRegistry(service.url, api_key=all_of_it) as registry:
            assert registry.namespaces() == local.namespaces()
        with RemoteToolRegistry(service.url, api_key=some) as registry:
            assert registry.namespaces() == ["desk"]
            assert registry.dispatch("desk::add", {"a": 1, "b": 1}) == 2
            for change in (lambda: registry.add(Tool("x", "desk")), lambda: registry.reload()):
                with pytest.raises(ConfigError, match=r"auth\.forbidden"):
                    change()


def test_a_large_catalog_is_read_page_by_page():
    tools = [Tool(f"t{number}", f"n{number % 7}", "x", {"type": "object"}) for number in range(2345)]
    registry = ToolRegistry(tools)
    with served(registry, engine=PythonToolEngine(registry)) as running, RemoteToolRegistry(running.url) as remote:
        assert remote.all_tools() == registry.all_tools()


@pytest.mark.process
def test_importing_the_client_imports_no_http_library():
    code = (
        "import sys, toolyard, toolyard.client\n"
        "from toolyard.client import RemoteToolEngine, RemoteToolRegistry\n"
        "assert not {'httpx2', 'httpcore2', 'anyio', 'h11'} & set(sys.modules), 'too heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(ImportError):
        from toolyard.client import Nothing  # noqa: F401
