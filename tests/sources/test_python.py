import json
import sys
import types

import pytest

from toolyard import (
    MalformedSource,
    PythonToolLoader,
    Registry,
    SourceUnavailable,
    StrictModel,
    ToolRegistry,
    Toolyard,
    tool,
)


@tool
def shout(text: str, times: int = 1) -> str:
    """Say it loud.

    Args:
        text: What to say.
        times: How often.
    """
    return text.upper() * times


@tool(name="whisper", namespace="quiet", tags=["calm"])
async def low(text: str) -> str:
    """Say it low."""
    return text.lower()


def plain(x: int) -> int:
    """Not marked."""
    return x


class Counter:
    def __init__(self, start=0):
        self.count = start

    @property
    def explosive(self):
        raise RuntimeError("a loader must not read properties")

    @tool
    def bump(self, by: int = 1) -> int:
        """Count up."""
        self.count += by
        return self.count

    @tool
    @staticmethod
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    def hidden(self) -> None:
        """Not marked."""


class Needy(Counter):
    def __init__(self, start):
        super().__init__(start)


def load(target, **options):
    return ToolRegistry.from_loaders([PythonToolLoader(target, **{"namespace": "py", **options})])


def test_a_module_gives_its_marked_functions(monkeypatch):
    module = types.ModuleType("yard_test_module")
    module.shout, module.low, module.plain = shout, low, plain
    monkeypatch.setitem(sys.modules, "yard_test_module", module)
    for target in (module, "yard_test_module"):
        registry = load(target)
        assert [t.qualified_name for t in registry] == ["py::shout", "quiet::whisper"]
        assert registry.dispatch("py::shout", {"text": "a", "times": 2}) == "AA"
        assert registry.dispatch("quiet::whisper", {"text": "A"}) == "a"
    assert registry.get("quiet::whisper")[0].tags == ("calm",)


def test_a_decorated_function_stays_what_it_was():
    assert shout("a") == "A"
    assert shout.__name__ == "shout"


def test_a_dotted_path_reaches_attributes_by_dot_or_colon(monkeypatch):
    module = types.ModuleType("yard_test_module")
    module.Counter, module.plain = Counter, plain
    monkeypatch.setitem(sys.modules, "yard_test_module", module)
    assert load("yard_test_module.Counter").tool_names() == ["bump", "double"]
    assert load("yard_test_module:plain").tool_names() == ["plain"]


def test_an_instance_keeps_its_state_and_a_class_is_made_first():
    counter = Counter(10)
    registry = load(counter)
    assert registry.dispatch("bump", {}) == 11
    assert counter.count == 11
    assert load(Counter).dispatch("bump", {"by": 5}) == 5
    assert load(Counter).dispatch("double", {"x": 5}) == 10
    assert "self" not in registry.get("py::bump")[0].parameters["properties"]


def test_a_class_that_needs_arguments_says_so():
    with pytest.raises(MalformedSource, match="pass an instance"):
        load(Needy)
    assert load(Needy(3)).dispatch("bump", {}) == 4


def test_functions_and_lists_of_functions_load_without_a_mark():
    assert load(plain).dispatch("plain", {"x": 3}) == 3
    assert load([plain, shout]).tool_names() == ["plain", "shout"]


def test_a_typed_registry_is_a_source():
    typed = Registry()

    class In(StrictModel):
        n: int

    class Out(StrictModel):
        n: int

    @typed.register("inc", In)
    def inc(payload: In) -> Out:
        """Add one."""
        return Out(n=payload.n + 1)

    registry = load(typed)
    assert registry.get("py::inc")[0].description == "Add one."
    assert registry.get("py::inc")[0].parameters["additionalProperties"] is False
    assert registry.dispatch("py::inc", {"n": 1}) == Out(n=2)


def test_a_module_without_tools_and_a_path_that_does_not_import_are_told_apart():
    with pytest.raises(MalformedSource, match="@tool"):
        load(types.ModuleType("empty"))
    with pytest.raises(SourceUnavailable, match="no_such_module_anywhere"):
        load("no_such_module_anywhere.sub")
    with pytest.raises(SourceUnavailable, match="nothing_here"):
        load("json.nothing_here")


def test_a_function_that_cannot_be_a_tool_is_named_or_listed():
    def variadic(*values: int) -> int:
        return sum(values)

    with pytest.raises(MalformedSource, match="variadic"):
        load([plain, variadic])
    registry = load([plain, variadic], on_error="skip")
    assert registry.tool_names() == ["plain"]
    assert registry.report.rejected[0].tool == "variadic"


def test_a_file_is_run_anew_by_every_load_and_a_broken_edit_keeps_the_last_good_tools(tmp_path):
    path = tmp_path / "json.py"
    path.write_text("from toolyard import tool\n@tool\ndef hello() -> str:\n    return 'one'\n")
    registry = load(str(path))
    assert registry.dispatch("hello", {}) == "one"
    path.write_text("from toolyard import tool\n@tool\ndef hello() -> str:\n    return 'two'\n")
    assert registry.refresh().ok
    assert registry.dispatch("hello", {}) == "two"
    path.write_text("def hello(:\n")
    report = registry.refresh()
    assert report.sources[0].state == "stale"
    assert "SyntaxError" in report.sources[0].error
    assert registry.dispatch("hello", {}) == "two"
    import json

    assert json.dumps([]) == "[]"


def test_a_missing_file_is_unavailable(tmp_path):
    with pytest.raises(SourceUnavailable, match=r"gone\.py: no such file$"):
        load(str(tmp_path / "gone.py"))


@pytest.mark.parametrize("body", ["1/0", "raise SystemExit(3)", "def broken(:"])
def test_a_module_that_fails_to_import_is_a_malformed_source_however_it_is_named(tmp_path, monkeypatch, body):
    (tmp_path / "yard_bad_module.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    for target in ("yard_bad_module", str(tmp_path / "yard_bad_module.py")):
        with pytest.raises(MalformedSource, match="yard_bad_module"):
            load(target)


@pytest.mark.parametrize("target", ["", ":x", ".rel"])
def test_a_path_that_names_nothing_is_an_error_of_ours(target):
    with pytest.raises((MalformedSource, SourceUnavailable)):
        load(target)


def test_one_function_under_two_names_is_one_tool():
    module = types.ModuleType("twice")
    module.shout = module.again = shout
    assert load(module).tool_names() == ["shout"]


PLAIN = """
import functools, math
from textwrap import dedent
def add(a: int, b: int) -> int:
    "Add."
    return a + b
def untyped(a, b):
    return a + b
async def later(x: int) -> int:
    return _half(x)
@functools.cache
def cached(x: int) -> int:
    return x
def _half(x):
    return x // 2
def many(*values: int): ...
class Thing: ...
plus = add
square = lambda x: x * x
"""


def test_a_file_of_plain_functions_gives_its_public_ones_and_lists_what_cannot_be_a_tool(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLAIN)
    registry = load(str(path))
    assert registry.tool_names() == ["add", "cached", "later", "untyped"]
    assert registry.dispatch("add", {"a": 1, "b": 2}) == registry.dispatch("untyped", {"a": 1, "b": 2}) == 3
    assert [item.tool for item in registry.report.rejected] == ["many"]


def test_a_plain_function_that_cannot_be_a_tool_is_an_error_if_that_was_asked_for(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLAIN)
    with pytest.raises(MalformedSource, match="many"):
        load(str(path), on_error="raise")
    assert [item.tool for item in load(str(path), on_error="skip").report.rejected] == ["many"]


def test_decorated_functions_and_dunder_all_say_which_are_meant(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(f"{PLAIN}\n__all__ = ['later', 'dedent', 'math']")
    assert load(str(path)).tool_names() == ["dedent", "later"]
    path.write_text(f"from toolyard import tool\n{PLAIN}\nadd = tool(add)\n")
    assert load(str(path)).tool_names() == ["add"]
    path.write_text("import os\nfrom json import dumps\nNUMBER = 1\ndef _own(): ...\n")
    with pytest.raises(MalformedSource, match="no public function is defined there$"):
        load(str(path))


def test_a_package_without_functions_of_its_own_says_which_of_its_modules_has_them(tmp_path, monkeypatch):
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package/__init__.py").write_text("from json import dumps\nfrom .inner import add\n")
    (tmp_path / "my_package/inner.py").write_text("def add(a: int, b: int) -> int: return a + b\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MalformedSource, match=r"the functions that it imports, name my_package\.inner$"):
        load("my_package")


def test_whatever_dunder_all_names_and_can_be_called_is_a_tool_under_that_name(tmp_path):
    path = tmp_path / "mine.py"
    objects = (
        "@dataclasses.dataclass\nclass Plus:\n    n: int\n    def __call__(self, a: int) -> int: return a + self.n\n"
    )
    names = ["half", "square", "plus", "shout", "sqrt", "Thing", "many"]
    path.write_text(
        f"import dataclasses\nfrom math import sqrt\n{PLAIN}\n{objects}half = functools.partial(untyped, b=2)\n"
        f"plus = Plus(2)\nshout = 'abc'.upper\n__all__ = {names}\n"
    )
    registry = load(str(path))
    assert registry.tool_names() == ["half", "plus", "sqrt", "square", "upper"]
    assert registry.dispatch("half", {"a": 1}) == registry.dispatch("plus", {"a": 1}) == 3
    assert [item.tool for item in registry.report.rejected] == ["many"]


def test_what_dunder_all_names_beside_functions_may_be_types_and_objects_without_a_hash(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import dataclasses\nfrom typing import Annotated, Any, Literal, NewType\n"
        "@dataclasses.dataclass(frozen=True)\nclass Plus:\n    n: dict\n    def __call__(self, a: int) -> int: return a\n"
        "one, two = Plus({}), Plus({})\nMode, Id, Json = Literal['a'], NewType('Id', int), dict[str, Any]\n"
        "Even = Annotated[int, 'even']\n__all__ = ['one', 'two', 'Mode', 'Id', 'Json', 'Even']\n"
    )
    registry = load(str(path), on_error="raise")
    assert (registry.tool_names(), registry.report.ok) == (["one", "two"], True)


def test_an_attribute_whose_module_cannot_import_it_is_unavailable(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def __getattr__(name):\n    raise ImportError(f'install the extra of {name}')\n")
    with pytest.raises(SourceUnavailable, match="install the extra of desk"):
        load(f"{path}:desk")


def test_an_object_that_can_be_called_keeps_its_methods_too():
    class LongStore:
        def __call__(self, key: str) -> str:
            return f"get {key}"

        def put_away(self, key: str) -> str:
            return f"put {key}"

        def many(self, *keys: str): ...

    for target in (LongStore(), LongStore):
        registry = load(target)
        assert registry.tool_names() == ["long_store", "put_away"]
        assert registry.dispatch("long_store", {"key": "a"}) == "get a"
        assert [item.tool for item in registry.report.rejected] == ["many"]


def test_a_part_of_a_file_is_named_behind_a_colon(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(f"{PLAIN}class Desk:\n    def open_drawer(self, number: int) -> int: return number\n")
    assert load(f"{path}:Desk").tool_names() == ["open_drawer"]
    assert load(f"{path}:add").tool_names() == ["add"]
    with pytest.raises(SourceUnavailable, match="no attribute 'Dusk'"):
        load(f"{path}:Dusk")
    config = {"tools": [{"type": "python", "target": "mine.py:Desk", "namespace": "d"}]}
    (tmp_path / "yard.json").write_text(json.dumps(config))
    with Toolyard.from_config(tmp_path / "yard.json") as yard:
        assert yard.tool_registry.tool_names() == ["open_drawer"]


def test_a_file_without_its_ending_is_told_how_files_are_written():
    with pytest.raises(SourceUnavailable, match=r"No module named 'my_own_tools'; .* my_own_tools\.py"):
        load("my_own_tools")


def test_an_import_for_type_checkers_that_exits_costs_its_function_alone(tmp_path, monkeypatch):
    (tmp_path / "quits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    head = "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import quits\n"
    path = tmp_path / "mine.py"
    path.write_text(f"{head}def f(x: quits.X): ...\ndef add(a: int): ...\n")
    assert load(str(path), on_error="skip").tool_names() == ["add"]


def test_a_package_that_a_module_imports_and_that_is_missing_is_no_mistake_in_the_target(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import more_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SourceUnavailable, match=r"No module named 'more_that_is_missing'$"):
        load("needs_more")


@pytest.mark.parametrize("target", [".", "./tools", "../tools", "./tools:Drawer"])
def test_a_path_that_is_no_python_file_is_told_what_a_target_is(target):
    with pytest.raises(SourceUnavailable, match=r"is no module; a file is written with its ending, \.py; a folder"):
        load(target)


def test_a_class_without_a_decorated_method_gives_its_own_public_methods():
    class Desk(types.SimpleNamespace):
        @property
        def explosive(self):
            raise RuntimeError("a loader must not read properties")

        def open_drawer(self, number: int) -> int:
            return number

        @staticmethod
        def tidy() -> str:
            return "done"

        def _locked(self) -> None: ...

    assert load(Desk).tool_names() == load(Desk()).tool_names() == ["open_drawer", "tidy"]


def test_a_duplicate_is_told_apart_from_its_twin_by_the_function(tmp_path, monkeypatch):
    text = "from toolyard import tool\n@tool(name='x')\ndef one(): ...\n@tool(name='x')\ndef two(): ...\n"
    (tmp_path / "twins.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    loader = PythonToolLoader("twins.py", "n", on_duplicate="skip")
    with ToolRegistry.from_loaders([loader]) as registry:
        [rejected] = registry.report.rejected
    assert rejected.where.endswith("twins.py.two") and "twins.py.one and" in rejected.reason


def test_what_a_file_raises_while_it_runs_is_told_with_the_line_of_the_file(tmp_path):
    (tmp_path / "helper.py").write_text("def read(name):\n    raise LookupError(name)\n")
    (tmp_path / "t.py").write_text("import helper\n\n\ndef f(): ...\n\n\nKEY = helper.read('API_KEY')\n")
    with pytest.raises(MalformedSource, match="LookupError while running it, in line 7: API_KEY"):
        PythonToolLoader(str(tmp_path / "t.py")).load()


def test_a_part_that_is_not_in_a_file_is_told_with_the_nearest_and_without_a_name_of_ours(tmp_path):
    (tmp_path / "t.py").write_text("class Drawer:\n    def open(self): ...\n")
    with pytest.raises(SourceUnavailable, match=r"no attribute 'Drawr'; did you mean 'Drawer'\?") as caught:
        PythonToolLoader(f"{tmp_path / 't.py'}:Drawr").load()
    assert "toolyard_file" not in str(caught.value)
