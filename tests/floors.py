"""`python tests/floors.py`: the lowest versions that pyproject.toml allows, as pip constraints."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
# Not the extras for development and benchmarks: their bounds are the versions in use, not minimums for users.
EXTRAS = [
    needed
    for name, needed in PROJECT["optional-dependencies"].items()
    if name not in ("dev", "bench", "all", "llama", "mcp", "ray")
]

for requirement in [*PROJECT["dependencies"], *(one for needed in EXTRAS for one in needed)]:
    found = re.match(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?[>=]=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"{requirement}: give it a lowest version")
    # `>=2.11` becomes 2.11.0, `>=6.0.2` becomes 6.0.2.
    print(f"{found[1]}=={found[2]}")
    if found[1] == "opentelemetry-api":
        print(f"opentelemetry-sdk=={found[2]}")  # the two go together
