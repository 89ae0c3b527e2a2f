"""`python tests/floors.py`: the lowest version of each package that pyproject.toml names, as constraints for pip."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
# Tools of developers and of benchmarks say what they were tried with, not what users may have.
EXTRAS = [
    needed
    for name, needed in PROJECT["optional-dependencies"].items()
    if name not in ("dev", "bench", "all", "llama", "mcp", "ray")
]

for requirement in [*PROJECT["dependencies"], *(one for needed in EXTRAS for one in needed)]:
    found = re.match(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?[>=]=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"{requirement}: give it a lowest version")
    # `>=2.11` is held on 2.11.0, `>=6.0.2` on 6.0.2.
    print(f"{found[1]}=={found[2]}")
    if found[1] == "opentelemetry-api":
        print(f"opentelemetry-sdk=={found[2]}")  # the two go together
