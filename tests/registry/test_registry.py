import json
from datetime import date

import pytest

from toolyard import (
    DefinitionError,
    DuplicateToolError,
    EnrichmentError,
    FileToolLoader,
    InlineToolLoader,
    InvalidNameError,
    InvalidSchemaError,
    MalformedSource,
    SourceError,
    SourceUnavailable,
    Tool,
    ToolCall,
    ToolLoader,
    ToolRegistry,
    UnknownToolError,
)

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLACE = {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}


def tool(name="get", namespace="ns", parameters=CITY, **more):
    return Tool(name, namespace, "", parameters, **more)


class Listed(ToolLoader):
    """A loader whose answers a test can set."""

    def __init__(self, *tools, on_error="raise", on_duplicate="raise"):
        self.tools = list(tools)
        self.failure = None
        self.closed = False
        self._set_policies(on_error, on_duplicate)

    def load(self):
        if self.failure:
            raise self.failure
        return list(self.tools)

    def close(self):
        self.closed = True


def test_iteration_is_in_registration_order_and_the_views_agree():
    registry = ToolRegistry([tool("b"), tool("a"), tool("b", "other"), tool("b", parameters=PLACE)])
    assert [t.qualified_name for t in registry] == ["ns::b", "ns::a", "other::b", "ns::b"]
    assert len(registry) == 4
    assert registry.namespaces() == ["ns", "other"]
    assert registry.tool_names() == ["a", "b"]
    assert registry.tool_names("other") == ["b"]
    assert "ns::a" in registry
    assert "ns::c" not in registry
    assert [t.parameters for t in registry.get("ns::b")] == [CITY, PLACE]
    assert registry.get("ns::none") == []
    assert registry.to_dicts(qualified=True)[2]["name"] == "other::b"


def test_an_identical_schema_under_one_name_is_a_duplicate_with_the_seeds_words_and_both_origins():
    one, two = tool(source="a.yaml"), tool(source="b.yaml").replace(description="other words")
    with pytest.raises(DuplicateToolError) as caught:
        ToolRegistry([one, two])
    assert "duplicate tool: ns::get with identical input schema registered twice" in str(caught.value)
    assert "a.yaml" in str(caught.value)
    assert "b.yaml" in str(caught.value)


def test_twins_that_are_added_in_code_are_said_to_be():
    for add in (lambda: ToolRegistry([tool(), tool()]), lambda: ToolRegistry([tool()]).add(tool())):
        with pytest.raises(DuplicateToolError, match=r"twice \(both added in code\); give one of them another name"):
            add()


def test_a_source_given_twice_is_reported_by_its_positions(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({name[0]: [{"name": "get", "parameters": CITY}]}))
    loaders = [FileToolLoader(tmp_path / name) for name in ("b.json", "a.json", "b.json", "a.json")]
    with pytest.raises(DuplicateToolError, match=r"sources \[0\] and \[2\].*namespace.*`on_duplicate: skip`"):
        ToolRegistry.from_loaders(loaders)
    registry = ToolRegistry.from_loaders(loaders[:2])
    with pytest.raises(DuplicateToolError, match=r"sources \[1\] and \[2\]"):
        registry.attach(loaders[3])


def test_key_order_does_not_make_an_overload():
    reordered = {"required": ["city"], "properties": {"city": {"type": "string"}}, "type": "object"}
    with pytest.raises(DuplicateToolError):
        ToolRegistry([tool(), tool(parameters=reordered)])


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (tool("a::b"), InvalidNameError),
        (tool(namespace=""), InvalidNameError),
        (tool(parameters={"type": "strng"}), InvalidSchemaError),
        (tool(parameters={"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}), InvalidSchemaError),
        (tool(aliases=("x\u200b",)), InvalidNameError),
        ("get", DefinitionError),
    ],
)
def test_construction_refuses_what_is_inconsistent(bad, error):
    with pytest.raises(error):
        ToolRegistry([tool("fine"), bad])


def test_the_registry_keeps_its_own_copy_of_a_callers_schema():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    registry = ToolRegistry([tool(parameters=schema)])
    schema["properties"]["city"]["type"] = "integer"
    assert registry.match(ToolCall("ns::get", {"city": "Rome"})) is not None


def test_dialect_rewrites_are_listed_in_the_report():
    registry = ToolRegistry([tool(parameters={"type": "dict", "properties": {"a": {"type": "float"}}})])
    assert registry.all_tools()[0].parameters == {"type": "object", "properties": {"a": {"type": "number"}}}
    assert {r.change for r in registry.report.rewrites} == {
        "type 'dict' read as 'object'",
        "type 'float' read as 'number'",
    }


def test_add_is_all_or_nothing_and_counts_a_generation():
    registry = ToolRegistry([tool("a")])
    before = registry.snapshot
    with pytest.raises(DuplicateToolError):
        registry.add(tool("b"), tool("a"))
    assert registry.snapshot is before
    registry.add(tool("b"), tool("c"))
    assert registry.generation == before.generation + 1
    assert registry.tool_names() == ["a", "b", "c"]


def test_remove_takes_every_overload_and_it_stays_removed_on_refresh():
    loader = Listed(tool("a"), tool("a", parameters=PLACE), tool("b"))
    registry = ToolRegistry.from_loaders([loader])
    assert len(registry.remove("ns::a")) == 2
    registry.refresh()
    assert registry.tool_names() == ["b"]
    registry.add(tool("a"))
    assert registry.tool_names() == ["a", "b"]
    with pytest.raises(UnknownToolError):
        registry.remove("ns::zzz")


def test_refresh_adds_new_tools_and_removes_deleted_ones():
    loader = Listed(tool("a"), tool("b"))
    registry = ToolRegistry.from_loaders([loader])
    registry.add(tool("mine"))
    loader.tools = [tool("b"), tool("c")]
    report = registry.refresh()
    assert registry.tool_names() == ["b", "c", "mine"]
    assert report.ok


def test_a_source_that_fails_on_refresh_keeps_its_last_good_tools_and_is_marked_stale():
    good, bad = Listed(tool("a")), Listed(tool("b"))
    registry = ToolRegistry.from_loaders([good, bad])
    good.tools = [tool("a2")]
    bad.failure = SourceUnavailable("server gone")
    report = registry.refresh()
    assert registry.tool_names() == ["a2", "b"]
    assert [s.state for s in report.sources] == ["ok", "stale"]
    assert "server gone" in report.sources[1].error
    bad.failure = None
    assert registry.refresh().ok


def test_a_strict_refresh_raises_and_changes_nothing():
    good, bad = Listed(tool("a")), Listed(tool("b"))
    registry = ToolRegistry.from_loaders([good, bad])
    good.tools = [tool("a2")]
    bad.failure = SourceUnavailable("server gone")
    before = registry.snapshot
    with pytest.raises(SourceUnavailable):
        registry.refresh(strict=True)
    assert registry.snapshot is before


def test_if_sources_conflict_on_refresh_the_later_one_is_stale():
    one, two = Listed(tool("a")), Listed(tool("b"))
    registry = ToolRegistry.from_loaders([one, two])
    two.tools = [tool("a"), tool("c")]
    report = registry.refresh()
    assert registry.tool_names() == ["a", "b"]
    assert [s.state for s in report.sources] == ["ok", "stale"]
    one.tools = [tool("a"), tool("b")]
    two.tools = [tool("b")]
    report = registry.refresh()
    assert registry.tool_names() == ["a", "b"]
    assert "stale" in [s.state for s in report.sources]


def test_on_duplicate_skip_keeps_the_first_and_lists_the_duplicate():
    registry = ToolRegistry.from_loaders([Listed(tool("a")), Listed(tool("a"), tool("b"), on_duplicate="skip")])
    assert len(registry) == 2
    assert [r.tool for r in registry.report.rejected] == ["ns::a"]
    assert registry.report.rejected[0].error == "DuplicateToolError"
    reason = registry.report.rejected[0].reason
    assert reason.endswith("; the first is kept") and "on_duplicate" not in reason, "it is set already"


def test_on_error_skip_lists_the_bad_entry_and_raise_is_the_default():
    bad = tool("x", parameters={"type": "strng"})
    registry = ToolRegistry.from_loaders([Listed(tool("a"), bad, on_error="skip")])
    assert registry.tool_names() == ["a"]
    assert registry.report.sources[0].entries == 2
    with pytest.raises(MalformedSource, match="strng"):
        ToolRegistry.from_loaders([Listed(tool("a"), bad)])


def test_when_one_of_several_loaders_fails_at_construction_all_are_closed():
    good, bad = Listed(tool("a")), Listed()
    bad.failure = SourceUnavailable("no")
    with pytest.raises(SourceUnavailable):
        ToolRegistry.from_loaders([good, bad])
    assert good.closed
    assert bad.closed


def test_close_and_the_context_manager_close_the_loaders():
    loader = Listed(tool("a"))
    with ToolRegistry.from_loaders([loader]) as registry:
        assert not loader.closed
    assert loader.closed
    assert "ns::a" in registry


def test_attach_loads_a_source_or_changes_nothing():
    registry = ToolRegistry([tool("a")])
    registry.attach(Listed(tool("b")))
    before = registry.snapshot
    with pytest.raises(DuplicateToolError):
        registry.attach(Listed(tool("c"), tool("a")))
    assert registry.snapshot is before
    assert registry.tool_names() == ["a", "b"]


def test_aliases_resolve_but_are_not_extra_tools():
    registry = ToolRegistry([tool("weather", aliases=("wx",))])
    assert len(registry) == 1
    assert "ns::wx" in registry
    assert registry.get("ns::wx")[0].name == "weather"
    assert registry.tool_names() == ["weather"]


@pytest.mark.parametrize(
    "pair",
    [
        (tool("a"), tool("b", aliases=("a",))),
        (tool("b", aliases=("a",)), tool("a")),
        (tool("a", aliases=("x",)), tool("b", aliases=("x",))),
        (tool("a", aliases=("a",)), tool("b")),
    ],
)
def test_an_alias_may_not_hide_a_tool_or_another_alias(pair):
    with pytest.raises(DuplicateToolError, match="alias"):
        ToolRegistry(pair)


def test_enrichments_run_inside_the_swap_and_leave_artifacts():
    class Count:
        def enrich(self, snapshot):
            return [t.replace(description="seen") for t in snapshot.tools], {"count": len(snapshot.tools)}

    registry = ToolRegistry.from_loaders([Listed(tool("a"))], enrichments=[Count()])
    assert registry.artifacts["count"] == 1
    registry.add(tool("b"))
    assert registry.artifacts["count"] == 2
    assert {t.description for t in registry} == {"seen"}
    with pytest.raises(TypeError):
        registry.artifacts["x"] = 1


def test_a_failing_enrichment_leaves_the_old_snapshot():
    class Broken:
        armed = False

        def enrich(self, snapshot):
            if self.armed:
                raise RuntimeError("no")
            return snapshot.tools, {}

    broken = Broken()
    registry = ToolRegistry([tool("a")], enrichments=[broken])
    before = registry.snapshot
    broken.armed = True
    with pytest.raises(EnrichmentError, match="Broken: RuntimeError: no"):
        registry.add(tool("b"))
    assert registry.snapshot is before


def test_from_dicts_reads_any_dialect_and_to_dicts_round_trips(tmp_path):
    registry = ToolRegistry.from_dicts(
        [
            {"type": "function", "function": {"name": "a", "parameters": CITY, "strict": True}},
            {"name": "b", "input_schema": CITY},
            {"name": "c", "inputSchema": CITY, "annotations": {"readOnlyHint": True}},
            {"name": "d", "namespace": "own", "parameters": CITY, "x": 1},
        ],
        namespace="ns",
    )
    assert [t.qualified_name for t in registry] == ["ns::a", "ns::b", "ns::c", "own::d"]
    assert registry.get("ns::c")[0].effects == "read"
    assert registry.get("own::d")[0].metadata == {"x": 1}
    for qualified in (False, True):
        again = ToolRegistry.from_dicts(registry.to_dicts(qualified=qualified))
        assert again.all_tools() == registry.all_tools()


def test_a_missing_file_is_unavailable_and_not_a_registry(tmp_path):
    with pytest.raises(SourceUnavailable, match=r"nope\.yaml"):
        ToolRegistry.from_file(tmp_path / "nope.yaml")
    with pytest.raises(SourceUnavailable):
        FileToolLoader(tmp_path / "nope.json").load()


def test_more_than_256_overloads_of_one_name_are_refused():
    tools = [tool(parameters={"type": "object", "properties": {f"p{i}": {}}}) for i in range(257)]
    with pytest.raises(DuplicateToolError, match="256 overloads"):
        ToolRegistry(tools)


@pytest.mark.parametrize("failure", [RuntimeError("x"), KeyError("x"), TypeError("x"), OSError("x")])
def test_whatever_a_loader_raises_on_refresh_only_that_source_is_stale(failure):
    good, bad = Listed(tool("a")), Listed(tool("b"))
    registry = ToolRegistry.from_loaders([good, bad])
    good.tools = [tool("a2")]
    bad.failure = failure
    assert [s.state for s in registry.refresh().sources] == ["ok", "stale"]
    assert registry.tool_names() == ["a2", "b"]


@pytest.mark.parametrize("answer", [None, [None], ["x"], [5]])
def test_a_loader_that_gives_no_tools_is_an_error_of_its_own(answer):
    loader = Listed()
    loader.load = lambda: answer
    with pytest.raises(SourceError):
        ToolRegistry.from_loaders([loader])


def test_a_removed_tool_can_be_replaced_without_making_its_source_stale():
    loader = Listed(tool("a"), tool("b"))
    registry = ToolRegistry.from_loaders([loader])
    registry.remove("ns::b")
    registry.add(tool("b", parameters=PLACE))
    loader.tools.append(tool("c"))
    assert registry.refresh().ok
    assert registry.tool_names() == ["a", "b", "c"]
    assert registry.get("ns::b")[0].parameters == PLACE


def test_adding_and_removing_repeatedly_adds_no_sources_to_the_report():
    registry = ToolRegistry([tool("a")])
    for _ in range(50):
        registry.add(tool("b"))
        registry.remove("ns::b")
    assert len(registry.report.sources) == 1
    before = registry.generation
    registry.add()
    assert registry.generation == before


def test_changing_what_a_registry_returns_does_not_change_the_registry():
    registry = ToolRegistry.from_dicts(
        [{"name": "a", "parameters": (given := {"type": "object", "properties": {}}), "x": {}}]
    )
    given["properties"]["y"] = {"type": "strng"}
    registry.to_dicts()[0]["parameters"]["properties"]["z"] = {"type": "strng"}
    registry.to_dicts()[0]["metadata"]["x"]["w"] = 1
    assert registry.all_tools()[0].parameters == {"type": "object", "properties": {}}
    assert registry.all_tools()[0].metadata == {"x": {}}
    with pytest.raises(TypeError):
        registry.snapshot.names["ns::b"] = ()


def test_closing_reaches_every_loader_and_a_source_that_cannot_be_attached_is_closed():
    class Stuck(Listed):
        def close(self):
            super().close()
            raise OSError("stuck")

    first, second = Stuck(tool("a")), Listed(tool("b"))
    registry = ToolRegistry.from_loaders([first, second])
    with pytest.raises(OSError, match="stuck"):
        registry.close()
    assert first.closed
    assert second.closed
    twin = Listed(tool("a"))
    with pytest.raises(DuplicateToolError):
        registry.attach(twin)
    assert twin.closed


def test_duplicates_name_both_places(tmp_path):
    path = tmp_path / "c.json"
    path.write_text('[{"name": "a"}, {"name": "b"}, {"name": "a"}]')
    with pytest.raises(DuplicateToolError, match=r"c\.json#/0 and .*c\.json#/2"):
        ToolRegistry.from_file(path)
    report = ToolRegistry.from_file(path, on_duplicate="skip").report
    assert report.rejected[0].where.endswith("c.json:1"), "the line, as of every other rejection"


def test_an_enrichment_may_not_drop_tools():
    class Drops:
        def enrich(self, snapshot):
            return [], {}

    with pytest.raises(EnrichmentError, match="0 tools for 1"):
        ToolRegistry([tool("a")], enrichments=[Drops()])


def test_one_tool_or_loader_in_place_of_a_list_is_refused_with_what_to_do():
    with pytest.raises(TypeError, match="expected a list of tools, got one Tool; put it into a list"):
        ToolRegistry(tool("a"))
    with pytest.raises(TypeError, match="expected a list of loaders, got one InlineToolLoader"):
        ToolRegistry.from_loaders(InlineToolLoader([], namespace="n"))


@pytest.mark.parametrize("change", [{"description": 5}, {"metadata": 5}, {"namespace": []}])
def test_a_tool_with_wrong_field_types_is_refused(change):
    with pytest.raises(DefinitionError):
        ToolRegistry([tool("a").replace(**change)])


def test_keys_that_are_no_text_are_rewritten_and_listed_or_refused_when_they_clash():
    registry = ToolRegistry.from_dicts(
        [{"name": "a", "parameters": {"type": "object", "properties": {1: {"type": "string"}}}}]
    )
    assert registry.all_tools()[0].parameters["properties"] == {"1": {"type": "string"}}
    assert len(registry.report.rewrites) == 1
    with pytest.raises(MalformedSource, match="same as text"):
        ToolRegistry.from_dicts([{"name": "a", "parameters": {"type": "object", "properties": {1: {}, "1": {}}}}])


def test_a_tool_removed_while_its_source_reloads_stays_out_and_the_reload_counts():
    class Slow(Listed):
        during = None

        def load(self):
            tools = super().load()
            if self.during:
                self.during()
            return tools

    loader = Slow(tool("a"), tool("b"))
    registry = ToolRegistry.from_loaders([loader])
    loader.tools = [tool("a"), tool("b"), tool("new")]
    loader.during = lambda: registry.remove("ns::b")
    registry.refresh()
    assert registry.tool_names() == ["a", "new"]


def test_definitions_are_the_callers_own_whatever_their_metadata_holds():
    held = {"when": date(2026, 1, 2), "list": [1]}
    registry = ToolRegistry([Tool("t", "n", "", {"type": "object", "properties": {"a": {}}}, metadata=held)])
    [given] = registry.to_dicts()
    assert given["metadata"] == held
    given["parameters"]["properties"]["a"]["type"] = "string"
    given["metadata"]["list"].append(2)
    [again] = registry.to_dicts()
    assert again["parameters"]["properties"] == {"a": {}} and again["metadata"]["list"] == [1]
