"""`LMJournal`: a file of answered requests, keyed by a hash of the whole request.

Equal requests are answered from the file without asking the model, so a run can be replayed or resumed. Any number of
processes may share the file; the first answer to a request is the one all of them use.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from toolyard.links.lm.shapes import LMAnswer, LMRequest
from toolyard.loop.threads import Threads, await_future
from toolyard.model.errors import ConfigError, ToolFailed

T = TypeVar("T")

_BUSY_SECONDS = 30.0
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL,
    request BLOB NOT NULL, answer BLOB NOT NULL, at REAL NOT NULL
) WITHOUT ROWID
"""
_READ = "SELECT answer FROM answers WHERE key = ?"
_WRITE = "INSERT OR IGNORE INTO answers (key, provider, model, request, answer, at) VALUES (?, ?, ?, ?, ?, ?)"

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(LMAnswer).decode


class LMJournal:
    """One SQLite file, accessed by a dedicated thread so that a slow disk does not block the event loop."""

    def __init__(self, path: str | Path, provider: str) -> None:
        self._path = Path(path)
        self._provider = provider
        self._threads = Threads(1, "toolyard-lm-journal")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Prompts may be confidential: readable by this user only.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = _open_table(self._path)
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(f"journal: {str(path)!r} cannot be opened as a journal: {error}") from None

    async def find(self, request: LMRequest) -> LMAnswer | None:
        """The stored answer to the request, or None."""
        key = self._make_key(request)
        return await self._run_in_thread(lambda: self._read_answer(key))

    async def store(self, request: LMRequest, answer: LMAnswer) -> LMAnswer:
        """Store an answer; return the stored one, which is another process's if that was first."""
        key = self._make_key(request)
        row = (key, self._provider, request.model, _encode(request), _encode(answer), time.time())

        def write() -> LMAnswer:
            if self._database.execute(_WRITE, row).rowcount:
                return answer
            return self._read_answer(key) or answer

        return await self._run_in_thread(write)

    def close(self) -> None:
        """Close the file once pending writes are done."""
        self._threads.submit(self._database.close).result()
        self._threads.close()

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await await_future(self._threads.submit(work))
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            problem = f"the journal of the language model cannot be used: {error}"
        raise ToolFailed(problem, effect="none", hint="look at the file that lm_config.journal names, and its disk")

    def _make_key(self, request: LMRequest) -> str:
        return f"{self._provider}:{request.key}"

    def _read_answer(self, key: str) -> LMAnswer | None:
        row = self._database.execute(_READ, (key,)).fetchone()
        return None if row is None else msgspec.structs.replace(_decode(row[0]), cached=True)


def _open_table(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _TABLE):
            database.execute(statement)
    except sqlite3.Error:
        database.close()
        raise
    return database
