"""Random YAML for as long as you like: `python tests/parsing/yaml/soak_yaml_fuzz.py SECONDS [FIRST_SEED]`.

A child process reads one hostile text after another with both scanners, and with `parse_yaml`. It fails if they
disagree, if an error is not a `MalformedSource`, or if the child dies; each time the seed is printed, and `hostile(seed)` is the text.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hostile_yaml import hostile
from scanner_twins import compare_scanners

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_yaml

FAILURES = ("different",)


def work(seconds: float, first: int, progress: Path) -> None:
    """The child: writes each seed down before it reads the text, and its verdicts to standard output."""
    verdicts: Counter[str] = Counter()
    failures = []
    deadline = time.monotonic() + seconds
    seed = first
    with progress.open("w") as file:
        while time.monotonic() < deadline:
            file.seek(0)
            file.write(f"{seed:020}")
            file.flush()
            text = hostile(seed)
            verdict = compare_scanners(text)
            with suppress(MalformedSource):
                parse_yaml(text)
            verdicts[verdict] += 1
            if verdict in FAILURES:
                failures.append(f"seed {seed}: {verdict}")
            seed += 1
    print(json.dumps({"verdicts": verdicts, "failures": failures, "next": seed}))


def soak(seconds: float, first: int) -> int:
    """Runs the child; the exit status is 0 if nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder, "seed")
        command = [sys.executable, __file__, "--work", str(seconds), str(first), str(progress)]
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if child.returncode:
            print(f"died with status {child.returncode} at seed {int(progress.read_text())}")
            return 1
    report = json.loads(child.stdout)
    print(f"{report['next'] - first:,} texts from seed {first}: {report['verdicts']}")
    print("\n".join(report["failures"]) or "no disagreement, no crash")
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        sys.exit(soak(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
