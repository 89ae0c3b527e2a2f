import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import toolyard
from toolyard.links.scripts import LEVELS, ScriptPool, WorkerSettings, find_obstacle, probe_level, sandbox
from toolyard.links.scripts.sandbox import environment, identity, module_places, readable
from toolyard.model.errors import ConfigError

from .conftest import AVAILABLE, IS_ROOT, script, soon


def test_auto_is_the_strictest_available_level():
    assert probe_level("auto") == AVAILABLE[0]
    assert find_obstacle("rlimits") is None


def test_an_unavailable_level_refuses_to_start(monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    sandbox.find_obstacle.cache_clear()
    try:
        with pytest.raises(ConfigError, match="no program bwrap.*install bubblewrap"):
            probe_level("bwrap")
        with pytest.raises(ConfigError):
            ScriptPool(WorkerSettings(sandbox="bwrap"))
        assert probe_level("auto") in ("landlock", "rlimits")
    finally:
        sandbox.find_obstacle.cache_clear()


def test_an_unknown_level_is_named():
    with pytest.raises(ConfigError, match="'docker' is not known; use auto, bwrap"):
        probe_level("docker")


@pytest.mark.process
def test_a_bwrap_that_does_not_work_is_detected(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'no permission to make namespaces' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox.find_obstacle.cache_clear()
    try:
        assert "no permission to make namespaces" in find_obstacle("bwrap")
        assert probe_level("auto") != "bwrap"
    finally:
        sandbox.find_obstacle.cache_clear()


def test_the_table_speaks_of_every_level():
    assert all(level in sandbox.__doc__ for level in LEVELS)


def test_the_home_folder_is_not_among_what_can_be_read():
    home = os.path.expanduser("~")
    assert home not in readable(WorkerSettings())
    assert not set(module_places()) & set(readable(WorkerSettings(imports="stdlib")))


def test_only_an_unprivileged_uid_is_taken():
    if IS_ROOT:
        uid, gid = identity(WorkerSettings())
        assert uid == gid
        assert uid not in {0, *(entry.pw_uid for entry in pwd.getpwall())}
        assert identity(WorkerSettings(uid=54321)) == (54321, 54321)
        with pytest.raises(ConfigError, match="as root"):
            identity(WorkerSettings(uid=0))
    else:
        assert identity(WorkerSettings()) is None
        with pytest.raises(ConfigError, match="started as root"):
            identity(WorkerSettings(uid=os.geteuid() + 1))


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
def test_scripts_run_as_the_uid_of_the_settings(pools, level):
    pool = pools(level, uid=54321)
    assert pool.call(
        script("import os\ndef run():\n    return os.getuid(), os.getgid()\n"), "run", {}, deadline=soon()
    ).value == [54321, 54321]


def test_values_of_the_environment_are_in_no_repr(monkeypatch, pools):
    monkeypatch.setenv("TEST_WORKER_SECRET", "s3cr3t")
    settings = WorkerSettings(env=("TEST_WORKER_SECRET",))
    assert environment(settings)["TEST_WORKER_SECRET"] == "s3cr3t"
    assert "s3cr3t" not in repr(settings) + repr(pools(env=("TEST_WORKER_SECRET",)))


UNPRIVILEGED = '''
import os, sys, time, hashlib, tempfile
os.setgroups([]); os.setresgid(54322, 54322, 54322); os.setresuid(54322, 54322, 54322)
os.environ["HOME"] = "/nonexistent"
from toolyard.links.scripts import ScriptPool, WorkerSettings, Code
source = b"import os, json\\ndef run():\\n    import email.message, sqlite3\\n    return os.getuid()\\n"
source += b"""
def tries(path):
    import socket
    ends = []
    for attempt in (lambda: open("/no/such/file"), lambda: socket.socket(), lambda: os.chmod(path, 0o666)):
        try:
            ends.append(str(attempt()))
        except OSError as error:
            ends.append(type(error).__name__)
    return ends
"""
with ScriptPool(WorkerSettings(sandbox=sys.argv[1]), "scripts") as pool:
    code = Code("a.py", hashlib.sha256(source).hexdigest(), source)
    print(pool.level, pool.call(code, "run", {}, deadline=time.monotonic() + 30).value)
    with tempfile.NamedTemporaryFile() as file:
        print(*pool.call(code, "tries", {"path": file.name}, deadline=time.monotonic() + 30).value)
'''


def _is_reachable(path):
    folders = [path]
    while folders[-1] != "/":
        folders.append(os.path.dirname(folders[-1]))
    return all(os.stat(folder).st_mode & 0o005 == 0o005 for folder in folders)


def _python_for_others():
    """A Python of this version that other users can start: this one, or the system's."""
    if _is_reachable(os.path.dirname(os.__file__)) and _is_reachable(os.path.realpath(sys.executable)):
        return sys.executable
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return shutil.which(name, path="/usr/bin:/usr/local/bin")


@pytest.mark.process
@pytest.mark.skipif(not IS_ROOT, reason="needs root to become an ordinary user")
def test_an_ordinary_user_has_the_same_levels(level):
    python = _python_for_others()
    if python is None:
        pytest.skip("no Python of this version can be started by another user here")
    path = os.pathsep.join([str(Path(toolyard.__file__).parents[1]), str(Path(msgspec.__file__).parents[1])])
    done = subprocess.run(
        [python, "-c", UNPRIVILEGED, level], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": path, "PATH": os.environ["PATH"]},
    )  # fmt: skip
    changed = {"bwrap": "FileNotFoundError", "landlock": "PermissionError", "rlimits": "None"}[level]
    assert done.stdout.splitlines() == [f"{level} 54322", f"FileNotFoundError PermissionError {changed}"], done.stderr
