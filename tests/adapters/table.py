"""`python tests/adapters/table.py FOLDER`: the cases whose results each framework passed on to its model unchanged."""

import json
import sys
from pathlib import Path

from yard import CASES


def main(folder: Path) -> int:
    rows = {path.stem: list(map(json.loads, path.read_text().splitlines())) for path in sorted(folder.glob("*.jsonl"))}
    found = {name: {row["case"]: row for row in listed} for name, listed in rows.items()}
    print(f"{'case':34}{'engine.execute':24}" + "".join(f"{name:18}" for name in found))
    missing = 0
    for case in CASES:
        answer = next((listed[case.id]["answer"] for listed in found.values() if case.id in listed), "?")
        marks = [listed[case.id]["mark"] if case.id in listed else "NOT EQUAL" for listed in found.values()]
        missing += marks.count("NOT EQUAL")
        print(f"{case.id:34}{answer:24}" + "".join(f"{mark:18}" for mark in marks))
    print(f"{len(CASES) * len(found) - missing} of {len(CASES) * len(found)} hold")
    return int(missing > 0 or not found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
