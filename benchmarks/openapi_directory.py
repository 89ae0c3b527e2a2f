"""`python -m benchmarks.openapi_directory FOLDER [EVERY]`: every OpenAPI document below a folder, or every n-th.

Each document is loaded in its own process, limited to 10 s of CPU and 1 GB, and all its schemas are read. A small
independent reader counts the operations of the document: each must be a tool or a listed rejection, and a tool is
`empty` if it lacks an input, output or description that its operation has. At the end, one registry loads all documents
that were read, returns all definitions, and answers one search.

Exits 1 if an operation is missing or empty, a document raised or went over a limit, or more than 0.1% are rejected.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from toolyard import RESTToolLoader, ToolRegistry
from toolyard.insight.search.searcher import Searcher
from toolyard.model.errors import ToolyardError
from toolyard.model.json_schema import pointer_of
from toolyard.schema.compile import compile_schema
from toolyard.sources.rest.document import read_text

SECONDS, BYTES = 10, 1 << 30
PROCESSES = 2
LEAST_LOADED = 0.999
_SHOWN = 15
_DOCUMENT = re.compile(rb"""^[\s{]*["']?(?:openapi|swagger)["']?\s*:\s*["']?[23]""", re.MULTILINE)
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class Document:
    """The contents of a document, read without the loader's code except for its parser."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[Path, Any] = {}

    def operations(self) -> Iterator[tuple[str, str, set[str]]]:
        """Method, path, and which of `input`, `output` and `description` the operation has."""
        root, home = self._settle(self._read(self._path), self._path)
        paths, home = self._settle(root.get("paths"), home)
        for path, raw in paths.items() if isinstance(paths, dict) else ():
            item, here = self._settle(raw, home)
            for method in _METHODS if isinstance(item, dict) and path[:2] != "x-" else ():
                if method in item:
                    operation, place = self._settle(item[method], here)
                    common, _ = self._settle(item.get("parameters"), here)
                    has = self._contents(operation, place) if isinstance(operation, dict) else set()
                    if self._are_arguments(common, here):
                        has.add("input")
                    yield method.upper(), path, has

    def _contents(self, operation: dict[str, Any], place: Path) -> set[str]:
        has = set()
        if any(str(operation.get(key) or "").strip() for key in ("summary", "description")):
            has.add("description")
        listed, here = self._settle(operation.get("parameters"), place)
        body, _ = self._settle(operation.get("requestBody"), place)
        if self._are_arguments(listed, here) or (isinstance(body, dict) and body.get("content")):
            has.add("input")
        responses, here = self._settle(operation.get("responses"), place)
        for code, raw in responses.items() if isinstance(responses, dict) else ():
            response, there = self._settle(raw, here)
            content = response.get("content") if isinstance(response, dict) else None
            content, there = self._settle(content, there)
            media = content.get("application/json") if isinstance(content, dict) else None
            media, there = self._settle(media, there)
            schema, _ = self._settle(media.get("schema") if isinstance(media, dict) else None, there)
            if str(code)[:1] == "2" and isinstance(schema, dict) and "properties" in schema:
                has.add("output")
        return has

    def _are_arguments(self, listed: Any, place: Path) -> bool:
        for raw in listed if isinstance(listed, list) else ():
            parameter, _ = self._settle(raw, place)
            if isinstance(parameter, dict) and parameter.get("in") in ("query", "body", "formData", "cookie"):
                return True
        return False

    def _settle(self, node: Any, place: Path) -> tuple[Any, Path]:
        for _ in range(20):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                break
            name, _, pointer = node["$ref"].partition("#")
            place = (place.parent / unquote(name)).resolve() if name else place
            node = self._read(place)
            for key in unquote(pointer).split("/")[1:]:
                node, place = self._settle(node, place)
                key = key.replace("~1", "/").replace("~0", "~")
                if isinstance(node, list):
                    node = node[int(key)] if key.isdecimal() and int(key) < len(node) else None
                else:
                    node = node.get(key) if isinstance(node, dict) else None
        return node, place

    def _read(self, path: Path) -> Any:
        if path not in self._files:
            self._files[path] = read_text(path.read_bytes(), path.name)[0] if path.is_file() else None
        return self._files[path]


def look_at(path: Path) -> dict[str, Any]:
    """Load one document, read every schema, and compare the tools with its operations."""
    began = time.process_time()
    loader = RESTToolLoader(path, "n")
    try:
        registry = ToolRegistry.from_loaders([loader])
    except ToolyardError as error:
        return {"refused": f"{type(error).__name__}: {str(error)[:200]}"}
    tools = list(registry)
    schemas = [schema for tool in tools for schema in (tool.parameters, tool.output_parameters)]
    seconds = time.process_time() - began
    for schema in schemas:
        compile_schema(schema or {"type": "object"})
    rejected = registry.report.sources[0].rejected
    found = list(Document(path).operations())
    held = {item.place.lower(): item.tool for item in loader.admitted}
    empty = []
    for method, place, has in found:
        tool = held.get(f"#/paths{pointer_of([place])}/{method}".lower())
        if tool is not None:
            says = {"description": tool.description, "output": tool.output_parameters}
            says["input"] = tool.parameters.get("properties")
            empty += [f"{method} {place}: no {what}" for what in sorted(has) if not says[what]]
    return {
        "operations": len(found),
        "tools": len(tools),
        "rejected": [(item.where.rpartition("#")[2], item.reason) for item in rejected],
        "empty": empty,
        "seconds": seconds,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _work(path: Path, answer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (20 * SECONDS, 20 * SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (2 * BYTES, 2 * BYTES))
    try:
        answer.send(look_at(path))
    except BaseException as error:  # noqa: BLE001 - what left the loader is what this looks for
        answer.send({"raised": f"{type(error).__name__}: {str(error)[:200]}"})
    answer.close()
    os._exit(0)


def look_at_all(paths: list[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Check the documents, each in its own process, a few at once."""
    forking = multiprocessing.get_context("fork")
    waiting = deque(paths)
    running: dict[Any, tuple[Path, Any]] = {}
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            path = waiting.popleft()
            answer, ours = forking.Pipe(duplex=False)
            process = forking.Process(target=_work, args=(path, ours))
            process.start()
            ours.close()
            running[answer] = (path, process)
        for ready in wait(list(running)):
            path, process = running.pop(ready)
            try:
                found = ready.recv()
            except EOFError:
                found = {"raised": "ended by its limits, without an answer"}
            process.join()
            ready.close()
            yield path, found


def find_documents(folder: Path) -> list[Path]:
    """Files that declare an OpenAPI or Swagger version."""
    found = [path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".yaml", ".yml") and path.is_file()]
    return [path for path in found if _DOCUMENT.search(path.read_bytes())]


def _shorten(reason: str) -> str:
    return re.sub(r"'[^']*'|\d+", "...", reason)[:100]


def main(folder: Path, every: int) -> int:
    paths = find_documents(folder)[::every]
    results = dict(look_at_all(paths))
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    faults: list[str] = []
    for path, found in results.items():
        name = str(path.relative_to(folder))
        for fault in ("raised", "refused"):
            if fault in found:
                total[fault] += 1
                faults.append(f"{name}: {fault} {found[fault]}")
        if "tools" not in found:
            continue
        total.update(operations=found["operations"], tools=found["tools"], empty=len(found["empty"]))
        total["rejected"] += len(found["rejected"])
        reasons.update(_shorten(reason) for _, reason in found["rejected"])
        faults += [f"{name}: {item}" for item in found["empty"][:3]]
        faults += [f"{name}: {place}: {reason[:200]}" for place, reason in found["rejected"][:3]]
        if found["operations"] != found["tools"] + len(found["rejected"]):
            total["miscounted"] += 1
            faults.append(f"{name}: {found['operations']} operations, {found['tools']} tools")
    print(f"documents {len(results):,}", *(f"{key} {total[key]:,}" for key in sorted(total)), sep="; ")
    for reason, count in reasons.most_common(_SHOWN):
        print(f"  {count:6,} rejected: {reason}")
    for fault in faults[: 4 * _SHOWN]:
        print(" ", fault)
    over = _print_costs(folder, results)
    loaded = [path for path, found in results.items() if "tools" in found]
    broken = _try_together(loaded)
    few = total["tools"] < LEAST_LOADED * total["operations"]
    return int(bool(total["raised"] + total["miscounted"] + total["empty"]) or few or over or broken)


def _print_costs(folder: Path, results: dict[Path, dict[str, Any]]) -> bool:
    over = False
    for what, limit, unit in (("seconds", SECONDS, 1), ("bytes", BYTES, 1 << 20)):
        costs = sorted(((found.get(what, 0), path) for path, found in results.items()), reverse=True)[:3]
        over = over or costs[0][0] > limit
        shown = [f"{cost / unit:,.1f} {path.relative_to(folder)}" for cost, path in costs]
        print(f"most {what if unit == 1 else 'MB'}:", "; ".join(shown))
    return over


def _try_together(paths: list[Path]) -> bool:
    """Load all documents into one registry, then read every definition and search once."""
    began = time.process_time()
    loaders = [RESTToolLoader(path, f"d{number}") for number, path in enumerate(paths)]
    try:
        registry = ToolRegistry.from_loaders(loaders)
        count = len(registry.to_dicts())
        # A lexical search, which reads every schema; the cost of embeddings does not depend on the documents.
        hits = Searcher(lexical=True).search(registry.snapshot, "create an invoice", 3)
    except Exception as error:  # noqa: BLE001 - as above
        print(f"together: {type(error).__name__}: {error}")
        return True
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = time.process_time() - began
    shown = [hit.tool.qualified_name for hit in hits]
    print(f"together: {count:,} definitions in {seconds:.0f} s of CPU, {peak:,.0f} MB; found {shown}")
    return count != len(registry) or not hits


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
