"""Which registry a command works on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolyard.app import build_registry, survey
from toolyard.cli.output import counted, warn, working
from toolyard.registry import ToolRegistry

ConfigOption = Annotated[
    Path | None,
    Parameter(
        name=["--config", "-c"],
        help="Config or catalog file; default: $TOOLYARD_CONFIG, ./toolyard.yaml, or the core tools.",
    ),
]
JsonOption = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, errors included.")]
SkipOption = Annotated[
    bool,
    Parameter(
        name="--skip-bad", negative="", help="Leave out bad entries and duplicates instead of refusing the file."
    ),
]

_DEFAULT = "toolyard.yaml"


def open_registry(config: Path | None, *, skip_bad: bool = False) -> ToolRegistry:
    """The registry of the given file, of the environment's, of the folder's, or the core tools.

    With `skip_bad`, what could not be loaded is counted on standard error.
    """
    path = config or (Path(os.environ["TOOLYARD_CONFIG"]) if os.environ.get("TOOLYARD_CONFIG") else None)
    if path is None and Path(_DEFAULT).is_file():
        path = Path(_DEFAULT)
    with working("loading tools"):
        if path is None:
            return core_registry()
        if not skip_bad:
            return build_registry(path)
        registry, report = survey(path)
    if not report.ok:
        warn(f"{counted(len(report.rejected), 'bad definition')} left out; `toolyard check {path}` lists them")
    return registry


def core_registry() -> ToolRegistry:
    """The tools that ship with toolyard."""
    from toolyard.sources import PythonToolLoader
    from toolyard.typed import registry

    return ToolRegistry.from_loaders([PythonToolLoader(registry, namespace="core")])
