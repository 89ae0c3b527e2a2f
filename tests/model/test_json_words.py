from hypothesis import given, strategies as st

from toolyard.model.names import closest, json_type, pointer_of
from toolyard.schema.subschemas import resolve_pointer

NAMES = ["weather_api::get_weather", "hr_api::find_employee", "other::get_weather"]


def test_a_misspelt_name_finds_its_neighbours_qualified_or_bare():
    assert closest("get_wether", NAMES) == ["weather_api::get_weather", "other::get_weather"]
    assert closest("weather::get_weather", NAMES)[:2] == ["weather_api::get_weather", "other::get_weather"]
    assert closest("hr_api__find_employe", NAMES) == ["hr_api::find_employee"]
    assert closest("zzz", NAMES) == []


def test_a_large_catalog_is_searched_where_letters_are_shared():
    many = [f"ns::tool_number_{index}" for index in range(20_000)]
    assert closest("get_wether", [*many, *NAMES])[0] == "weather_api::get_weather"


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
