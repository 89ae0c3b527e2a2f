"""Every real catalog and specification: valid answers, the same in every process, and chains that hold together."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import eval_simulator
from conftest import DATA, ROOT, SOAK, material

FILES = [*material("openapi/*"), *material("catalogs/*"), *material("mcp_listings/*")]
SAMPLE = [*sorted((DATA / "openapi").iterdir()), *sorted((DATA / "mcp_listings").iterdir())]

WHOLE = 0.95
"""Chains of all files that hold from end to end; 0.97 when this was written."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_answer_is_valid(path):
    score = eval_simulator.score_of(path, chains=False)
    assert score is not None
    assert (score.faults, score.valid) == ([], score.answers)
    assert score.impossible <= 4


def test_chains_hold_together_over_all_files():
    total = eval_simulator.Score("all")
    for path in FILES:
        score = eval_simulator.score_of(path, rounds=0)
        if score is not None:
            total.add(score)
    assert total.whole >= WHOLE * (total.chains - total.nameless) > 0
    for step in ("get", "list", "update", "delete", "gone"):
        assert total.steps[step] >= WHOLE * total.tried[step] > 0


ANSWER = """
import hashlib, sys
from benchmarks.eval_simulator import load
from pathlib import Path
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.draw import encode
from toolyard import LMToolEngine, ToolCall
found = hashlib.sha256()
for path in sys.argv[1:]:
    registry = load(Path(path))
    simulator = Simulator("seed")
    for tool in registry:
        for arguments in ({}, {"id": 7, "name": "x", "city": "Ulm"}):
            found.update(encode(simulator.value(tool, arguments)))
    with LMToolEngine(registry, lm_config={"type": "schema", "seed": "seed"}) as engine:
        engine.setup("s")
        for tool in registry:
            known = {"id": 7, "petId": 7, "name": "x", "zone_id": "z", "server_id": "s"}
            declared = tool.parameters.get("properties", {})
            call = ToolCall(tool.qualified_name, {name: known[name] for name in declared if name in known})
            found.update(encode(engine.execute("s", [call])[0].result))
        found.update(engine.state_hash("s").encode())
print(found.hexdigest())
"""


@pytest.mark.process
def test_the_same_seed_gives_the_same_bytes_in_every_process():
    files = [str(path) for path in SAMPLE]
    found = set()
    for seed in ("0", "1", "4711") if SOAK else ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", ANSWER, *files],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1 and len(found.pop().strip()) == 64


def test_the_score_is_a_table_and_an_exit_code(capsys):
    petstore = DATA / "openapi" / "petstore__src_main_resources_openapi.yaml"
    assert eval_simulator.main([str(petstore)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[-1].startswith("| all | ") and "100.00%" in rows[-1]
    assert rows[-2].split("|")[5].strip() in ("1/1", "2/2", "3/3")


@pytest.mark.parametrize("path", [DATA / "mcp_listings" / "tools_memory.json"], ids=["memory"])
def test_a_file_by_itself_can_be_scored(path):
    score = eval_simulator.score_of(path)
    assert score is not None and score.valid == score.answers == 3 * score.schemas
    assert json.dumps(score.row())
