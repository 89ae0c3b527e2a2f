"""`toolyard init` and `toolyard schema`: a small yard to begin with, and the JSON Schema of config files."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path

from toolyard.cli.options import OUTPUT, VerbOptions
from toolyard.cli.output import print_either, print_json
from toolyard.cli.yard import DEFAULT_CONFIG
from toolyard.model.errors import ConfigError

_FILES = (DEFAULT_CONFIG.name, "desk.py", "notes.py", "orders.yaml")
"""What `init` makes; they are in the folder `starter`."""
_PYTHON = "command: python3"
"""A line of the config that is made, where this Python is meant."""


def init(folder: Path = Path(), /, *, options: VerbOptions = OUTPUT) -> int:
    """Make a small yard with one function, one API and one MCP server. No file that is there is changed.

    Parameters
    ----------
    folder
        Folder; created if it does not exist.
    """
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise ConfigError(f"{folder}: has {', '.join(there)} already; nothing was written, name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        text = files("toolyard.cli").joinpath("starter", name).read_text("utf-8")
        # As JSON, which YAML reads: the path may hold anything.
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
    """Print the JSON Schema of config files, for editors that complete and check while you type."""
    from toolyard.app.schema import config_schema

    print_json(config_schema())
    return 0
