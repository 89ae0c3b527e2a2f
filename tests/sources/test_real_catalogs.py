"""Every real catalog loads: tools + listed rejections = entries, and every tool compiles."""

import json

import pytest

from conftest import material
from toolyard import FileToolLoader, ToolRegistry
from toolyard.schema.compile import compile_schema

CATALOGS = material("catalogs/*.jsonl") + material("catalogs/*.yaml")
LISTINGS = material("mcp_listings/*.json")


def entries(path):
    if path.suffix == ".jsonl":
        return sum(1 for line in path.read_text().splitlines() if line.strip())
    if path.suffix == ".json":
        return len(json.loads(path.read_text()))
    # The YAML catalogs have their names at the first column, one an entry.
    return sum(1 for line in path.read_text().splitlines() if line[:1] not in (" ", "", "#"))


@pytest.mark.parametrize("path", CATALOGS + LISTINGS, ids=lambda p: p.name)
def test_nothing_of_a_real_catalog_is_lost_in_silence(path):
    loader = FileToolLoader(path, namespace="n", on_error="skip", on_duplicate="skip")
    registry = ToolRegistry.from_loaders([loader])
    source = registry.report.sources[0]
    assert source.loaded + len(source.rejected) == entries(path)
    assert source.loaded == len(registry)
    # What is left out is a twin of what is loaded; every definition itself is readable.
    assert {r.error for r in source.rejected} <= {"DuplicateToolError"}
    for tool in registry:
        compile_schema(tool.parameters)
        compile_schema(tool.output_parameters)


def test_there_is_material():
    assert len(CATALOGS) >= 6
    assert len(LISTINGS) == 3
