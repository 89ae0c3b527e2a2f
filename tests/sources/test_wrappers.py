import pytest

from toolyard import (
    ConfigError,
    FilterToolLoader,
    InlineToolLoader,
    RenamespaceToolLoader,
    RenameToolLoader,
    ToolRegistry,
)


def inner(*names, **options):
    return InlineToolLoader([{"name": name} for name in names], namespace="ns", **options)


def names(loader):
    return [t.qualified_name for t in ToolRegistry.from_loaders([loader])]


def test_filter_keeps_by_glob_on_the_qualified_name():
    assert names(FilterToolLoader(inner("get_a", "del_a", "get_b"), include=["ns::get_*"])) == [
        "ns::get_a",
        "ns::get_b",
    ]
    assert names(FilterToolLoader(inner("get_a", "del_a"), exclude=["*::del_*"])) == ["ns::get_a"]


def test_a_filter_tells_of_a_glob_that_matches_nothing(caplog):
    assert names(FilterToolLoader(inner(), exclude=["ns::dle_*"])) == []
    assert names(FilterToolLoader(inner("get_a", "del_a"), exclude=["ns::dle_*", "ns::get_*"])) == ["ns::del_a"]
    assert [record.getMessage() for record in caplog.records] == [
        "inline: exclude: ns::dle_* matches no tool; did you mean ns::del_a?"
    ]


def test_filter_refuses_one_text_where_a_list_is_meant():
    with pytest.raises(ConfigError, match="list of globs"):
        FilterToolLoader(inner(), include="ns::*")


def test_rename_takes_qualified_or_bare_names_and_refuses_unknown_ones():
    assert names(RenameToolLoader(inner("a", "b"), {"a": "x", "ns::b": "y"})) == ["ns::x", "ns::y"]
    with pytest.raises(ConfigError, match="'zzz'"):
        RenameToolLoader(inner("a"), {"zzz": "x"}).load()


def test_renamespace_moves_all_or_some():
    assert names(RenamespaceToolLoader(inner("a"), "other")) == ["other::a"]
    assert names(RenamespaceToolLoader(inner("a"), {"ns": "other"})) == ["other::a"]
    assert names(RenamespaceToolLoader(inner("a"), {"x": "other"})) == ["ns::a"]


def test_wrappers_stack_and_keep_policies_report_and_refresh():
    loader = RenamespaceToolLoader(FilterToolLoader(inner("a", "b", "a::", on_error="skip"), exclude=["ns::b"]), "o")
    registry = ToolRegistry.from_loaders([loader])
    assert [t.qualified_name for t in registry] == ["o::a"]
    assert len(registry.report.rejected) == 1
    registry.refresh()
    assert [t.qualified_name for t in registry] == ["o::a"]


async def test_aload_gives_the_same():
    loader = FilterToolLoader(inner("a", "b"), include=["*::a"])
    assert [t.name for t in await loader.aload()] == ["a"]


def test_a_wrappers_report_is_about_what_came_out_under_its_new_name():
    odd = {"type": "dict", "properties": {}}
    source = InlineToolLoader([{"name": "a", "parameters": odd}, {"name": "b", "parameters": odd}], namespace="ns")
    loader = RenameToolLoader(FilterToolLoader(source, include=["ns::a"]), {"a": "z"})
    registry = ToolRegistry.from_loaders([loader])
    assert loader.report.loaded == 1
    assert {rewrite.tool for rewrite in registry.report.rewrites} == {"ns::z"}
