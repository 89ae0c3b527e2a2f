"""How tools are called on the wires."""

from hypothesis import given, strategies as st

from toolyard import Tool, ToolRegistry
from toolyard.serving.served_names import ServedNames


def names_of(*qualified, domains=("core",)):
    tools = [Tool(name, namespace) for namespace, _, name in (each.partition("::") for each in qualified)]
    return ServedNames(ToolRegistry(tools).snapshot, domains)


def test_tools_of_domains_are_spelt_bare_and_all_others_qualified():
    names = names_of("core::echo", "desk::add")
    assert (names.spell_name("core::echo"), names.spell_name("desk::add")) == ("echo", "desk::add")


def test_requests_may_use_either_spelling():
    names = names_of("core::echo", "desk::add")
    assert names.find_name("echo") == names.find_name("core::echo") == "core::echo"
    assert names.find_name("add") == names.find_name("desk::add") == "desk::add"
    assert names.find_name("nope") is None


def test_a_domains_tool_keeps_its_bare_name_when_others_have_it_too():
    names = names_of("desk::echo", "core::echo")
    assert names.find_name("echo") == "core::echo"
    assert names.spell_name("desk::echo") == "desk::echo"


def test_of_two_domains_with_one_name_the_first_has_it_and_both_can_be_told_apart():
    names = names_of("core::echo", "web::echo", domains=("web", "core"))
    assert (names.spell_name("core::echo"), names.spell_name("web::echo")) == ("echo", "web::echo")
    assert names.find_name("echo") == "core::echo"


def test_a_bare_name_of_several_other_namespaces_stands_for_none():
    assert names_of("a::x", "b::x").find_name("x") is None


def test_an_id_begins_with_tool_and_a_tool_may_do_so_too():
    names = names_of("core::x", "core::tool_x")
    assert names.tool_id("core::x") == "tool_x" and names.tool_id("core::tool_x") == "tool_tool_x"
    assert names.find_id("tool_x") == "core::x" and names.find_id("tool_tool_x") == "core::tool_x"
    assert names.find_id("x") is None and names.find_id("tool_") is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["core", "web", "desk", "b"]), st.sampled_from(["x", "tool_x", "y", "tool_tool_x"])),
        unique=True,
    )
)
def test_every_tool_has_one_spelling_and_one_id_that_lead_back_to_it(pairs):
    names = names_of(*(f"{namespace}::{name}" for namespace, name in pairs), domains=("core", "web"))
    every = [f"{namespace}::{name}" for namespace, name in pairs]
    assert [names.find_name(names.spell_name(each)) for each in every] == every
    assert [names.find_id(names.tool_id(each)) for each in every] == every
    assert len({names.tool_id(each) for each in every}) == len(every)
