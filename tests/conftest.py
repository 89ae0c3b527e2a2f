"""Shared by all tests: where real material lies, and how hard hypothesis works."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("yard", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("yard")

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
DATA = ROOT / "tests" / "data"


@pytest.fixture(scope="session")
def corpus() -> list[Path]:
    """Folders with real material, the copy shipped with the project first; never empty."""
    return [DATA, *([CORPUS] if CORPUS.is_dir() else [])]


def material(pattern: str) -> list[Path]:
    """Files of real material by glob: the full corpus where it is at hand, else the shipped sample."""
    found = sorted(CORPUS.glob(pattern)) if CORPUS.is_dir() else []
    return found or sorted(DATA.glob(pattern))
