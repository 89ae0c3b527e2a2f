import importlib
import sys
import types

import pytest

from toolyard import (
    ConfigError,
    DuplicatePluginError,
    PluginError,
    UnknownPluginError,
    get_tool_loader,
    register_tool_engine,
    register_tool_enrichment,
    register_tool_loader,
    register_tool_sampler,
)
from toolyard.plugins import SAMPLERS, PluginTable


class Plain:
    def __init__(self, path: str, depth: int = 1) -> None:
        self.path = path
        self.depth = depth


@pytest.fixture
def table():
    return PluginTable(
        "tool loader", "toolyard.test_nobody", {"far": "toolyard_test_far:Far", "gone": "toolyard_no_such:X"}
    )


def test_a_built_in_is_imported_only_when_asked_for(table, monkeypatch):
    assert "toolyard_test_far" not in sys.modules
    module = types.ModuleType("toolyard_test_far")
    module.Far = Plain
    monkeypatch.setitem(sys.modules, "toolyard_test_far", module)
    assert table.get("far") is Plain


def test_installed_packages_are_searched_only_for_a_name_that_is_not_built_in(table, monkeypatch):
    searched = []
    monkeypatch.setattr("toolyard.plugins.entry_points_of", lambda group: searched.append(group) or [("other", "m:C")])
    assert "far" in table and not searched
    assert "other" in table and "missing" not in table and len(searched) == 1


def test_a_registered_class_is_made_with_its_options(table):
    assert table.register("plain")(Plain) is Plain
    made = table.create("plain", path="x", depth=2)
    assert (made.path, made.depth) == ("x", 2)
    assert table.names() == ["far", "gone", "plain"]


def test_an_unknown_name_is_a_key_error_that_suggests_the_nearest(table):
    table.register("plain")(Plain)
    with pytest.raises(UnknownPluginError, match="did you mean 'plain'") as caught:
        table.get("plian")
    assert isinstance(caught.value, KeyError)


def test_a_taken_name_is_a_value_error_that_names_the_owner(table):
    table.register("plain")(Plain)
    with pytest.raises(DuplicatePluginError, match="Plain"):
        table.register("plain")(type("Other", (), {}))
    assert table.get("plain") is Plain


def test_registering_the_same_class_again_is_not_a_conflict(table):
    table.register("plain")(Plain)
    again = type("Plain", (), {"__module__": Plain.__module__, "__qualname__": Plain.__qualname__})
    table.register("plain")(again)
    assert table.get("plain") is again


def test_a_misspelt_option_names_the_nearest_one(table):
    table.register("plain")(Plain)
    with pytest.raises(ConfigError, match="no option 'pth'; did you mean 'path'"):
        table.create("plain", pth="x")


def test_an_option_that_looks_like_another_is_told_what_is_lacking(table):
    class Reader:
        def __init__(self, spec, auth=None): ...

    table.register("reader")(Reader)
    with pytest.raises(ConfigError, match="no option 'path'; it needs spec"):
        table.create("reader", path="x")


@pytest.mark.parametrize(
    ("word", "meant"), [("openapi", "rest"), ("stdio", "mcp"), ("yaml", "file"), ("functions", "python")]
)
def test_a_kind_of_source_that_newcomers_call_otherwise_is_named(word, meant):
    with pytest.raises(UnknownPluginError, match=f"did you mean '{meant}'"):
        get_tool_loader(word)


def test_a_missing_option_is_named(table):
    table.register("plain")(Plain)
    with pytest.raises(ConfigError, match="needs the option 'path'"):
        table.create("plain")


def test_a_plugin_that_does_not_import_blocks_nobody(table):
    table.register("plain")(Plain)
    with pytest.raises(PluginError, match="toolyard_no_such"):
        table.get("gone")
    assert table.get("plain") is Plain


def test_entry_points_of_third_parties_are_found_and_one_of_a_taken_name_is_told(table, tmp_path, monkeypatch, caplog):
    package = tmp_path / "third-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        f"[{table.group}]\nthird = toolyard_test_third:Third\ngone = other:Gone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = types.ModuleType("toolyard_test_third")
    module.Third = Plain
    monkeypatch.setitem(sys.modules, "toolyard_test_third", module)
    assert table.get("third") is Plain
    assert "tool loader 'gone' of a package (other:Gone) is left out: the name is taken" in caplog.text


@pytest.mark.parametrize("target", ["toolyard_test_own:Own", "toolyard_test_own.parts:Own"])
@pytest.mark.parametrize("imported_before", [True, False])
def test_a_package_may_decorate_a_class_and_name_it_in_an_entry_point(
    table, target, imported_before, tmp_path, monkeypatch, caplog
):
    (tmp_path / "toolyard_test_own").mkdir()
    (tmp_path / "toolyard_test_own" / "__init__.py").write_text("from toolyard_test_own.parts import Own\n")
    (tmp_path / "toolyard_test_own" / "parts.py").write_text(
        "from toolyard_test_table import table\n\n\n@table.register('own')\nclass Own:\n    pass\n"
    )
    holder = types.ModuleType("toolyard_test_table")
    holder.table = table
    monkeypatch.setitem(sys.modules, "toolyard_test_table", holder)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("toolyard.plugins.entry_points_of", lambda group: [("own", target)])
    try:
        if imported_before:
            importlib.import_module("toolyard_test_own")
        assert table.names() == ["far", "gone", "own"]
        assert table.get("own") is sys.modules["toolyard_test_own"].Own
    finally:
        for name in ("toolyard_test_own", "toolyard_test_own.parts"):
            sys.modules.pop(name, None)
    assert not caplog.records


WRITTEN = r'write @register_tool_loader\("name"\) above a class'


@pytest.mark.parametrize("name", [Plain, len, 5, None, b"plain"])
def test_a_decorator_without_a_name_is_refused_at_once_and_shown_as_it_is_written(table, name):
    with pytest.raises(PluginError, match=f"the name is missing before .*; {WRITTEN}"):
        table.register(name)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_refused(table, name):
    with pytest.raises(PluginError, match=f"is no name; {WRITTEN}"):
        table.register(name)


@pytest.mark.parametrize("thing", [len, 5, Plain("x"), lambda: None])
def test_registering_something_other_than_a_class_is_refused(table, thing):
    with pytest.raises(PluginError, match=f"tool loader 'plain' must be a class, not .*; {WRITTEN}"):
        table.register("plain")(thing)
    assert "plain" not in table.names()


@pytest.mark.parametrize(
    "decorator", [register_tool_loader, register_tool_engine, register_tool_enrichment, register_tool_sampler]
)
def test_all_four_decorators_want_a_name_and_a_class(decorator):
    with pytest.raises(PluginError, match=r"write @register_tool_[a-z]+\("):
        decorator(Plain)
    with pytest.raises(PluginError, match="must be a class"):
        decorator("test/none")(len)


@pytest.mark.parametrize(
    ("decorator", "text"),
    [
        (
            register_tool_sampler,
            "has no method `sample`, so it is no tool sampler; derive it from toolyard.ToolSampler",
        ),
        (register_tool_loader, "has no method `load`, so it is no tool loader; derive it from toolyard.ToolLoader"),
        (
            register_tool_enrichment,
            "has no method `enrich`, so it is no tool enrichment; derive it from toolyard.ToolEnr",
        ),
    ],
)
def test_a_class_of_another_kind_is_refused_when_it_is_registered(decorator, text):
    with pytest.raises(PluginError, match=f"'test/no_such_kind': .*:Plain {text}"):
        decorator("test/no_such_kind")(Plain)
    assert not hasattr(Plain, "sampler_name")
    assert "test/no_such_kind" not in SAMPLERS.names()


def test_an_entry_point_of_another_kind_is_refused_when_it_is_asked_for(monkeypatch):
    table = PluginTable("tool sampler", "toolyard.test_nobody", {"far": "toolyard_test_far:Far"}, method="sample")
    module = types.ModuleType("toolyard_test_far")
    module.Far = Plain
    monkeypatch.setitem(sys.modules, "toolyard_test_far", module)
    with pytest.raises(PluginError, match="has no method `sample`"):
        table.get("far")
