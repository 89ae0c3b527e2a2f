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


def test_the_first_file_has_a_name_that_two_want_and_the_other_is_listed(folder, loader):
    folder.put("a.py", script("b", "edited"))
    for _ in range(2):
        assert said(loader) == {"b": "Says edited."}
        assert "declared by a.py and by b.py" in reasons(loader)[0]
    folder.put("a.py", script("a", "mended"))
    assert said(loader) == {"a": "Says mended.", "b": "Says second."}
    assert reasons(loader) == []


@pytest.mark.parametrize("name", ["a", "x"])
def test_an_alias_gives_way_to_a_name(folder, loader, name):
    folder.put("a.py", aliased(name, "b"))
    assert said(loader) == {"b": "Says second."}
    assert "is also declared by b.py" in reasons(loader)[0]


def test_a_name_goes_to_the_next_file_as_soon_as_it_is_free(folder, loader):
    folder.put("a.py", script("b", "edited"))
    folder.put("b.py", script("c", "moved"))
    assert said(loader) == {"b": "Says edited.", "c": "Says moved."}


def test_two_files_may_swap_their_names_in_one_go(folder, loader):
    folder.put("a.py", script("b", "first"))
    folder.put("b.py", script("a", "second"))
    assert said(loader) == {"b": "Says first.", "a": "Says second."}
    assert reasons(loader) == []


def test_a_broken_file_keeps_the_name_of_its_last_good_version_if_it_is_the_first(folder, loader):
    folder.put("a.py", "def (")
    folder.put("b.py", script("a", "edited"))
    assert said(loader) == {"a": "Says first."}
    assert [reason.endswith("is still served") for reason in reasons(loader)] == [True, False]


def test_a_tool_that_was_left_out_comes_back_with_its_file_unchanged(folder, loader):
    two = "TOOLS = [dict(name=n, description='two', parameters={}, handler=print) for n in ('b', 'd')]"
    folder.put("c.py", two)
    assert said(loader) == {"a": "Says first.", "b": "Says second.", "d": "two"}
    folder.put("c.py", "def (")
    assert said(loader) == {"a": "Says first.", "b": "Says second.", "d": "two"}
    folder.put("c.py", two)
    (folder.path / "b.py").unlink()
    assert said(loader) == {"a": "Says first.", "b": "two", "d": "two"}


def test_where_duplicates_raise_a_colliding_edit_does(folder):
    loader = ScriptToolLoader(folder.path, on_duplicate="raise")
    loader.load()
    folder.put("a.py", script("b", "edited"))
    with pytest.raises(DuplicateToolError, match=r"declared by a\.py and by b\.py"):
        loader.load()
