"""In which order enrichments run, what they may change, and what it costs."""

import gc
import itertools

import pytest
from hypothesis import given, strategies as st

from toolyard import (
    EnrichmentError,
    PythonToolEngine,
    Tool,
    ToolCall,
    ToolEnrichment,
    ToolLoader,
    ToolRegistry,
    function_tool,
)
from toolyard.registry.enriching import order_enrichments

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def stage(name, reads=(), writes=(), log=None, change=None):
    """An enrichment class of that name, which leaves its name as every artifact that it writes."""

    def enrich(self, snapshot):
        if log is not None:
            log.append(name)
        tools = [change(one) for one in snapshot.tools] if change else snapshot.tools
        return tools, {what: name for what in self.writes if not what.startswith("tool.")}

    return type(name, (ToolEnrichment,), {"reads": reads, "writes": writes, "enrich": enrich})()


def names(enrichments):
    return [type(one).__name__ for one in order_enrichments(enrichments)]


def test_readers_run_after_writers_in_any_given_order():
    filled = stage("Filled", writes=("tool.output_parameters",))
    flow = stage("Flow", reads=("tool.output_parameters",), writes=("dataflow",))
    picture = stage("Picture", reads=("dataflow",), writes=("picture",))
    for order in itertools.permutations([filled, flow, picture]):
        assert names(order) == ["Filled", "Flow", "Picture"]


def test_independent_enrichments_keep_the_given_order():
    kinds = [stage(letter, writes=(letter,)) for letter in "DBCA"]
    assert names(kinds) == ["D", "B", "C", "A"]


def test_an_enrichment_without_declarations_follows_all_given_before_it():
    class Plain:
        def enrich(self, snapshot):
            return snapshot.tools, {"seen": sorted(snapshot.artifacts)}

    flow = stage("Flow", reads=("tool.output_parameters",), writes=("dataflow",))
    filled = stage("Filled", writes=("tool.output_parameters",))
    assert names([flow, Plain(), filled]) == ["Filled", "Flow", "Plain"]
    assert names([Plain(), flow, filled]) == ["Plain", "Filled", "Flow"]
    registry = ToolRegistry([Tool("a", "n")], enrichments=[flow, Plain(), filled])
    assert registry.artifacts["seen"] == ["dataflow"]


def test_several_may_change_a_field_one_after_the_other_and_readers_want_it_finished():
    reader = stage("Reader", reads=("tool.description",), writes=("lengths",))
    first = stage("First", reads=("tool.description",), writes=("tool.description",))
    second = stage("Second", reads=("tool.description",), writes=("tool.description",))
    assert names([reader, first, second]) == ["First", "Second", "Reader"]
    assert names([second, reader, first]) == ["Second", "First", "Reader"]


def test_an_unwritten_field_of_tools_may_be_read():
    assert names([stage("Reader", reads=("tool.metadata",), writes=("x",))]) == ["Reader"]


def test_declarations_may_be_lists_or_one_text():
    assert names([stage("B", reads="a"), stage("A", writes=["a"])]) == ["A", "B"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            [stage("A", ("b",), ("a",)), stage("B", ("c",), ("b",)), stage("C", ("a",), ("c",))],
            "enrichments depend on each other: A after B after C after A",
        ),
        ([stage("Own", ("x",), ("x",))], "depend on each other: Own after Own"),
        ([stage("N", ("embeddings",), ("n",))], "add the enrichment 'embeddings': `- type: embeddings` under tools"),
        (
            [stage("N", ("embedings",), ("n",))],
            "which no enrichment of this registry writes; did you mean 'embeddings'",
        ),
        ([stage("N", ("zzz",), ("n",))], "N needs the artifact 'zzz', which no enrichment of this registry writes"),
        ([stage("A", (), ("x",)), stage("B", (), ("x",))], "A and B both write the artifact 'x'; keep one of them"),
        (
            [stage("A", ("tool.output_params",), ("x",))],
            "no field 'output_params'; did you mean 'tool.output_parameters'",
        ),
        ([stage("A", 5, ("x",))], "reads of A must be names"),
        ([stage("A", ("",), ("x",))], "reads of A must be names"),
        ([object()], "object is no enrichment"),
    ],
)
def test_what_cannot_be_ordered_is_refused_when_the_registry_is_made(given, says):
    with pytest.raises(EnrichmentError) as caught:
        ToolRegistry(enrichments=given)
    assert says in str(caught.value)


def test_sources_are_closed_if_enrichments_cannot_be_ordered():
    class Listed(ToolLoader):
        closed = loaded = False

        def load(self):
            self.loaded = True
            return [Tool("a", "n")]

        def close(self):
            self.closed = True

    loader = Listed()
    with pytest.raises(EnrichmentError):
        ToolRegistry.from_loaders([loader], enrichments=[stage("N", ("zzz",))])
    assert loader.closed and not loader.loaded


@given(st.data())
def test_any_order_respects_every_need_or_names_a_circle(data):
    size = data.draw(st.integers(1, 7))
    reads = [data.draw(st.sets(st.integers(0, size - 1), max_size=3)) for _ in range(size)]
    stages = [stage(f"S{at}", tuple(f"a{n}" for n in sorted(needs)), (f"a{at}",)) for at, needs in enumerate(reads)]
    try:
        order = [int(name[1:]) for name in names(stages)]
    except EnrichmentError as error:
        assert "depend on each other" in str(error)
        assert _has_circle(reads)
    else:
        assert sorted(order) == list(range(size))
        assert all(order.index(need) < order.index(at) for at, needs in enumerate(reads) for need in needs)


def _has_circle(reads):
    left = {at: set(needs) for at, needs in enumerate(reads)}
    while free := [at for at, needs in left.items() if not needs]:
        for at in free:
            del left[at]
        for needs in left.values():
            needs.difference_update(free)
    return bool(left)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.replace(name="other"), "changed the name of n::a"),
        (lambda t: t.replace(namespace="other"), "changed the namespace of n::a"),
        (lambda t: t.replace(parameters={}), "changed the parameters of n::a, by which it is called"),
        (lambda t: None, "returned NoneType in the place of n::a, not a Tool"),
        (lambda t: t.replace(output_parameters={"type": "nonsense"}), "output_parameters"),
        (lambda t: t.replace(description=5), "description of tool 'a' must be text"),
    ],
)
def test_a_change_that_no_enrichment_may_make_is_refused_and_the_registry_stays(change, says):
    broken = stage("Broken")
    registry = ToolRegistry([Tool("a", "n", "", CITY)], enrichments=[broken])
    before = registry.snapshot
    type(broken).enrich = lambda self, snapshot: ([change(one) for one in snapshot.tools], {})
    with pytest.raises(EnrichmentError, match="Broken") as caught:
        registry.add(Tool("b", "n"))
    assert says in str(caught.value)
    assert registry.snapshot is before


def test_an_undeclared_change_is_refused_if_the_enrichment_declares_any():
    def describing(one):
        return one.replace(description="new")

    with pytest.raises(EnrichmentError, match=r"name 'tool\.description' in `writes`"):
        ToolRegistry([Tool("a", "n")], enrichments=[stage("Says", writes=("x",), change=describing)])
    assert (
        next(iter(ToolRegistry([Tool("a", "n")], enrichments=[stage("Free", change=describing)]))).description == "new"
    )


@pytest.mark.parametrize(
    ("artifacts", "says"),
    [
        ({"x": 1, "y": 2}, "writes the artifact 'y'; name it in `writes`"),
        ({}, "says that it writes the artifact 'x', and did not"),
        (None, "returned NoneType for artifacts, not a mapping"),
    ],
)
def test_artifacts_are_the_declared_ones(artifacts, says):
    liar = stage("Liar", writes=("x",))
    type(liar).enrich = lambda self, snapshot: (snapshot.tools, artifacts)
    with pytest.raises(EnrichmentError, match="Liar") as caught:
        ToolRegistry([Tool("a", "n")], enrichments=[liar])
    assert says in str(caught.value)


def test_an_existing_artifact_cannot_be_overwritten():
    class Plain:
        def enrich(self, snapshot):
            return snapshot.tools, {"x": 1}

    with pytest.raises(EnrichmentError, match="'x', which is already there"):
        ToolRegistry([Tool("a", "n")], enrichments=[stage("A", writes=("x",)), Plain()])


def test_unchanged_tools_keep_their_validators_and_changed_ones_those_of_their_arguments():
    only_b = stage("OnlyB", change=lambda t: t.replace(description="new") if t.name == "b" else t)
    plain = ToolRegistry([Tool("a", "n", "", CITY), Tool("b", "n", "", CITY)])
    for one in plain.snapshot.candidates:
        assert one.compiled is not None
    a, b = plain.snapshot.candidates
    plain.enrich(only_b)
    new_a, new_b = plain.snapshot.candidates
    assert new_a is a
    assert new_b is not b and new_b.compiled is b.compiled
    assert new_b.tool.description == "new" and new_b.tool.parameters is b.tool.parameters


def test_a_tool_that_an_enrichment_gives_again_is_not_admitted_again():
    kept = {}

    def remembered(one):
        return kept.setdefault(one.name, one.replace(description="known"))

    registry = ToolRegistry([Tool("a", "n")], enrichments=[stage("Remembers", change=remembered)])
    first = registry.snapshot.candidates[0]
    registry.add(Tool("b", "n"))
    assert registry.snapshot.candidates[0] is first
    assert [one.description for one in registry] == ["known", "known"]


def test_the_binding_survives_an_enrichment_that_creates_a_new_tool():
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    class Anew:
        def enrich(self, snapshot):
            return [Tool(t.name, t.namespace, "Anew.", t.parameters, t.output_parameters) for t in snapshot.tools], {}

    registry = ToolRegistry([function_tool(double, namespace="n")], enrichments=[Anew()])
    (name,) = (one.qualified_name for one in registry)
    assert registry.dispatch(name, {"n": 4}) == 8
    assert registry.get(name)[0].description == "Anew."


def test_a_tool_that_really_runs_is_not_held_to_an_output_schema_that_was_guessed():
    def answer() -> dict:
        """Anything."""
        return {"count": "many"}

    guess = {"type": "object", "properties": {"count": {"type": "integer"}}}

    def outcome(schema):
        given = stage("Given", change=lambda t: t.replace(output_parameters=schema))
        with PythonToolEngine(
            ToolRegistry([function_tool(answer, namespace="n")], enrichments=[given]), output_check="strict"
        ) as engine:
            engine.setup("s")
            return engine.execute("s", [ToolCall("n::answer")])[0]

    assert outcome(guess).error_info.code == "tool.invalid_output"
    assert outcome({**guess, "x-inferred": "rules"}).result == {"count": "many"}


def test_enrich_runs_more_of_them_now_and_after_every_change():
    registry = ToolRegistry([Tool("a", "n")], enrichments=[stage("First", writes=("one",))])
    registry.enrich(stage("Second", reads=("one",), writes=("two",)))
    registry.add(Tool("b", "n"))
    assert dict(registry.artifacts) == {"one": "First", "two": "Second"}
    before = registry.snapshot
    with pytest.raises(EnrichmentError, match="both write"):
        registry.enrich(stage("Third", writes=("two",)))
    assert registry.snapshot is before
    registry.add(Tool("c", "n"))
    assert dict(registry.artifacts) == {"one": "First", "two": "Second"}


class Given(ToolLoader):
    label = "given"

    def load(self):
        return [Tool("given", "n", "", CITY)]


@pytest.mark.parametrize("way", ["made", "loaded", "attached", "added", "enriched"])
def test_garbage_collection_stays_enabled_while_enrichments_run(way):
    seen = []
    watching = stage("Watching", change=lambda one: seen.append(gc.isenabled()) or one)
    if way == "loaded":
        ToolRegistry.from_loaders([Given()], [watching])
    elif way == "enriched":
        ToolRegistry([Tool("a", "n")]).enrich(watching)
    else:
        registry = ToolRegistry([Tool("a", "n")], enrichments=[watching])
        if way == "attached":
            registry.attach(Given())
        elif way == "added":
            registry.add(Tool("b", "n"))
    assert seen and all(seen)


def test_a_returned_tool_is_registered_unchanged_if_possible():
    given_tools = []

    def guessed(one):
        given_tools.append(one.replace(output_parameters={"type": "object", "x-inferred": "rules"}))
        return given_tools[-1]

    registry = ToolRegistry([Tool("a", "n", "", CITY)], enrichments=[stage("Guesses", change=guessed)])
    [known] = registry.snapshot.tools
    assert known is given_tools[0]
    assert registry.get("n::a") == [known]


def test_overloads_and_aliases_are_found_under_their_names_after_a_change():
    other = {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}
    tools = [Tool("a", "n", "", CITY), Tool("b", "n", "", CITY, aliases=("c",)), Tool("a", "n", "", other)]
    louder = stage("Louder", change=lambda one: one.replace(description=f"{one.name}!"))
    registry = ToolRegistry(tools, enrichments=[louder])
    assert [tool.description for tool in registry.get("n::a")] == ["a!", "a!"]
    assert [tool.parameters for tool in registry.get("n::a")] == [CITY, other]
    assert registry.get("n::c") == registry.get("n::b") == [registry.all_tools()[1]]
    renamed = stage("Renamed", change=lambda one: one.replace(aliases=("d",)) if one.name == "b" else one)
    registry.enrich(renamed)
    assert [tool.description for tool in registry.get("n::d")] == ["b!"]
    assert registry.get("n::c") == []


def test_an_enrichment_that_fails_in_enrich_is_not_kept():
    class Fails:
        def enrich(self, snapshot):
            raise ValueError("no")

    registry = ToolRegistry([Tool("a", "n")])
    with pytest.raises(EnrichmentError, match="Fails: ValueError: no"):
        registry.enrich(Fails())
    registry.add(Tool("b", "n"))
    assert len(registry) == 2


def test_a_change_is_made_once_to_each_tool_however_often_the_registry_changes():
    louder = stage("Louder", change=lambda t: t.replace(description=t.description + "!"))
    registry = ToolRegistry([Tool("a", "n", "Hello")], enrichments=[louder])
    registry.add(Tool("b", "n", "There"))
    registry.add(Tool("c", "n", "You"))
    registry.remove("n::b")
    registry.refresh()
    assert [one.description for one in registry] == ["Hello!", "You!"]
