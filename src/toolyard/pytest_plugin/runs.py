"""Which cassettes a run has begun anew: those after the first test of it add to, in whichever process they run."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_GIVEN = "toolyard_marks"
_MARKS: pytest.StashKey[Path] = pytest.StashKey()


class SharedMarks:
    """Makes a folder for the marks of a run that pytest-xdist spreads over processes, and removes it."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a process that is about to run tests where the marks are."""
        node.workerinput[_GIVEN] = str(_marks_folder(node.config))

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Remove what this process has made."""
        made = config.stash.get(_MARKS, None)
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _marks_folder(config: pytest.Config) -> Path:
    given = getattr(config, "workerinput", {}).get(_GIVEN)
    if given is not None:
        return Path(given)
    if _MARKS not in config.stash:
        config.stash[_MARKS] = Path(tempfile.mkdtemp(prefix="toolyard-"))
    return config.stash[_MARKS]


def put_in_place(tape: Path, path: Path, config: pytest.Config) -> None:
    """Let a new tape take the place of the old cassette, or add it to what the run has recorded there already."""
    with _open_mark(path, config) as mark:
        if os.fstat(mark).st_size == 0:
            os.replace(tape, path)
            os.write(mark, b"begun")
            return
        with path.open("ab") as cassette:
            cassette.write(tape.read_bytes())


@contextmanager
def _open_mark(path: Path, config: pytest.Config) -> Iterator[int]:
    """The cassette's mark, for nobody else meanwhile; empty before the run has begun it."""
    name = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()
    descriptor = os.open(_marks_folder(config) / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Closing the file lets go of it. Windows has no such lock; there, one process a cassette.
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
