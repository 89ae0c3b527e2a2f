"""Loading a script directory again: new, changed, deleted and broken files, and what stays as it was."""

import os
import threading

import pytest
from script_folder import Folder, script
from waiting import SOON, until

from toolyard import MalformedSource, Tool, ToolRegistry
from toolyard.scripts import ScriptToolLoader
from toolyard.sources.scripts.loader import read_directory_state
from toolyard.sources.scripts.manifest import sha256_of

pytestmark = pytest.mark.process

NEW_EACH_TIME = "import os\nTOOL_DESCRIPTION = os.urandom(8).hex()\n"


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "tools")
    made.put("a.py", script("a") + NEW_EACH_TIME)
    made.put("b.py", script("b") + NEW_EACH_TIME)
    return made.allow("a.py", "b.py")


@pytest.fixture
def loader(folder):
    made = ScriptToolLoader(folder.path, load_timeout=5)
    yield made
    made.close()


def said(loader):
    return {tool.name: tool.description for tool in loader.load()}


def test_files_that_did_not_change_are_not_run_again(folder, loader):
    first = loader.load()
    again = loader.load()
    assert [tool.description for tool in again] == [tool.description for tool in first]
    assert all(new is old for new, old in zip(again, first, strict=True))
    folder.put("a.py", script("a", "other"))
    changed = said(loader)
    assert changed == {"a": "Says other.", "b": first[1].description}


def test_an_edit_gives_the_new_code_though_size_and_time_are_the_same(folder, loader):
    path = folder.put("a.py", script("a", "one"))
    assert said(loader)["a"] == "Says one."
    before = path.stat()
    folder.put("a.py", script("a", "two"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert said(loader)["a"] == "Says two."
    assert b'"two"' in loader.load()[0].binding.code


def test_what_is_in_flight_keeps_the_code_it_began_with(folder, loader):
    folder.put("a.py", script("a", "one"))
    [old, _] = loader.load()
    folder.put("a.py", script("a", "two"))
    [new, _] = loader.load()
    assert b'"one"' in old.binding.code and b'"two"' in new.binding.code
    assert old.binding.sha256 != new.binding.sha256


def test_a_deleted_file_takes_its_tools_with_it_and_so_does_a_deleted_entry(folder, loader):
    assert set(said(loader)) == {"a", "b"}
    (folder.path / "a.py").unlink()
    assert set(said(loader)) == {"b"}
    folder.allow()
    assert said(loader) == {}


def test_a_manifest_that_is_gone_or_broken_shuts_the_gate(folder, loader):
    before = said(loader)
    text = folder.manifest.read_text()
    folder.manifest.write_text("{")
    assert said(loader) == {}
    folder.manifest.unlink()
    assert said(loader) == {}
    folder.manifest.write_text(text)
    again = said(loader)
    assert set(again) == set(before)


@pytest.mark.parametrize("text", ["def (", "raise RuntimeError('no')", "import os; os._exit(1)", script("x::y"), ""])
def test_a_broken_edit_keeps_the_last_good_version_and_is_reported(folder, loader, text):
    before = said(loader)
    folder.put("a.py", text)
    assert said(loader) == before
    [rejected] = loader.report.rejected
    assert rejected.where.endswith("a.py") and "last good version is still served" in rejected.reason
    assert said(loader) == before, "and the next time too"
    folder.put("a.py", script("a", "mended"))
    assert said(loader)["a"] == "Says mended."
    assert loader.report.rejected == ()


def test_one_bad_entry_of_an_edited_file_keeps_all_of_its_last_good_version(folder, loader):
    two = "TOOLS = [dict(name=n, description={0!r}, parameters={{}}, handler=print) for n in ({1!r}, 'other')]"
    folder.put("a.py", two.format("old", "good"))
    assert said(loader) | {"b": ""} == {"good": "old", "other": "old", "b": ""}
    folder.put("a.py", two.format("new", "bad::name"))
    assert said(loader) | {"b": ""} == {"good": "old", "other": "old", "b": ""}
    assert loader.report.rejected[0].tool == "bad::name"


def test_a_file_that_failed_is_tried_again_since_its_surroundings_may_be_others(folder, monkeypatch):
    loader = ScriptToolLoader(folder.path, env=["YARD_IS_READY"])
    folder.put("a.py", script("a") + "import os\nos.environ['YARD_IS_READY']")
    assert set(said(loader)) == {"b"}
    monkeypatch.setenv("YARD_IS_READY", "yes")
    assert set(said(loader)) == {"a", "b"}


def test_a_source_that_raises_keeps_its_last_good_tools_and_is_stale(folder):
    with ToolRegistry.from_loaders([ScriptToolLoader(folder.path, on_error="raise")]) as registry:
        before = registry.get("default::a")
        folder.put("a.py", "def (")
        report = registry.refresh()
        assert report.sources[0].state == "stale" and "a.py" in report.sources[0].error
        assert registry.get("default::a") == before
        with pytest.raises(MalformedSource):
            registry.refresh(strict=True)


def test_a_deleted_file_that_comes_back_broken_has_no_last_good_version(folder, loader):
    assert "a" in said(loader)
    (folder.path / "a.py").unlink()
    assert "a" not in said(loader)
    folder.put("a.py", "def (")
    assert "a" not in said(loader)


def test_a_file_that_became_a_link_or_open_to_all_is_dropped(folder, loader, tmp_path):
    assert set(said(loader)) == {"a", "b"}
    (folder.path / "a.py").chmod(0o666)
    (folder.path / "b.py").rename(tmp_path / "b.py")
    (folder.path / "b.py").symlink_to(tmp_path / "b.py")
    assert said(loader) == {}


def test_bytes_that_are_not_those_of_the_hash_keep_the_approved_version_only(folder, loader):
    path = folder.put("a.py", script("a", "one"))
    folder.allow(**{"a.py": sha256_of(path.read_bytes())})
    assert said(loader) == {"a": "Says one."}
    folder.put("a.py", script("a", "two"))
    assert said(loader) == {"a": "Says one."}
    assert "content does not match the hash" in loader.report.rejected[0].reason
    folder.allow(**{"a.py": sha256_of(path.read_bytes())})
    assert said(loader) == {"a": "Says two."}
    folder.allow(**{"a.py": sha256_of(b"something else")})
    assert said(loader) == {}, "neither what is there nor what was there is approved"


def test_a_registry_swaps_all_changes_at_once_and_leaves_other_sources_alone(folder, loader):
    with ToolRegistry.from_loaders([loader]) as registry:
        registry.add(Tool("mine", "default"))
        folder.put("c.py", script("c"))
        folder.put("a.py", script("a", "other"))
        (folder.path / "b.py").unlink()
        folder.allow("a.py", "c.py")
        generation = registry.generation
        seen = []
        stop = threading.Event()

        def watch():
            while not stop.is_set():
                seen.append(tuple(tool.name for tool in registry))

        thread = threading.Thread(target=watch)
        thread.start()
        registry.refresh()
        stop.set()
        thread.join()
        assert registry.generation == generation + 1
        assert set(seen) <= {("a", "b", "mine"), ("a", "c", "mine")}
        assert [tool.name for tool in registry] == ["a", "c", "mine"]
        assert registry.get("default::a")[0].description == "Says other."


def test_nothing_is_watched_unless_it_was_asked_for(folder, loader):
    with ToolRegistry.from_loaders([loader]):
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolyard-watch")]


def test_a_watched_directory_is_loaded_again_by_itself(folder):
    registry = ToolRegistry.from_loaders([ScriptToolLoader(folder.path, watch=True)])
    with registry:
        assert [thread for thread in threading.enumerate() if thread.name.startswith("toolyard-watch")]
        folder.put("a.py", script("a", "edited"))
        assert until(lambda: registry.get("default::a")[0].description == "Says edited.")
        folder.put("c.py", script("c"))
        folder.allow("a.py", "b.py", "c.py")
        assert until(lambda: "default::c" in registry)
        folder.put("a.py", "def (")
        assert until(lambda: registry.report.rejected)
        assert registry.get("default::a")[0].description == "Says edited."
        (folder.path / "b.py").unlink()
        assert until(lambda: "default::b" not in registry)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("toolyard-watch")]


def test_a_change_between_loading_and_watching_is_seen(folder):
    loader = ScriptToolLoader(folder.path, watch=True)
    loader.load()
    folder.put("a.py", script("a", "edited"))
    told = threading.Event()
    loader.watch(told.set)
    assert told.wait(SOON)
    loader.close()


def test_edits_modes_and_names_are_seen(folder):
    first = read_directory_state(folder.path)
    assert read_directory_state(folder.path) == first
    before, text = (folder.path / "a.py").stat(), (folder.path / "a.py").read_text()
    folder.put("a.py", text.swapcase())
    os.utime(folder.path / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    second = read_directory_state(folder.path)
    assert second != first
    (folder.path / "a.py").chmod(0o600)
    third = read_directory_state(folder.path)
    assert third != second
    (folder.path / "b.py").unlink()
    fourth = read_directory_state(folder.path)
    assert fourth != third
    os.mkfifo(folder.path / "b.py")
    assert read_directory_state(folder.path) != fourth
    folder.allow("../a.py", "/etc/hosts", "n\0l.py")
    assert [name for name, _ in read_directory_state(folder.path)] == ["_manifest.json"], "nothing outside is looked at"
    folder.manifest.write_text("{")
    broken = read_directory_state(folder.path)
    assert broken == read_directory_state(folder.path) != first
