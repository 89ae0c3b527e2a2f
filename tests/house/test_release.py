"""What is released: it has all it needs, built twice it is the same, and its public API can be used under strict types."""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from warm_python import warm_toolyard

import toolyard
from conftest import SOAK

ROOT = Path(__file__).resolve().parents[2]


def build(folder):
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1580601600"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, env=env, check=True, capture_output=True
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.process
def test_wheel_and_sdist_hold_every_file_of_the_package_and_in_make_soak_are_the_same_each_time(tmp_path):
    first = build(tmp_path / "first")
    assert len(first) == 2 and (not SOAK or build(tmp_path / "second") == first)
    wheel = tmp_path / "first" / f"toolyard-{toolyard.__version__}-py3-none-any.whl"
    files = {path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert {path.relative_to(ROOT / "src").as_posix() for path in files} <= held
    assert "toolyard/py.typed" in held


@pytest.mark.process
def test_a_program_under_strict_types_runs():
    done = warm_toolyard().run(["tests/data/consumer.py"], cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[3:] == ["['ok']", "1 0", "1", "True FileToolLoader"]


def test_every_pin_takes_the_lowest_python_that_we_name():
    """Debian 12 has 3.11.2; a package that asks for 3.11.5 ends the set-up there, and not where it was pinned."""
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    asked = {
        found.metadata["Name"]: said
        for found in importlib.metadata.distributions()
        if found.metadata["Name"].lower() in pinned and (said := found.metadata.get("Requires-Python"))
    }
    assert len(asked) > 50
    assert {name: said for name, said in asked.items() if not SpecifierSet(said).contains("3.11.0")} == {}
