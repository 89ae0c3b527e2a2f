"""`make house`: size, import cycles, names, and how many files one call passes through.

Counts with `ast` and a profile hook. Prints the figures with their bounds, and exits 1 if one is missed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "toolyard"
TESTS = ROOT / "tests"

Row = tuple[str, float, float, bool]
"""Label, value, bound, and whether the bound is an upper one."""


def count_rows() -> list[Row]:
    """The figures that need no run of toolyard."""
    paths = sorted(PACKAGE.rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in paths}
    lines = sum(len(path.read_text().splitlines()) for path in paths)
    return [
        ("lines of src", lines, 65_000, True),
        ("files of src", len(paths), 350, True),
        ("import circles", len(find_circles(trees)), 0, True),
        ("public class names used twice", len(find_repeated_classes(trees)), 0, True),
        ("one-word function names, %", share_of_one_word_names(trees), 45, True),
        ("modules with a same-named test, %", share_of_mirrored_modules(paths), 75, False),
    ]


def module_name(path: Path) -> str:
    """`toolyard.a.b` for `src/toolyard/a/b.py`, `toolyard.a` for its `__init__.py`."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_circles(trees: dict[Path, ast.Module]) -> list[list[str]]:
    """Import cycles between modules, including imports inside functions and those for type checking only."""
    modules = {module_name(path): path for path in trees}
    edges = {
        name: {target for target in _imported_modules(trees[path], modules) if target != name}
        for name, path in modules.items()
        # The `__init__.py` files import what is inside on purpose.
        if path.name != "__init__.py"
    }
    return [sorted(group) for group in _strong_components(edges) if len(group) > 1]


def _imported_modules(tree: ast.Module, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _strong_components(edges: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's algorithm, without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    found: list[list[str]] = []
    for root in edges:
        if root in order:
            continue
        work = [(root, iter(sorted(edges[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        waiting.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in edges:
                    continue
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    waiting.add(target)
                    work.append((target, iter(sorted(edges[target]))))
                    break
                if target in waiting:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    found.append(stack[at:])
                    waiting.difference_update(stack[at:])
                    del stack[at:]
    return found


def find_repeated_classes(trees: dict[Path, ast.Module]) -> list[str]:
    """Names of public classes that are defined in more than one module."""
    names = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, times in names.items() if times > 1)


def one_word_names(trees: dict[Path, ast.Module]) -> tuple[Counter[str], int]:
    """Functions with a single-word name, and the number of all functions; special methods are not counted."""
    every = [
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]
    return Counter(name for name in every if "_" not in name.strip("_")), len(every)


def share_of_one_word_names(trees: dict[Path, ast.Module]) -> float:
    """Percentage of all function names."""
    single, every = one_word_names(trees)
    return 100 * single.total() / every


def share_of_mirrored_modules(paths: list[Path]) -> float:
    """Percentage of modules that have a `tests/<folder>/test_<module>.py`."""
    modules = [path.relative_to(PACKAGE) for path in paths if not path.name.startswith("__")]
    mirrored = [module for module in modules if (TESTS / module.parent / f"test_{module.name}").is_file()]
    return 100 * len(mirrored) / len(modules)


_IS_OURS = re.compile(r".*/src/toolyard/(?!tools/)").match


class Walk:
    """The files and functions of the package that some work enters, in any thread."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, int]] = set()

    def note(self, frame: Any, event: str, _argument: Any) -> None:
        """The profile hook."""
        code = frame.f_code
        # Comprehensions and the called tool itself are not counted.
        if event == "call" and _IS_OURS(code.co_filename) and not code.co_name.startswith("<"):
            self.seen.add((code.co_filename, code.co_name, code.co_firstlineno))

    @property
    def files(self) -> int:
        """Number of files."""
        return len({path for path, _, _ in self.seen})


def walk_of(work: Callable[[], Any]) -> Walk:
    """Run `work`, and record what it enters in this thread."""
    walk = Walk()
    sys.setprofile(walk.note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return walk


def walk_execute() -> Walk:
    """A warm `execute` of a plain function under a policy."""
    from toolyard import Policy, PythonToolEngine, Rule, ToolCall, ToolRegistry, function_tool

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    registry = ToolRegistry([function_tool(add, namespace="desk")])
    with PythonToolEngine(registry, policy=Policy([Rule("allow", "desk::*")], "deny")) as engine:
        engine.setup("s")
        calls = [ToolCall("desk::add", {"a": 1, "b": 2})]
        for _ in range(3):
            assert engine.execute("s", calls)[0].result == 3
        return walk_of(lambda: engine.execute("s", calls))


def walk_config() -> Walk:
    """Build a `Toolyard` from one file source, one engine and a policy, with all modules already imported."""
    from toolyard import Toolyard

    config = {
        "tools": {
            "registry": [{"type": "file", "path": str(ROOT / "examples/catalogs/weather.yaml"), "engine": "mine"}],
            "engines": {"mine": {"type": "python"}},
        },
        "policy": {"default": "deny", "rules": [{"allow": "weather_api::*"}]},
    }
    Toolyard.from_config(config).close()
    made: list[Toolyard] = []
    walk = walk_of(lambda: made.append(Toolyard.from_config(config)))
    made[0].close()
    return walk


_CHILD = """
import json, signal, sys, threading
sys.path.insert(0, {root!r})
from benchmarks.house import Walk
walk = Walk()
signal.signal(signal.SIGUSR1, lambda *_: walk.seen.clear())
signal.signal(signal.SIGUSR2, lambda *_: open({out!r}, "w").write(json.dumps(sorted(walk.seen)) + "\\n"))
threading.setprofile(walk.note)
sys.setprofile(walk.note)
from toolyard.__main__ import main
sys.argv = ["toolyard", "serve", {config!r}, "--port", "0"]
main()
"""


def walk_served() -> dict[str, Walk]:
    """A warm `:invoke` over HTTP and a warm `tools/call` over MCP, from reading the socket to writing it."""
    with tempfile.TemporaryDirectory() as folder:
        out, config = Path(folder, "seen.json"), Path(folder, "yard.yaml")
        config.write_text(json.dumps({"tools": {"registry": [{"type": "domains", "domains": ["core"]}]}}))
        code = _CHILD.format(root=str(ROOT), out=str(out), config=str(config))
        server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            return {
                "HTTP :invoke": _least_walk(server, out, lambda: _invoke(url)),
                "MCP tools/call": _least_walk(server, out, lambda: _call_tool(url)),
            }
        finally:
            server.terminate()
            server.wait()


def _least_walk(server: subprocess.Popen[bytes], out: Path, ask: Callable[[], None]) -> Walk:
    """The shortest of several, since a server timer may run during one of them."""
    for _ in range(3):
        ask()
    walks = []
    for _ in range(5):
        out.unlink(missing_ok=True)
        os.kill(server.pid, signal.SIGUSR1)
        time.sleep(0.05)
        ask()
        os.kill(server.pid, signal.SIGUSR2)
        while not out.is_file() or not out.read_text().endswith("\n"):
            time.sleep(0.01)
        walk = Walk()
        walk.seen = {(path, name, line) for path, name, line in json.loads(out.read_text())}
        walks.append(walk)
    return min(walks, key=lambda walk: walk.files)


def _post(url: str, body: Any, **headers: str) -> Any:
    head = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
    request = urllib.request.Request(url, json.dumps(body).encode(), head)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def _invoke(url: str) -> None:
    assert b'"hi"' in _post(f"{url}/v1/tools/echo:invoke", {"args": {"text": "hi"}})


def _call_tool(url: str) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hi"}, "_meta": _STATELESS},
    }
    headers = {"accept": "application/json, text/event-stream", "mcp_protocol_version": _VERSION}
    assert b"hi" in _post(f"{url}/mcp", message, mcp_method="tools/call", mcp_name="echo", **headers)


_VERSION = "2026-07-28"
_STATELESS = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "house", "version": "1"},
}


def walk_rows() -> list[Row]:
    """The number of files, and for calls of functions, that warm work enters."""
    execute = walk_execute()
    rows: list[Row] = [
        ("execute with a policy: files", execute.files, 12, True),
        ("execute with a policy: functions", len(execute.seen), 30, True),
    ]
    bounds = {"HTTP :invoke": 16, "MCP tools/call": 20}
    rows += [(f"{name}: files", walk.files, bounds[name], True) for name, walk in walk_served().items()]
    return [*rows, ("config to Toolyard: files", walk_config().files, 28, True)]


def main() -> int:
    """Print the table; with arguments (circles, classes, names, mirror), list what a figure counts."""
    if parts := sys.argv[1:]:
        return _list_parts(parts)
    missed = 0
    for name, value, bound, upper in [*count_rows(), *walk_rows()]:
        held = value <= bound if upper else value >= bound
        missed += not held
        print(f"{name:40} {value:10,.0f}   {'at most' if upper else 'at least'} {bound:,} {'' if held else '  MISSED'}")
    return 1 if missed else 0


def _list_parts(parts: list[str]) -> int:
    paths = sorted(PACKAGE.rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in paths}
    if "circles" in parts:
        for circle in find_circles(trees):
            print(len(circle), " ".join(circle))
    if "classes" in parts:
        print(" ".join(find_repeated_classes(trees)))
    if "names" in parts:
        print(" ".join(f"{name}:{times}" for name, times in one_word_names(trees)[0].most_common(200)))
    if "execute" in parts:
        for path, name, _line in sorted(walk_execute().seen):
            print(Path(path).relative_to(PACKAGE), name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
