"""A mistake in a constructor raises there, as an error that names what is wrong, and not at the first call."""

import pytest

from toolyard import (
    ConfigError,
    DomainToolLoader,
    FileToolLoader,
    FilterToolLoader,
    InlineToolLoader,
    LMToolEngine,
    MCPConfigToolLoader,
    MCPToolEngine,
    MCPToolLoader,
    MultiToolEngine,
    Policy,
    PythonToolEngine,
    PythonToolLoader,
    Redactor,
    RenameToolLoader,
    ReplayToolEngine,
    RESTToolEngine,
    RESTToolLoader,
    ScriptToolEngine,
    ScriptToolLoader,
    Sessions,
    Tool,
    ToolEngine,
    ToolRegistry,
    Toolyard,
    ToolyardError,
    Tracer,
    function_tool,
    get_tool_engine,
    get_tool_sampler,
)

ENGINES = [
    *(ToolEngine, PythonToolEngine, ScriptToolEngine, RESTToolEngine, MCPToolEngine, LMToolEngine, MultiToolEngine),
]


class NoClose:
    """What somebody writes who has seen only `load`."""

    def load(self):
        return []


def engine():
    return PythonToolEngine(ToolRegistry())


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("registry", 5), ("registry", []), ("registry", "tools.yaml"), ("sessions", 5), ("sessions", "sqlite")),
        *(("policy", {"default": "deny"}), ("tracer", 5), ("redactor", ["secret"]), ("name", 5), ("name", "")),
        *(("name", "tool_executions"), ("name", "setup"), ("timeout", "soon"), ("timeout", 0), ("threads", 0)),
        *(("output_check", "loose"), ("retries", -1), ("namespaces", "shop"), ("namespaces", [5]), ("faults", 5)),
    ],
)
def test_no_engine_takes_a_part_that_is_none(kind, option, value):
    with pytest.raises(ConfigError, match=option if option != "name" else "called"):
        kind(**{option: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiToolEngine({"shop": 5}),
        lambda: MultiToolEngine({5: engine()}),
        lambda: MultiToolEngine(ToolRegistry(), [engine()]),
        lambda: MultiToolEngine({"shop": engine()}, {"shop": engine()}),
        lambda: MultiToolEngine(sources={"a": "python"}),
        lambda: MultiToolEngine(bindings={"rest": engine()}),
        lambda: MultiToolEngine(default="python"),
        lambda: RESTToolEngine(simulate_with=5),
        lambda: RESTToolEngine(max_response_bytes="x"),
        lambda: LMToolEngine(instruction=5),
        lambda: LMToolEngine(lm_config=5),
        lambda: ReplayToolEngine(cassette="t.jsonl", mode="record", engine=5),
        lambda: ReplayToolEngine(cassette="t.jsonl", repeat="often"),
        lambda: ToolRegistry([5]),
        lambda: ToolRegistry([{"name": "a"}]),
        lambda: ToolRegistry([Tool("a", "n")], enrichments=[5]),
        lambda: ToolRegistry.from_loaders([NoClose()]),
        lambda: ToolRegistry.from_loaders([FileToolLoader]),
        lambda: ToolRegistry.from_loaders([5]),
        lambda: ToolRegistry().attach(NoClose()),
        lambda: FilterToolLoader(NoClose()),
        lambda: FileToolLoader("a.json", namespace=5),
        lambda: FileToolLoader("a.json", namespace="a::b"),
        lambda: FileToolLoader("a.json", max_bytes="1MB"),
        lambda: FileToolLoader("a.json", on_error="ignore"),
        lambda: FileToolLoader("a.txt"),
        lambda: InlineToolLoader(5),
        lambda: InlineToolLoader("get_weather"),
        lambda: InlineToolLoader([], namespace=5),
        lambda: PythonToolLoader(None),
        lambda: PythonToolLoader({"a": len}),
        lambda: PythonToolLoader("math", namespace=5),
        lambda: ScriptToolLoader("tools", namespace=5),
        lambda: ScriptToolLoader("tools", workers=0),
        lambda: DomainToolLoader(5),
        lambda: RESTToolLoader("spec.json", timeout="x"),
        lambda: RESTToolLoader("spec.json", max_bytes=0),
        lambda: RESTToolLoader("spec.json", headers={"a": 5}),
        lambda: RESTToolLoader("spec.json", server_variables={"a": 5}),
        lambda: RESTToolLoader("spec.json", allow_hosts="localhost"),
        lambda: RESTToolLoader("spec.json", base_url=5),
        lambda: MCPToolLoader(namespace="a"),
        lambda: MCPToolLoader("http://127.0.0.1:9", namespace="a", max_tools="x"),
        lambda: MCPConfigToolLoader("servers.json", timeout="x"),
        lambda: Sessions(5),
        lambda: Sessions(ttl="1h"),
        lambda: Sessions(max_open=0),
        lambda: Toolyard(ToolRegistry(), 5),
        lambda: Toolyard("yard.yaml"),
        lambda: Policy([{"deny": "*"}]),
        lambda: Policy(budgets=[3]),
        lambda: Policy(approver=True),
        lambda: Tracer([print]),
        lambda: FileToolLoader("a.json", ["n"]),
        lambda: RenameToolLoader(FileToolLoader("a.json"), "b"),
        lambda: PythonToolLoader(Tool("a", "n")),
        lambda: function_tool(Tool("a", "n"), namespace="n"),
        lambda: get_tool_engine("rest", ToolRegistry()),
        lambda: get_tool_sampler("tc/random", registry=5),
        lambda: get_tool_sampler("tc/chain", registry=5),
    ],
)
def test_a_wrong_thing_is_refused_where_it_is_given(make):
    with pytest.raises(ToolyardError):
        make()


@pytest.mark.parametrize(
    "make",
    [FileToolLoader, ScriptToolLoader, RESTToolLoader, MCPConfigToolLoader, Toolyard.from_config, ToolRegistry],
)
def test_what_is_no_place_at_all_is_a_type_error_at_once(make):
    with pytest.raises(TypeError):
        make(5)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        *((ToolRegistry, "tools"), (ToolRegistry.from_loaders, "loaders"), (ToolRegistry.from_dicts, "tools")),
        *((Policy, "rules"), (Redactor, "secrets"), (Tracer, "sinks")),
        (lambda given: Policy(budgets=given), "budgets"),
        (lambda given: ToolRegistry(enrichments=given), "enrichments"),
    ],
)
def test_one_thing_a_text_or_a_mapping_is_no_list(make, what):
    for given in (object(), "text", {"a": 1}):
        with pytest.raises(TypeError, match=f"expected a list of {what}"):
            make(given)


def test_a_registry_that_is_refused_a_loader_closes_none_that_it_never_had():
    class Mine(NoClose):
        closed = False

        def close(self):
            self.closed = True

    mine = Mine()
    with pytest.raises(ConfigError, match="'source'.*ToolLoader"):
        ToolRegistry.from_loaders([mine])
    assert not mine.closed
