import re
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from dialects.strategies import qualified, tool
from toolyard.dialects import WireNames, wire_names
from toolyard.dialects.payload import ChangeLog
from toolyard.dialects.wire_names import read_arguments, spell_arguments, spell_properties, wire_key
from toolyard.model import Tool
from toolyard.model.errors import DefinitionError

WIRE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
ONE = {"type": "object", "properties": {"id": {"type": "integer"}}}
TWO = {"type": "object", "properties": {"name": {"type": "string"}}}


@settings(max_examples=examples(40))
@given(st.lists(qualified, min_size=1, max_size=8, unique=True))
def test_every_valid_name_gets_an_accepted_wire_name_that_leads_back(pairs):
    tools = [Tool(name, namespace) for namespace, name in pairs]
    names = WireNames(tools)
    wires = [names.encode(item) for item in tools]
    assert all(WIRE.fullmatch(wire) for wire in wires)
    assert len(set(wires)) == len({item.qualified_name for item in tools})
    assert [names.find(wire) for wire in wires] == [(item.qualified_name, None) for item in tools]


@settings(max_examples=examples(40))
@given(qualified, st.lists(qualified, max_size=4))
def test_adding_tools_never_renames_one(pair, others):
    one = Tool(pair[1], pair[0])
    more = WireNames([Tool(name, namespace) for namespace, name in others] + [one])
    assert more.encode(one) == WireNames([one]).encode(one) == WireNames().encode(one)


@pytest.mark.parametrize(
    ("namespace", "name", "wire"),
    [
        ("hr", "find", "hr__find"),
        ("weather_api", "get-weather_v2", "weather_api__get-weather_v2"),
        ("a", "b", "a__b"),
    ],
)
def test_simple_names_are_joined_and_read_back_without_a_table(namespace, name, wire):
    assert WireNames().encode(Tool(name, namespace)) == wire
    assert WireNames().find(wire) == (f"{namespace}::{name}", None)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("a", "b__c"),
        ("a__b", "c"),
        ("a_", "b"),
        ("a", "_b"),
        ("1st", "b"),
        ("a", "b.c"),
        ("a", "x" * 64),
        ("天気", "予報"),
        ("a", "b c"),
    ],
)
def test_other_names_keep_a_readable_part_before_the_digest(namespace, name):
    wire = WireNames().encode(Tool(name, namespace))
    slug, mark, digest = wire.rpartition("___")
    assert mark
    assert slug[0].isalpha()
    assert re.fullmatch(r"[a-z2-7]{16}", digest)


def test_the_tools_own_name_is_what_stays_readable():
    wire = WireNames().encode(Tool("list all open invoices of a customer", "a very long namespace of finance tools"))
    assert wire.startswith("a_very_l_list_all_open_invoices_of_a_customer___")


@pytest.mark.process
def test_wire_names_are_the_same_in_every_process():
    code = "from toolyard.dialects import WireNames; from toolyard.model import Tool; "
    code += "print(WireNames().encode(Tool('prévision.météo', '1')))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {WireNames().encode(Tool("prévision.météo", "1")) + "\n"}


def test_the_first_overload_keeps_the_name_and_each_further_one_is_pinned():
    first, second = tool(parameters=ONE), tool(parameters=TWO)
    names = WireNames([first, second])
    assert names.encode(first) == "hr__find"
    assert names.find("hr__find") == ("hr::find", None)
    assert names.find(names.encode(second)) == ("hr::find", second.fingerprint)


def test_names_issued_under_another_registration_order_still_resolve():
    first, second = tool(parameters=ONE), tool(parameters=TWO)
    elsewhere = WireNames([second, first])
    here = WireNames([first, second])
    assert here.find(elsewhere.encode(first)) == ("hr::find", first.fingerprint)
    assert here.find(elsewhere.encode(second)) == ("hr::find", None)


def test_twins_are_one_tool():
    names = WireNames([tool(parameters=ONE), tool(parameters=dict(ONE))])
    assert names.find("hr__find") == ("hr::find", None)
    assert len(names.tools) == 1


def test_names_of_calls_are_spelt_like_those_of_tools():
    first, second = tool(parameters=ONE), tool(parameters=TWO)
    names = WireNames([first, second])
    assert names.encode_name("hr::find") == "hr__find"
    assert names.encode_name("hr::find", first.fingerprint) == "hr__find"
    assert names.encode_name("hr::find", second.fingerprint) == names.encode(second)
    assert names.encode_name("find") == "hr__find" and names.encode_name("find", second.fingerprint) == names.encode(
        second
    )
    assert names.including([tool("find", "crm")]).encode_name("find") == "find"
    assert names.encode_name("made_up") == "made_up"
    assert WIRE.fullmatch(names.encode_name("made up!"))


def test_the_tool_behind_a_name_is_the_pinned_overload_or_the_first():
    first, second, alone = tool(parameters=ONE), tool(parameters=TWO), tool("alone", parameters=ONE)
    names = WireNames([first, second, alone])
    assert names.tool(("hr::find", None)) is first
    assert names.tool(("hr::find", second.fingerprint)) is second
    assert names.tool(("hr::alone", alone.fingerprint)) is alone
    assert names.tool(("hr::alone", second.fingerprint)) is None
    assert names.tool(("hr::nobody", None)) is None


def test_more_tools_can_be_included_without_changing_the_names_there_are():
    first, second = tool(parameters=ONE), tool(parameters=TWO)
    names = WireNames([first])
    wider = names.including([first, second])
    assert names.including([first]) is names
    assert second in wider
    assert second not in names
    assert wider.encode(first) == names.encode(first)
    assert wider.find(wider.encode(second)) == ("hr::find", second.fingerprint)


def test_qualified_and_unambiguous_bare_names_are_understood():
    names = WireNames([tool("find", "hr"), tool("a b", "x"), tool("get__it", "y")])
    assert names.find("hr::find") == ("hr::find", None)
    assert names.find("find") == ("hr::find", None)
    assert names.find("a b") == ("x::a b", None)
    assert names.find("get__it") == ("y::get__it", None)


def test_a_bare_name_of_two_namespaces_is_unknown():
    names = WireNames([tool("find", "hr"), tool("find", "crm")])
    assert names.find("find") is None


def test_a_hashed_name_nobody_issued_is_unknown():
    wire = WireNames().encode(tool("a b", "x"))
    assert WireNames().find(wire) is None


def test_a_digest_collision_is_refused_rather_than_mixed_up(monkeypatch):
    monkeypatch.setattr(wire_names, "digest", lambda text: "a" * 16)
    with pytest.raises(DefinitionError, match="share the wire name"):
        WireNames([tool("b c", "a"), tool("b.c", "a")])


def test_ten_thousand_tools_are_indexed_without_touching_their_schemas(monkeypatch):
    def refuse(_schema):
        raise AssertionError("a fingerprint was computed")

    monkeypatch.setattr("toolyard.model.tool.fingerprint", refuse)
    tools = [Tool(f"tool_{i}" if i % 2 else f"tool {i}", f"ns{i % 50}") for i in range(10_000)]
    tools[5] = tool("get_weather", "api")
    names = WireNames(tools)
    assert names.find(names.encode(tools[7_778])) == ("ns28::tool 7778", None)
    assert names.find("get_wether") is None


ACCEPTED = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@given(st.dictionaries(st.text(max_size=80), st.integers(), max_size=5))
def test_any_property_name_is_accepted_and_leads_back(arguments):
    schema = {"type": "object", "properties": {name: {} for name in arguments}, "required": [*arguments]}
    spelt = spell_properties(schema, ChangeLog())
    assert all(map(ACCEPTED.fullmatch, spelt["properties"]))
    assert spelt["required"] == list(spelt["properties"])
    sent = spell_arguments(schema, arguments)
    assert sent.keys() == spelt["properties"].keys()
    assert read_arguments(schema, sent) == arguments


def test_accepted_names_and_unknown_keys_stay_as_they_are():
    schema = {"type": "object", "properties": {"a.b-c_1": {}}}
    assert spell_properties(schema, ChangeLog()) is schema
    assert read_arguments(schema, {"made up": 1}) == {"made up": 1}


def test_the_readable_part_stays():
    assert wire_key("filter[bundleId]").startswith("filter_bundleId_")
    assert wire_key("$top").startswith("top_")
