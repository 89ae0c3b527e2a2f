"""H. REST: loading a specification compared with parsing it, growth with operations, and a call compared with the
bare client.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import orjson

from benchmarks.harness import Row, measure, paused, show
from benchmarks.material import corpus_folder
from toolyard import RESTToolLoader, ToolCall, ToolRegistry, get_tool_engine

CORPUS = corpus_folder("openapi")
ORJSON = "LIMIT orjson, gc paused"
SYNC = "LIMIT httpx2.Client, arguments and answer validated"
ASYNC = "LIMIT httpx2.AsyncClient, arguments and answer validated"
SIZES = (500, 1_000, 2_000)
CALLS = 200
PET = {"id": 7, "name": "Tom", "status": "sold", "tags": ["cat"]}
ASKED: dict[str, Any] = {"petId": 7, "verbose": True, "name": "Tom", "status": "sold", "tags": ["cat"]}


def run() -> bool:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        good = _loading(Path(folder))
        return _calling(Path(folder)) and good


def _loading(folder: Path) -> bool:
    files = {count: folder / f"{count}.json" for count in SIZES}
    for count, path in files.items():
        path.write_bytes(orjson.dumps(specification(count)))
    largest = max(CORPUS.glob("*.json"), key=lambda path: path.stat().st_size, default=files[SIZES[-1]])
    note = f"{len(RESTToolLoader(largest, 'api').load()):,} tools of {largest.stat().st_size / 1e6:.1f} MB"
    rows = [
        Row(ORJSON, paused(lambda: orjson.loads(largest.read_bytes()))),
        Row("RESTToolLoader.load", lambda: RESTToolLoader(largest, "api").load(), 1, ORJSON, 5.0, note=note),
        Row("in a ToolRegistry", lambda: _registry(largest), 1, ORJSON, 5.0),
        Row("and every schema of every tool looked at", lambda: _looked_at(largest), 1, ORJSON),
    ]
    measure(rows, 9)
    growth = [
        Row(f"{count:,} operations (each)", partial(_registry, path), SIZES[-1] // count, calls=count)
        for count, path in files.items()
    ]
    for row in growth[1:]:
        row.limit, row.goal = growth[0].name, 1.2
    measure(growth, 15)
    good = show(f"H. REST: the largest specification at hand, {largest.name}", rows)
    return show("H. REST: growth in operations", growth) and good


def _calling(folder: Path) -> bool:
    if importlib.util.find_spec("toolyard.engines.rest") is None:
        print("\n## H. REST: calls NOT MEASURED. There is no rest engine")
        return False
    (folder / "pets.json").write_bytes(orjson.dumps(pets()))
    with ExitStack() as stack:
        url = stack.enter_context(_server(folder))
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        rows = [*_bare_rows(url, loop, stack), *_engine_rows(folder / "pets.json", url, loop, stack)]
        if importlib.util.find_spec("fastmcp") is None:
            print("(peer fastmcp is not installed: no row)")
        else:
            rows.append(_fastmcp(url, loop))
        measure(rows, 11)
    return show("H. REST: client CPU of a validated call, PATCH with path, query and body, on loopback", rows)


def _bare_rows(url: str, loop: asyncio.AbstractEventLoop, stack: ExitStack) -> list[Row]:
    tool = _tools(pets(), url)["updatePet"]
    accepts = jsonschema_rs.validator_for(tool.parameters).validate
    answers = jsonschema_rs.validator_for(tool.output_parameters).validate
    client = stack.enter_context(httpx2.Client(base_url=url, trust_env=False))
    another = httpx2.AsyncClient(base_url=url, trust_env=False)
    stack.callback(lambda: loop.run_until_complete(another.aclose()))

    def request() -> dict[str, Any]:
        accepts(ASKED)
        body = {name: ASKED[name] for name in ("name", "status", "tags")}
        return {"url": f"/pets/{ASKED['petId']}", "params": {"verbose": "true"}, "json": body}

    def finish(response: httpx2.Response) -> object:
        value = response.raise_for_status().json()
        answers(value)
        return value

    def sync() -> None:
        for _ in range(CALLS):
            finish(client.patch(**request()))

    async def on_a_loop() -> None:
        for _ in range(CALLS):
            finish(await another.patch(**request()))

    return [
        Row(SYNC, sync, calls=CALLS),
        Row(ASYNC, lambda: loop.run_until_complete(on_a_loop()), calls=CALLS),
    ]


def _engine_rows(spec: Path, url: str, loop: asyncio.AbstractEventLoop, stack: ExitStack) -> list[Row]:
    registry = stack.enter_context(ToolRegistry.from_loaders([RESTToolLoader(spec, "api", url)]))
    engine = stack.enter_context(get_tool_engine("rest", registry=registry))
    stack.callback(lambda: loop.run_until_complete(engine.aclose()))
    call = ToolCall("api::updatePet", ASKED)

    def check(results: list[Any]) -> None:
        if results[0].result != PET or results[0].metadata:
            raise SystemExit(f"the engine did not answer as it should: {results[0]}")

    def sync() -> None:
        engine.setup("s")
        for _ in range(CALLS):
            check(engine.execute("s", [call]))
        engine.teardown("s")

    async def on_a_loop() -> None:
        await engine.asetup("a")
        for _ in range(CALLS):
            check(await engine.aexecute("a", [call]))
        await engine.ateardown("a")

    return [
        Row("RESTToolEngine.execute", sync, 1, SYNC, None, CALLS),
        Row("RESTToolEngine.aexecute", lambda: loop.run_until_complete(on_a_loop()), 1, ASYNC, 1.5, CALLS),
    ]


def _fastmcp(url: str, loop: asyncio.AbstractEventLoop) -> Row:
    from fastmcp import FastMCP

    server = FastMCP.from_openapi(pets(), client=httpx2.AsyncClient(base_url=url, trust_env=False))

    async def calls() -> None:
        for _ in range(CALLS):
            await server.call_tool("updatePet", ASKED)

    return Row("peer: fastmcp from_openapi, call_tool", lambda: loop.run_until_complete(calls()), 1, ASYNC, calls=CALLS)


def _registry(path: Path) -> ToolRegistry:
    return ToolRegistry.from_loaders([RESTToolLoader(path, "api")])


def _looked_at(path: Path) -> list[object]:
    return [(tool.parameters, tool.output_parameters, tool.binding) for tool in _registry(path)]


def _tools(document: dict[str, Any], url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_bytes(orjson.dumps(document))
        return {tool.name: tool for tool in RESTToolLoader(path, "api", url).load()}


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """URL of a server process that answers every request with the same pet."""
    file = folder / "pet.json"
    file.write_bytes(orjson.dumps(PET))
    command = [sys.executable, "-m", "benchmarks.serve_apps", "constant", str(file)]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def pets() -> dict[str, Any]:
    """One operation with an argument of every usual kind."""
    text = {"type": "string"}
    fields = {"name": text, "status": {"enum": ["available", "sold"]}, "tags": {"type": "array", "items": text}}
    pet = {"type": "object", "properties": {"id": {"type": "integer"}, **fields}, "required": ["id", "name"]}
    parameters = [
        {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}},
        {"name": "verbose", "in": "query", "schema": {"type": "boolean"}},
    ]
    body = {"type": "object", "properties": fields, "required": ["name"]}
    operation = {
        "operationId": "updatePet",
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": pet}}}},
    }
    return _document({"/pets/{petId}": {"patch": operation}}, {})


def specification(count: int) -> dict[str, Any]:
    """A specification of `count` operations, two per path, with schemas that refer to each other and to shared ones."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": {"type": "object", "properties": {"message": {"type": "string"}}}}
    for index in range(count // 2):
        name = f"Thing{index}"
        ref = {"$ref": f"#/components/schemas/{name}"}
        schemas[name] = _thing(index)
        ok = {"description": "ok", "content": {"application/json": {"schema": ref}}}
        bad = {"description": "no", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
        identity = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        paths[f"/things{index}/{{id}}"] = {
            "parameters": [identity],
            "get": {
                "operationId": f"getThing{index}",
                "summary": f"Read thing number {index}.",
                "parameters": [{"name": "fields", "in": "query", "schema": {"type": "array", "items": ref}}],
                "responses": {"200": ok, "default": bad},
            },
            "put": {
                "operationId": f"putThing{index}",
                "summary": f"Write thing number {index}.",
                "requestBody": {"required": True, "content": {"application/json": {"schema": ref}}},
                "responses": {"200": ok, "default": bad},
            },
        }
    return _document(paths, schemas)


def _thing(index: int) -> dict[str, Any]:
    """A schema that refers to itself and to the previous one of its group of eight, like those of real services."""
    other = index - 1 if index % 8 else index
    properties = {
        "size": {"type": "integer", "minimum": 0, "description": f"How large number {index} is."},
        "label": {"type": "string", "nullable": True, "maxLength": 80},
        "inside": {"$ref": f"#/components/schemas/Thing{other}"},
        "parts": {"type": "array", "items": {"$ref": f"#/components/schemas/Thing{index}"}},
    }
    return {"type": "object", "properties": properties, "required": ["size"]}


def _document(paths: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    return {
        "openapi": "3.0.3",
        "info": {"title": "bench", "version": "1"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }
