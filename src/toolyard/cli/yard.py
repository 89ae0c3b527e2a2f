"""Which registry a command works on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolyard.app import build_registry
from toolyard.cli.output import working
from toolyard.registry import ToolRegistry

ConfigOption = Annotated[
    Path | None,
    Parameter(
        name=["--config", "-c"],
        help="Config or catalog file; default: $TOOLYARD_CONFIG, ./toolyard.yaml, or the core tools.",
    ),
]
JsonOption = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of a table.")]

_DEFAULT = "toolyard.yaml"


def open_registry(config: Path | None) -> ToolRegistry:
    """The registry of the given file, of the environment's, of the folder's, or the core tools."""
    path = config or (Path(os.environ["TOOLYARD_CONFIG"]) if os.environ.get("TOOLYARD_CONFIG") else None)
    if path is None and Path(_DEFAULT).is_file():
        path = Path(_DEFAULT)
    with working("loading tools"):
        return core_registry() if path is None else build_registry(path)


def core_registry() -> ToolRegistry:
    """The tools that ship with toolyard."""
    from toolyard.sources import PythonToolLoader
    from toolyard.typed import registry

    return ToolRegistry.from_loaders([PythonToolLoader(registry, namespace="core")])
