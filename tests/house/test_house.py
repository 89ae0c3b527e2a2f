"""Rules of the house that no type checker knows."""

import ast
import gc
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toolyard
from benchmarks.house import find_repeated_classes

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "toolyard").rglob("*.py"))

PROMISED = {
    *("Tool", "ToolCall", "ToolResult", "Effects", "ErrorInfo", "TOOL_NAMESPACE_SEP", "TOOL_DEFAULT_NAMESPACE"),
    *("ToolRegistry", "ToolLoader", "FileToolLoader", "InlineToolLoader", "PythonToolLoader", "DomainToolLoader"),
    *("RESTToolLoader", "MCPToolLoader", "ScriptToolLoader"),
    *(
        "ToolEngine",
        "PythonToolEngine",
        "RESTToolEngine",
        "MCPToolEngine",
        "MultiToolEngine",
        "LMToolEngine",
        "Toolyard",
    ),
    "ReplayToolEngine",
    *("PythonBinding", "ScriptBinding", "RestBinding", "McpBinding"),
    *("StrictModel", "Registry", "UnknownToolError", "tool", "function_tool"),
    *("EmbeddingsEnrichment", "DataflowEnrichment", "OutputParametersEnrichment", "NeighborsEnrichment"),
    *("ToolEnrichment", "ToolSampler"),
    *(f"{verb}_tool_{kind}" for verb in ("register", "get") for kind in ("loader", "engine", "enrichment", "sampler")),
}

# Not in the contract, but needed by whoever uses what is.
EXTRA = {
    *("FilterToolLoader", "LoadReport", "RenameToolLoader", "RenamespaceToolLoader", "ToolContext"),
    *("Budget", "CallEvent", "Invocation", "Policy", "PostgresStore", "Redactor", "Rule", "Sessions", "SqliteStore"),
    *("Content", "MCPConfigToolLoader", "McpServer", "ScriptToolEngine", "Tracer"),
    *("Edge", "Feed", "Sample"),
}


def names(path):
    return path.relative_to(ROOT).as_posix()


def is_function(node):
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


@pytest.fixture(scope="module")
def trees():
    gc.disable()  # it would search the million nodes again and again
    try:
        return {path: ast.parse(path.read_text()) for path in SOURCES}
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def nodes(trees):
    """What the rules below are about, of every file: its functions and its imports."""
    wanted = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
    return {names(path): [node for node in ast.walk(tree) if isinstance(node, wanted)] for path, tree in trees.items()}


def test_files_stay_under_500_lines():
    assert [names(path) for path in SOURCES if len(path.read_text().splitlines()) > 500] == []


def test_a_public_class_name_exists_once(trees):
    assert find_repeated_classes(trees) == []


def test_functions_stay_under_50_lines(nodes):
    long = {
        name: [node.name for node in found if is_function(node) and node.end_lineno - node.lineno >= 50]
        for name, found in nodes.items()
    }
    assert {name: found for name, found in long.items() if found} == {}


def test_the_root_exports_what_the_contract_promises_and_every_error():
    from toolyard.model import errors

    public_errors = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ToolyardError)
    }
    assert set(toolyard.__all__) == PROMISED | public_errors | EXTRA
    assert all(getattr(toolyard, name) is not None for name in toolyard.__all__)
    assert toolyard.__all__ == sorted(toolyard.__all__)


def test_type_checkers_see_the_same_exports_as_the_interpreter():
    tree = ast.parse((ROOT / "src/toolyard/__init__.py").read_text())
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for node in branch.body for alias in node.names}
    assert seen == {*toolyard.__all__, "__version__"}


def test_a_misspelt_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="ToolRegistri"):
        toolyard.ToolRegistri


def test_every_folder_says_what_it_is_and_exports_only_what_exists():
    for path in SOURCES:
        if path.name == "__init__.py" and path.parent.name != "toolyard":
            module = importlib.import_module(".".join(path.parent.relative_to(ROOT / "src").parts))
            assert module.__doc__ and len(module.__doc__) > 10, names(path)
            exported = getattr(module, "__all__", [])
            assert len(exported) == len(set(exported)), names(path)
            assert all(hasattr(module, name) for name in exported), names(path)


def test_threads_and_loops_are_bridged_in_one_place():
    allowed = {"src/toolyard/loop/home.py"}
    for path in SOURCES:
        if names(path) in allowed or "/cli/" in names(path):
            continue
        text = path.read_text()
        for bridge in ("asyncio.run(", "new_event_loop", "run_coroutine_threadsafe"):
            assert bridge not in text, names(path)


def test_what_may_hold_numbers_of_callers_is_decoded_by_parsing():
    """`msgspec.json` takes 50 us for a float such as 1e308; `json_decoder` does not."""
    rooms = ("calls", "registry", "schema", "serving", "sessions")
    decoders = re.compile(r"msgspec\.json\.(?:decode|Decoder)\(")
    found = {names(path) for path in SOURCES if decoders.search(path.read_text())}
    # Names, seals and counts of ours; small arguments; texts whose numbers stay unread, or have a reader of their own.
    assert {name.removeprefix("src/toolyard/") for name in found if name.split("/")[2] in rooms} == {
        *(
            "calls/batch.py",
            "calls/faults.py",
            "registry/bind.py",
            "serving/monitoring.py",
            "serving/process/workers.py",
        ),
        *("serving/query.py", "sessions/state.py", "sessions/world_diff.py"),
    }


def test_nothing_inside_the_package_imports_from_its_root(nodes):
    for name, found in nodes.items():
        for node in found:
            if isinstance(node, ast.ImportFrom):
                assert node.module != "toolyard", name
            if isinstance(node, ast.Import):
                assert "toolyard" not in [alias.name for alias in node.names], name


def test_no_global_randomness_and_no_banners():
    for path in SOURCES:
        text = path.read_text()
        assert "import random" not in text, names(path)
        assert "# ===" not in text, names(path)
        assert "# ---" not in text, names(path)


def imported(code):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.process
def test_importing_the_root_loads_nothing_else():
    extra = imported("import toolyard") - imported("pass")
    assert extra == {"toolyard"}


@pytest.mark.process
def test_a_light_name_does_not_drag_in_the_heavy_parts():
    loaded = imported("from toolyard import Tool, ToolCall, ToolResult")
    heavy = {"pydantic", "yaml", "rich", "cyclopts", "jsonschema_rs", "asyncio", "docstring_parser", "dataclasses"}
    assert not loaded & heavy
    assert not imported("from toolyard import ToolRegistry") & {
        "pydantic",
        "yaml",
        "rich",
        "cyclopts",
        "docstring_parser",
    }


@pytest.mark.process
def test_version_answers_without_the_command_line_library():
    code = "import sys; sys.argv = ['toolyard', 'version']; from toolyard.__main__ import main; main()"
    assert not imported(code) & {"cyclopts", "rich", "pydantic", "msgspec"}


@pytest.mark.process
def test_the_project_names_no_machine_path_and_no_registry_host():
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in done.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".txt", ""} and path.is_file() and "tests/data" not in name:
            text = path.read_text(errors="replace")
            for word in ("/" + "work/", "/" + "root/", "pypi" + ".org", "pythonhosted" + ".org"):
                assert word not in text, name
