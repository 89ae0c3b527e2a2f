"""B. Registry build: a checked load of JSON and YAML catalogs, and growth."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import orjson
import yaml

from benchmarks.harness import Row, measure, paused, show
from benchmarks.material import catalog
from toolyard import ToolRegistry

ORJSON = "LIMIT orjson, gc paused"
YAML = "PyYAML, C loader, gc paused"


def run() -> bool:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(Path(folder))


def _run(folder: Path) -> bool:
    files = {count: folder / f"{count}.json" for count in (1_000, 10_000, 50_000)}
    for count, path in files.items():
        path.write_bytes(orjson.dumps(catalog(count)))
    text = folder / "10000.yaml"
    text.write_text(yaml.dump(catalog(10_000), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True))
    ten = files[10_000]
    json_rows = [
        Row(ORJSON, paused(lambda: orjson.loads(ten.read_bytes()))),
        Row("orjson, gc running", lambda: orjson.loads(ten.read_bytes())),
        Row("toolyard checked load", lambda: ToolRegistry.from_file(ten), 1, ORJSON, 5.0),
    ]
    measure(json_rows, 7)
    yaml_rows = [
        Row(YAML, paused(lambda: yaml.load(text.read_text(), Loader=yaml.CSafeLoader))),
        Row("toolyard checked load", lambda: ToolRegistry.from_file(text), 1, YAML, 1.5),
    ]
    measure(yaml_rows, 5)
    growth = [
        Row(f"checked load, {count:,} tools (per 1,000)", partial(ToolRegistry.from_file, path), calls=count // 1_000)
        for count, path in files.items()
    ]
    measure(growth, 5)
    growth[2].limit, growth[2].goal = growth[0].name, 2.0
    good = show("B. 10k tools, JSON", json_rows)
    good = show("B. 10k tools, YAML", yaml_rows) and good
    return show("B. growth", growth) and good
