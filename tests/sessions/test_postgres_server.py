"""The Postgres of the tests: it goes with whoever started it, and does not mind others."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from waiting import SOON, until

pytestmark = pytest.mark.process

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from sessions.postgres_server import running_postgres
with running_postgres() as dsn:
    print(dsn, flush=True)
    sys.stdin.read()
"""


def test_it_ends_when_its_starter_is_killed_and_another_one_goes_on(postgres):
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parents[1])]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    dsn = child.stdout.readline().strip()
    folder = Path(urlsplit(dsn).query.removeprefix("host="))
    assert folder.is_dir()
    child.kill()
    child.communicate()
    until(lambda: not folder.exists(), within=6 * SOON)
    with psycopg.connect(postgres) as link:
        assert link.execute("SELECT 1").fetchone() == (1,)
