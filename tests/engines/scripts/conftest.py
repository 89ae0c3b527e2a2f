"""Where scripts and tests can meet."""

import os
from pathlib import Path

import pytest
from links.scripts.conftest import ending_level  # noqa: F401 - a fixture

from engines.scripts.support import AVAILABLE


@pytest.fixture
def meeting(tmp_path):
    """A folder that everybody may reach and write to, for scripts of the lowest level."""
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/") and folder.name != "tmp":
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    made = tmp_path / "meeting"
    made.mkdir()
    made.chmod(0o777)
    return made


@pytest.fixture(params=AVAILABLE)
def level(request):
    """Every sandbox level that can be had here."""
    return request.param
