"""Who keeps a name that two files want, when a directory is loaded again."""

import pytest
from script_folder import Folder, script

from toolyard import DuplicateToolError
from toolyard.scripts import ScriptToolLoader

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "tools")
    made.put("a.py", script("a", "first"))
    made.put("b.py", script("b", "second"))
    return made.allow("a.py", "b.py", "c.py")


@pytest.fixture
def loader(folder):
    made = ScriptToolLoader(folder.path, load_timeout=5)
    assert said(made) == {"a": "Says first.", "b": "Says second."}
    return made


def said(loader):
    return {tool.name: tool.description for tool in loader.load()}


def reasons(loader):
    return [item.reason for item in loader.report.rejected if "not in the directory" not in item.reason]


def aliased(name, *aliases):
    return script(name) + f"TOOL_ALIASES = {list(aliases)}\n"


@pytest.mark.parametrize("text", [script("b", "edited"), aliased("a", "b"), aliased("x", "b")])
def test_an_edit_that_wants_a_name_which_is_served_keeps_the_last_version_of_both_files(folder, loader, text):
    before = said(loader)
    folder.put("a.py", text)
    for _ in range(2):
        assert said(loader) == before
        [reason] = reasons(loader)
        assert "duplicate tool" in reason and reason.endswith("; its last good version is still served")
    folder.put("a.py", script("a", "mended"))
    assert said(loader) == {"a": "Says mended.", "b": "Says second."}
    assert reasons(loader) == []


def test_the_edit_is_served_as_soon_as_the_name_is_free(folder, loader):
    folder.put("a.py", script("b", "edited"))
    assert said(loader)["b"] == "Says second."
    folder.put("b.py", script("c", "moved"))
    assert said(loader) == {"b": "Says edited.", "c": "Says moved."}


def test_two_files_may_swap_their_names_in_one_go(folder, loader):
    folder.put("a.py", script("b", "first"))
    folder.put("b.py", script("a", "second"))
    assert said(loader) == {"b": "Says first.", "a": "Says second."}
    assert reasons(loader) == []


def test_of_two_edits_that_want_the_same_new_name_the_first_has_it_and_the_other_stays(folder, loader):
    folder.put("a.py", aliased("a", "x"))
    folder.put("b.py", aliased("b", "x"))
    assert {tool.name: tool.aliases for tool in loader.load()} == {"a": ("x",), "b": ()}
    assert reasons(loader)[0].endswith("is still served")


def test_an_edit_that_takes_the_name_of_a_file_that_broke_meanwhile_waits(folder, loader):
    before = said(loader)
    folder.put("a.py", script("b", "edited"))
    folder.put("b.py", "def (")
    assert said(loader) == before
    assert all(reason.endswith("is still served") for reason in reasons(loader))


def test_a_new_file_takes_no_name_from_one_that_is_served_and_nothing_of_it_is_called_stale(folder, loader):
    before = said(loader)
    folder.put("0.py", script("b", "thief"))
    folder.allow("0.py", "a.py", "b.py")
    for _ in range(2):
        assert said(loader) == before
        [reason] = reasons(loader)
        assert "declared by b.py and by 0.py" in reason and "served" not in reason
    (folder.path / "b.py").unlink()
    assert said(loader) == {"a": "Says first.", "b": "Says thief."}


def test_a_tool_that_was_left_out_comes_back_with_its_file_unchanged(folder, loader):
    two = "TOOLS = [dict(name=n, description='two', parameters={}, handler=print) for n in ('b', 'd')]"
    folder.put("c.py", two)
    assert said(loader) == {"a": "Says first.", "b": "Says second.", "d": "two"}
    folder.put("c.py", "def (")
    assert said(loader) == {"a": "Says first.", "b": "Says second.", "d": "two"}
    folder.put("c.py", two)
    (folder.path / "b.py").unlink()
    assert said(loader) == {"a": "Says first.", "b": "two", "d": "two"}


def test_a_file_that_breaks_after_all_its_tools_were_left_out_is_not_called_stale(folder, loader):
    folder.put("c.py", script("b", "thief"))
    loader.load()
    folder.put("c.py", "def (")
    assert said(loader) == {"a": "Says first.", "b": "Says second."}
    assert not any("still served" in reason for reason in reasons(loader))


def test_where_duplicates_raise_a_colliding_edit_does(folder):
    loader = ScriptToolLoader(folder.path, on_duplicate="raise")
    loader.load()
    folder.put("a.py", script("b", "edited"))
    with pytest.raises(DuplicateToolError, match=r"declared by b\.py and by a\.py"):
        loader.load()
