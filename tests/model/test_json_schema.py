from hypothesis import given, strategies as st

from toolyard.model.json_schema import json_type, pointer_of
from toolyard.schema.subschemas import resolve_pointer


@given(st.lists(st.text(max_size=4), max_size=4))
def test_a_pointer_leads_back_to_its_path(path):
    root: dict = {}
    node = root
    for part in path:
        node[part] = {}
        node = node[part]
    node["end"] = "here"
    found = resolve_pointer(root, "#" + pointer_of([*path, "end"]).replace("%", "%25"))
    assert found == "here"


def test_every_json_value_has_a_type_name():
    values = [None, True, 1, 1.5, "x", [], {}]
    assert [json_type(v) for v in values] == ["null", "boolean", "integer", "number", "string", "array", "object"]
    assert json_type({1}) == "set"
