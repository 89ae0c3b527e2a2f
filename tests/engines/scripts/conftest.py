"""Where scripts and tests can meet."""

import tempfile
from pathlib import Path

import pytest
from links.scripts.conftest import ending_level  # noqa: F401 - a fixture

from engines.scripts.support import AVAILABLE


@pytest.fixture
def meeting():
    """A folder that everybody may reach and write to, for scripts of the lowest level.

    Not below `tmp_path`: any pytest that starts meanwhile closes the folder of all of these to other users.
    """
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


@pytest.fixture(params=AVAILABLE)
def level(request):
    """Every sandbox level that can be had here."""
    return request.param
