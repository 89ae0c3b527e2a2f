"""`toolyard.scripts`: a directory into a registry, again and again, and by many at once."""

import threading

import pytest
from script_folder import PARAMETERS, Folder, script

from toolyard import FilterToolLoader, ManifestError, Tool, ToolRegistry
from toolyard.scripts import ScriptToolLoader, append_tool_manifest, load_tool_manifest_allowlist, load_tools

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "tools")
    made.put("a.py", script("a"))
    made.put("b.py", script("b"))
    return made.allow("a.py", "b.py")


@pytest.fixture
def registry():
    with ToolRegistry([Tool("mine", "default", parameters=PARAMETERS), Tool("other", "elsewhere")]) as made:
        yield made


def test_the_report_lists_the_outcome_of_every_file(folder, registry):
    folder.put("bad.py", "raise RuntimeError('no database')")
    append_tool_manifest("bad.py", folder.path)
    report = load_tools(folder.path, registry)
    assert (report.source, report.loaded, report.entries) == (str(folder.path), 2, 3)
    assert "no database" in report.rejected[0].reason
    assert registry.report.rejected == report.rejected


def test_loading_a_directory_again_replaces_what_it_gave_before(folder, registry):
    load_tools(folder.path, registry)
    folder.put("a.py", script("a", "new"))
    folder.put("c.py", script("c"))
    (folder.path / "b.py").unlink()
    folder.allow("a.py", "c.py")
    load_tools(str(folder.path), registry)
    assert registry.tool_names() == ["a", "c", "mine", "other"]
    assert registry.get("default::a")[0].description == "Says new."
    assert len(registry.loaders) == 1


def test_a_directory_is_known_by_whatever_path_leads_to_it(folder, registry, tmp_path, monkeypatch):
    load_tools(folder.path, registry)
    monkeypatch.chdir(tmp_path)
    load_tools("tools", registry)
    (tmp_path / "link").symlink_to(folder.path)
    report = load_tools(tmp_path / "link", registry)
    assert len(registry.loaders) == 1 and report.loaded == 2


def test_tools_of_other_sources_stay_and_keep_their_names(folder, registry):
    folder.put("mine.py", script("mine"))
    append_tool_manifest("mine.py", folder.path)
    report = load_tools(folder.path, registry)
    assert registry.get("default::mine")[0].binding is None
    assert report.rejected[0].tool == "default::mine"
    assert (report.loaded, len(registry)) == (2, 4)


def test_two_directories_stand_side_by_side(folder, registry, tmp_path):
    second = Folder(tmp_path / "more").allow("c.py")
    second.put("c.py", script("c"))
    load_tools(folder.path, registry)
    load_tools(second.path, registry)
    load_tools(folder.path, registry)
    assert registry.tool_names("default") == ["a", "b", "c", "mine"]


def test_a_directory_that_a_loader_brought_keeps_its_namespace(folder):
    with ToolRegistry.from_loaders([ScriptToolLoader(folder.path, "yard")]) as registry:
        folder.put("a.py", script("a", "new"))
        load_tools(folder.path, registry)
        assert registry.namespaces() == ["yard"]
        assert registry.get("yard::a")[0].description == "Says new."


def test_a_directory_behind_a_wrapper_is_known_too(folder):
    with ToolRegistry.from_loaders([FilterToolLoader(ScriptToolLoader(folder.path), exclude=["*::b"])]) as registry:
        folder.put("a.py", script("a", "new"))
        load_tools(folder.path, registry)
        assert registry.tool_names() == ["a"] and registry.report.ok
        assert registry.get("default::a")[0].description == "Says new."


def test_many_threads_that_load_one_directory_register_it_once(folder, registry):
    threads = [threading.Thread(target=load_tools, args=(folder.path, registry)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.loaders) == 1 and len(registry) == 4 and not registry.report.rejected


def test_a_tool_that_was_taken_out_stays_out(folder, registry):
    load_tools(folder.path, registry)
    registry.remove("default::a")
    load_tools(folder.path, registry)
    assert "default::a" not in registry and "default::b" in registry


def test_anything_but_a_registry_is_refused(folder):
    with pytest.raises(TypeError, match="ToolRegistry"):
        load_tools(folder.path, {})


def test_append_takes_the_directory_tools_if_none_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    append_tool_manifest("c.py")
    assert load_tool_manifest_allowlist("tools") == {"a.py", "b.py", "c.py"}
    with pytest.raises(ManifestError):
        append_tool_manifest("../c.py")


def test_a_file_without_an_entry_is_an_orphan_that_the_report_names_and_an_entry_without_a_file_too(folder, registry):
    folder.put("written.py", script("written"))
    report = load_tools(folder.path, registry)
    assert "written.py" in report.rejected[0].where and report.loaded == 2
    append_tool_manifest("written.py", folder.path)
    assert load_tools(folder.path, registry).loaded == 3
    append_tool_manifest("promised.py", folder.path)
    report = load_tools(folder.path, registry)
    assert "promised.py" in report.rejected[0].where and report.loaded == 3
