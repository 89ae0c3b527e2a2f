"""Shared by all tests: where real material lies, and how hard hypothesis works."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("yard", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("yard")

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
CORPUS = Path(os.environ.get("TOOLYARD_CORPUS") or DATA)
"""A larger corpus of the same layout, where whoever runs the tests names one."""


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Folders with real material, the copy shipped with the project first; never empty."""
    return [DATA, *([CORPUS] if CORPUS != DATA else [])]


def material(pattern: str) -> list[Path]:
    """Files of real material by glob: those of the corpus that `TOOLYARD_CORPUS` names, else the shipped sample."""
    return sorted(CORPUS.glob(pattern)) or sorted(DATA.glob(pattern))
