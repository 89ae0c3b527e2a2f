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


def test_two_files_may_swap_their_names_in_one_go(folder, loader):
    folder.put("a.py", script("b", "first"))
    folder.put("b.py", script("a", "second"))
    assert said(loader) == {"b": "Says first.", "a": "Says second."}
    assert reasons(loader) == []


def test_a_tool_that_was_left_out_comes_back_with_its_file_unchanged(folder, loader):
    two = "TOOLS = [dict(name=n, description='two', parameters={}, handler=print) for n in ('b', 'd')]"
    folder.put("c.py", two)
    assert said(loader) == {"a": "Says first.", "b": "Says second.", "d": "two"}
    folder.put("c.py", "def (")
    assert said(loader) == {"a": "Says first.", "b": "Says second.", "d": "two"}
    folder.put("c.py", two)
    (folder.path / "b.py").unlink()
    assert said(loader) == {"a": "Says first.", "b": "two", "d": "two"}


@pytest.mark.parametrize("text", [script("b", "edited"), aliased("a", "b")])
def test_of_two_files_that_want_one_name_the_first_has_it_and_an_alias_gives_way(folder, loader, text):
    folder.put("a.py", text)
    assert said(loader)["b"] == ("Says edited." if "edited" in text else "Says second.")
    [reason] = reasons(loader)
    assert "duplicate tool" in reason and "a.py" in reason and "b.py" in reason
    (folder.path / "b.py").unlink()
    loader.load()
    assert reasons(loader) == []


def test_where_duplicates_raise_a_colliding_edit_does(folder):
    loader = ScriptToolLoader(folder.path, on_duplicate="raise")
    loader.load()
    folder.put("a.py", script("b", "edited"))
    with pytest.raises(DuplicateToolError, match=r"declared by a\.py and by b\.py"):
        loader.load()
