"""Stores on real files and a real Postgres, also opened several times and from other processes."""

import itertools
import os
import subprocess
import warnings

import pytest
from warm_python import warm_toolyard

from conftest import chosen_way
from toolyard.sessions.store.postgres import PostgresStore
from toolyard.sessions.store.sqlite import SqliteStore

TABLES = ("sessions", "branches", "entries", "intents")

_schemas = itertools.count(1)


class Place:
    """The location of one test's sessions."""

    def __init__(self, kind, address, schema=""):
        self.kind = kind
        self.address = str(address)
        self.schema = schema
        self.opened = []
        self.processes = []

    def open(self):
        if self.kind == "sqlite":
            store = SqliteStore(self.address)
        else:
            store = PostgresStore(self.address, schema=self.schema)
        self.opened.append(store)
        return store

    def process(self, code):
        """Run `code` in another process with a `store` on this place; returns its output."""
        opening = (
            f"from toolyard.sessions.store.sqlite import SqliteStore\nstore = SqliteStore({self.address!r})"
            if self.kind == "sqlite"
            else "from toolyard.sessions.store.postgres import PostgresStore\n"
            f"store = PostgresStore({self.address!r}, schema={self.schema!r})"
        )
        head = "import sys\nsys.stdout.reconfigure(line_buffering=True)\nfrom toolyard.sessions.store.base import *"
        process = warm_toolyard().start(
            ["-c", f"{head}\n{opening}\n{code}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            process.kill()
            process.communicate()
        for store in self.opened:
            store.close()


def rows(store):
    """The number of rows of each table."""
    return {
        table: store._read(lambda run, t=table: run(f"SELECT count(*) FROM {t}", ()).fetchone()[0]) for table in TABLES
    }


def fork():
    """`os.fork` without the warning of newer Pythons about threads; the child must end with `os._exit`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@pytest.fixture
def sqlite_place(tmp_path):
    place = Place("sqlite", tmp_path / "sessions.db")
    yield place
    place.close()


@pytest.fixture
def postgres_place(postgres):
    place = Place("postgres", postgres, f"yard {next(_schemas)}")
    yield place
    place.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    return request.getfixturevalue(f"{chosen_way(request)}_place")


@pytest.fixture
def store(place):
    return place.open()
