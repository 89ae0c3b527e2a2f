"""`toolyard init` and `toolyard schema`: a small example yard, and the JSON Schema of config files."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolyard.cli.options import DEFAULT_CONFIG, OUTPUT, VerbOptions
from toolyard.cli.output import print_either, print_json
from toolyard.model.errors import ConfigError

_FILES = (DEFAULT_CONFIG.name, "desk.py", "notes.py", "orders.yaml")
"""The files that `init` creates, from the folder `starter`."""
_PYTHON = "command: python3"
"""A line of the created config, in which the current interpreter is filled in."""


def init(
    folder: Annotated[Path, Parameter(help="Folder; created if it does not exist.")] = Path(),
    /,
    *,
    options: VerbOptions = OUTPUT,
) -> int:
    """Create a small yard with a function, an API and an MCP server. Existing files are never changed."""
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise ConfigError(f"{folder}: has {', '.join(there)} already; nothing was written, name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        text = files("toolyard.cli").joinpath("starter", name).read_text("utf-8")
        # JSON is valid YAML, and quotes any path.
        (folder / name).write_text(text.replace(_PYTHON, f"command: {json.dumps(sys.executable)}"), encoding="utf-8")
    config = folder / DEFAULT_CONFIG
    lines = [
        f"made {', '.join(str(folder / name) for name in _FILES)}; next:",
        f"  toolyard tools {config}",
        f"  toolyard call {config}::split_bill total=90",
        f"  toolyard open {config}",
    ]
    return print_either(options.json, {"folder": str(folder), "files": list(_FILES)}, "\n".join(lines))


def schema(*, options: VerbOptions = OUTPUT) -> int:
    """Print the JSON Schema of config files, for editors with completion and validation."""
    from toolyard.app.schema import config_schema

    print_json(config_schema())
    return 0
