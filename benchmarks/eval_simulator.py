"""`python -m benchmarks.eval_simulator [FILE or FOLDER ...]`: how well the simulator handles real catalogs.

For each file: the tools with an output schema, how many of their results are valid, and how many chains of
create -> get -> list -> update -> delete -> get are consistent, step by step. The simulator determines which tools form
a chain; a chain that is evident from paths but not found by it counts as broken. There are no special cases for any
specification. Without arguments: the corpus named by `TOOLYARD_CORPUS`, or the one beside the project, or the sample in
`tests/data`. Exits 1 if a result was not valid.

`python -m benchmarks.eval_simulator tuned|held-out|large|seen-once|fitted|kept|fresh FOLDER`: the documents that
`simulator_apis.txt` lists under that name; FOLDER is a copy of APIs-guru/openapi-directory.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.material import corpus_folder
from benchmarks.simulator_chains import STEPS, run_chains
from benchmarks.simulator_limits import allows_nothing
from toolyard import FileToolLoader, RESTToolLoader, ToolCall, ToolRegistry, get_tool_engine
from toolyard.engines.base import ToolEngine
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.draw import Draw, GaveUp
from toolyard.engines.simulator.values import SchemaValues
from toolyard.model.errors import ToolyardError

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3


@dataclass
class Score:
    """Counts over one file."""

    name: str
    tools: int = 0
    schemas: int = 0
    answers: int = 0
    valid: int = 0
    impossible: int = 0
    """Tools whose output schema no value satisfies."""
    faults: list[str] = field(default_factory=list)
    chains: int = 0
    whole: int = 0
    nameless: int = 0
    """Chains whose create has no field for an id or name of the entity; these never complete."""
    chain_faults: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)

    def add(self, other: Score) -> None:
        """Add the counts of another score."""
        for name in ("tools", "schemas", "answers", "valid", "impossible", "chains", "whole", "nameless"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.steps += other.steps
        self.tried += other.tried

    def row(self) -> str:
        """One line of the table."""
        valid = f"{100 * self.valid / self.answers:.2f}%" if self.answers else ""
        steps = [f"{self.steps[step]}/{self.tried[step]}" if self.tried[step] else "" for step in STEPS]
        whole = f"{self.whole}/{self.chains}" if self.chains else ""
        counts = [f"{self.schemas}/{self.tools}", valid, str(self.impossible or ""), whole, str(self.nameless or "")]
        cells = [self.name[:60], *counts, *steps]
        return "| " + " | ".join(cells) + " |"


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a result was not valid."""
    print("| file | with a schema | valid | impossible | chains | nameless |", " | ".join(STEPS), "|")
    print("|---" + "|---:" * (5 + len(STEPS)) + "|")
    total = Score("all")
    chosen = list(_chosen(*arguments)) if len(arguments) == 2 else []
    for path in chosen or files(arguments):
        score = score_of(path, rounds=0 if chosen else ROUNDS)
        if score is not None and (score.schemas or score.chains):
            print(score.row())
            total.add(score)
            for fault in [*score.faults[:5], *score.chain_faults]:
                print(f"  {fault}", file=sys.stderr)
    print(total.row())
    return 0 if total.valid == total.answers else 1


def _chosen(wanted: str, folder: str) -> Iterator[Path]:
    """The documents of one set."""
    for line in (ROOT / "benchmarks" / "simulator_apis.txt").read_text().splitlines():
        name, _, document = line.partition(" ")
        if name == wanted:
            yield Path(folder) / "APIs" / document


def files(arguments: list[str]) -> Iterator[Path]:
    """Every catalog and specification that the arguments name."""
    for start in [Path(argument) for argument in arguments] or [corpus_folder()]:
        if start.is_file():
            yield start
        for folder in ("openapi", "openapi_multifile", "catalogs", "mcp_listings"):
            inside = start / folder if start.is_dir() else start
            names = ("*.json", "*.yaml", "*.jsonl")
            yield from sorted({path for name in names for path in inside.glob(f"{name}")})
            if folder == "openapi_multifile":
                yield from sorted(inside.glob("*/spec/swagger.*"))


def load(path: Path) -> ToolRegistry | None:
    """The tools of a file; None if it has none."""
    openapi = "openapi" in path.parent.name or path.stem in ("openapi", "swagger")
    options: dict[str, Any] = {"namespace": "n", "on_error": "skip", "on_duplicate": "skip"}
    loader = RESTToolLoader(str(path), **options) if openapi else FileToolLoader(str(path), **options)
    try:
        return ToolRegistry.from_loaders([loader])
    except ToolyardError as error:
        print(f"  {path.name}: {error}", file=sys.stderr)
        return None


def score_of(path: Path, *, rounds: int = ROUNDS, chains: bool = True) -> Score | None:
    """Evaluate the tools of one file; None if it cannot be read."""
    registry = load(path)
    if registry is None:
        return None
    engine: ToolEngine = get_tool_engine(
        "lm", registry=registry, lm_config={"type": "schema", "seed": 1}, output_check="strict"
    )
    named = path.stem in ("openapi", "swagger")
    score = Score("/".join(path.parts[-3:-1]) if named else path.name, tools=len(registry))
    with engine:
        for tool in registry:
            if not tool.output_parameters or not rounds:
                continue
            score.schemas += 1
            if allows_nothing(tool.output_parameters):
                score.impossible += 1
                continue
            _answers(engine, tool, score, rounds)
        for chain in run_chains(engine, list(registry)) if chains else ():
            score.chains += 1
            score.whole += all(chain.held.values())
            score.nameless += chain.nameless
            score.chain_faults += chain.faults
            score.tried.update(chain.held.keys())
            score.steps.update(step for step, good in chain.held.items() if good)
    return score


def _answers(engine: ToolEngine, tool: Any, score: Score, rounds: int) -> None:
    parameters = SchemaValues(tool.parameters or {"type": "object"})
    for attempt in range(rounds):
        session = f"{tool.qualified_name} {attempt} {tool.fingerprint}"
        engine.setup(session)
        try:
            arguments = parameters.make(Draw(session.encode()))
        except GaveUp:
            arguments = {}
        call = ToolCall(tool.qualified_name, arguments, overload=tool.fingerprint)
        result = engine.execute(session, [call])[0]
        engine.teardown(session)
        score.answers += 1
        error = result.error
        if not parameters.check(arguments):
            # Nothing fits its parameters, or nothing was found that does: asked beside the usual way.
            value = Simulator(1).value(tool, arguments)
            error = None if SchemaValues(tool.output_parameters).check(value) else "answered with something not allowed"
        score.valid += error is None
        if error is not None:
            score.faults.append(f"{tool.qualified_name}: {error}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
