import pytest

from toolyard import InlineToolLoader, MalformedSource, get_tool_loader


def test_a_list_and_a_mapping_of_definitions_load():
    listed = InlineToolLoader([{"name": "a"}, {"name": "b", "namespace": "own"}], namespace="ns").load()
    assert [t.qualified_name for t in listed] == ["ns::a", "own::b"]
    mapped = get_tool_loader("inline", tools={"a": {"description": "d"}}).load()
    assert [(t.qualified_name, t.description) for t in mapped] == [("default::a", "d")]


def test_a_bad_entry_is_named_by_its_position():
    with pytest.raises(MalformedSource, match=r"inline#/1"):
        InlineToolLoader([{"name": "a"}, {"nam": "b"}]).load()
    loader = InlineToolLoader([{"name": "a"}, {"nam": "b"}], on_error="skip")
    assert len(loader.load()) == 1
    assert loader.report.rejected[0].where == "inline#/1"


@pytest.mark.parametrize("tools", ["text", 3, None])
def test_what_is_no_list_is_refused(tools):
    with pytest.raises(MalformedSource, match="list or a mapping"):
        InlineToolLoader(tools).load()
