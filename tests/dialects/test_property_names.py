import re

from hypothesis import given, strategies as st

from toolyard.dialects.payload import ChangeLog
from toolyard.dialects.wire_names import read_arguments, spell_arguments, spell_properties, wire_key

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
