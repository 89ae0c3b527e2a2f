"""F. 100,000 calls by every face: memory, descriptors, tasks and threads stay flat. `make soak` runs a million."""

from __future__ import annotations

import sys
from pathlib import Path

CALLS = 100_000


def run() -> bool:
    """Run the tests' soak in a shorter form, and print its samples."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from engines.soak_calls import run as soak

    outcome = soak(CALLS)
    print(f"\n## F. {outcome['calls']:,} calls\n")
    samples = outcome["samples"]
    columns = list(samples[0])
    print(f"| {' | '.join(columns)} |\n|{'---:|' * len(columns)}")
    for sample in samples[:: max(1, len(samples) // 6)]:
        print(f"| {' | '.join(str(sample[column]) for column in columns)} |")
    print(f"\n{'flat' if outcome['flat'] else 'NOT FLAT: ' + '; '.join(outcome['reasons'])}")
    return bool(outcome["flat"])
