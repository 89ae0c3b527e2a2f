"""Postgres connections that reconnect after a loss, and a writer that finds out the outcome of a lost commit.

Imports psycopg, so only `postgres.py` imports this, when a store is created.
"""

from __future__ import annotations

import ipaddress
import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from toolyard.model.errors import SessionError
from toolyard.sessions.store import tables
from toolyard.sessions.store.base import Create, Delete, Run, Write, lock_number
from toolyard.sessions.store.group_commit import StoreFailing

_T = TypeVar("_T")

# Sequence numbers are not in commit order. So an event's id begins with its transaction's id, and readers only see
# events of transactions older than every running one (`SETTLED`).
_IN_TRANSACTION = 2**20
_WORDS = {
    "text": 'TEXT COLLATE "C"',
    "blob": "BYTEA",
    "compact": "",
    "sequence": "CREATE SEQUENCE event_numbers",
    "event_id": "BIGINT PRIMARY KEY DEFAULT (pg_current_xact_id()::text::bigint"
    f" * {_IN_TRANSACTION} + (nextval('event_numbers') & {_IN_TRANSACTION - 1}))",
}
SETTLED = f" AND id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint * {_IN_TRANSACTION}"
_STATUS = (
    b"SELECT pg_xact_status(number) FROM (SELECT %s::text::xid8 AS number) AS asked"
    b" WHERE number < pg_snapshot_xmax(pg_current_snapshot())"
)
"""The outcome of a transaction; no row if the server knows no transaction with this id."""

Connection = psycopg.Connection[TupleRow]


class PostgresAddress:
    """The database and schema of the tables. Keeps passwords out of all messages."""

    def __init__(self, dsn: str, schema: str, connect_timeout: float) -> None:
        try:
            parts: dict[str, Any] = conninfo_to_dict(dsn)
        except psycopg.Error:
            parts = {"port": "none"}
        # A password with an unescaped '/', '@' or ':' is split, and its parts are taken for host, port or database.
        # Show neither these nor the parser's message, which quotes the text.
        if not _is_place(parts):
            raise SessionError(
                "the Postgres DSN cannot be read; write it as postgresql://user@host/database, with the password "
                "percent-encoded ('@' is %40, '/' is %2F, ':' is %3A)"
            )
        if not schema or len(schema.encode(errors="replace")) > 63 or "\0" in schema:
            raise SessionError(f"{schema!r} cannot be a Postgres schema; use a name of 1 to 63 bytes")
        self.schema = schema
        self.timeout = connect_timeout
        self._dsn = dsn
        self._secrets = [str(parts[name]) for name in ("password", "sslpassword") if parts.get(name)]
        self.place = f"{parts.get('host', 'local')}/{parts.get('dbname', '')} schema {schema!r}"
        self._ready = False

    def connect(self) -> Connection:
        """A new connection in autocommit mode; creates or upgrades the tables if necessary."""
        conn: Connection | None = None
        try:
            conn = psycopg.connect(self._dsn, autocommit=True, connect_timeout=max(1, math.ceil(self.timeout)))
            conn.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self.schema)))
            # Every query here can use indexes. A planner that believes the tables to be small would scan them at each
            # step up a line of forks, which is quadratic for long lines.
            for choice in (b"seqscan", b"hashjoin", b"mergejoin"):
                conn.execute(b"SET enable_" + choice + b" = off")
            # Keepalives let the server release, within a minute, the locks of a node that lost power.
            for choice in (b"idle = 30", b"interval = 10", b"count = 3"):
                conn.execute(b"SET tcp_keepalives_" + choice)
            if not self._ready:
                with conn.transaction():
                    self._make_tables(conn)
                self._ready = True
        except BaseException as error:
            if conn is not None:
                conn.close()
            if isinstance(error, psycopg.Error):
                raise self.failing(error) from self.shown(error)
            raise
        return conn

    def _make_tables(self, conn: Connection) -> None:
        # Many nodes may start at once, and concurrent CREATE ... IF NOT EXISTS fails for some of them.
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(self.schema, "tables", bits=63),))
        known = conn.execute(
            "SELECT (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'format')"
            " FROM pg_namespace n WHERE n.nspname = %s",
            (self.schema,),
        ).fetchone()
        # Checked first: if an administrator created the schema, this user may lack the right to create one.
        if known is None:
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
        version = 0
        if known is not None and known[0]:
            row = conn.execute("SELECT coalesce(max(version), 0) FROM format").fetchone()
            version = row[0] if row else 0
        if version > tables.VERSION:
            raise SessionError(
                f"{self.place} has version {version} of the session tables, this toolyard knows"
                f" {tables.VERSION}; upgrade toolyard or use another schema"
            )
        if version == tables.VERSION:
            return
        for table in tables.missing_tables(version, **_WORDS):
            conn.execute(table.encode())
        if version == 0:
            conn.execute("CREATE TABLE format (version BIGINT NOT NULL)")
            conn.execute("INSERT INTO format VALUES (%s)", (tables.VERSION,))
        else:
            conn.execute("UPDATE format SET version = %s", (tables.VERSION,))

    def failing(self, error: psycopg.Error) -> StoreFailing:
        """The error to raise for a driver error, without passwords."""
        text = str(error).strip() or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join(text.split())  # libpq writes lines and tabs
        return StoreFailing(f"Postgres {self.place}: {text}; nothing was written. Check the server and the DSN")

    def shown(self, error: psycopg.Error) -> psycopg.Error | None:
        """The driver error, for use as a cause; None if its message contains a password."""
        return None if any(secret in str(error) for secret in self._secrets) else error


def _is_place(parts: Mapping[str, object]) -> bool:
    """Whether host, port and database are plausible, and not parts of a password that was split."""
    hosts = str(parts.get("host") or "").split(",")
    ports = str(parts.get("port") or "").split(",")
    # A host that begins with a slash is a socket directory; those of Cloud SQL contain colons.
    named = [host for host in hosts if not _is_ip(host) and host[:1] != "/"] + [str(parts.get("dbname") or "")]
    return not any("@" in name or ":" in name for name in named) and all(not port or port.isdigit() for port in ports)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Link:
    """One connection, opened on demand and reopened after a loss; used by one thread at a time."""

    def __init__(self, address: PostgresAddress, *, prepare: Callable[[Connection], None] | None = None) -> None:
        self.address = address
        self.lock = threading.RLock()
        self.generation = 0
        """Counts connections. The server's locks for connections of earlier generations are gone."""
        self._prepare = prepare
        self._conn: Connection | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether there is a connection, as far as known without querying the server."""
        return self._conn is not None and not self._conn.closed

    def connection(self) -> Connection:
        """The connection, opened if necessary. Only under `lock`."""
        if self._closed:
            raise SessionError(f"Postgres store {self.address.place} is closed; open a new PostgresStore to go on")
        if self._conn is None or self._conn.closed:
            conn = self.address.connect()
            try:
                if self._prepare is not None:
                    self._prepare(conn)
            except BaseException as error:
                conn.close()
                if isinstance(error, psycopg.Error):
                    raise self.address.failing(error) from self.address.shown(error)
                raise
            self._conn = conn
            self.generation += 1
        return self._conn

    def use(self, work: Callable[[Connection], _T]) -> _T:
        """Run `work`, which must be safe to repeat; retries once if the connection turns out to be dead."""
        with self.lock:
            for last in (False, True):
                conn = self.connection()
                try:
                    return work(conn)
                except psycopg.Error as error:
                    if last or not conn.closed:
                        raise self.address.failing(error) from self.address.shown(error)
                finally:
                    # An interrupt can leave a response partly read.
                    if not conn.closed and conn.info.transaction_status != TransactionStatus.IDLE:
                        conn.close()
            raise AssertionError("the second try returns or raises")

    def drop(self) -> None:
        """Close the connection; the next use opens another. Only under `lock`."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def close(self) -> None:
        """Disconnect for good."""
        with self.lock:
            self._closed = True
            self.drop()


class Writer:
    """The `apply` of group commit. The outcome of an unacknowledged commit is looked up, never guessed or repeated."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._tree = lock_number(address.schema, "tree", bits=63)
        # An advisory lock held by the writer's connection for its whole life: when a new connection gets it, the
        # transaction of the old one has ended.
        self._identity = secrets.randbits(62)
        self._link = Link(address, prepare=self._end_predecessor)
        self._life: TupleRow | None = None
        """Server values that differ after a crash."""

    def apply(self, writes: Sequence[Write], receipt: list[object]) -> None:
        """See `group_commit.Apply`."""
        with self._link.lock:
            for last in (False, True):
                if self._attempt(writes, receipt, last=last):
                    return

    def close(self) -> None:
        """Disconnect."""
        self._link.close()

    def _attempt(self, writes: Sequence[Write], receipt: list[object], *, last: bool) -> bool:
        """True if committed, False if nothing was written and a retry may succeed."""
        conn = self._link.connection()
        life, number = self._life, None
        try:
            number = self._send(conn, writes)
            if conn.execute("COMMIT").statusmessage != "COMMIT":
                raise SessionError(f"Postgres {self._address.place} rolled the write back; try again")
            receipt.append(True)
        except BaseException as error:
            interrupted = not isinstance(error, Exception)
            # Read before the cleanup, which closes the connection.
            lost = conn.closed
            self._clean_up(conn, drop=interrupted)
            if not receipt and number is not None and (lost or interrupted) and self._was_committed(number, life):
                receipt.append(True)
            if receipt and not interrupted:
                return True
            if isinstance(error, UnicodeError | OverflowError):
                raise SessionError(f"Postgres {self._address.place} cannot store this: {error}") from error
            if not isinstance(error, psycopg.Error):
                raise
            if last or not (lost or isinstance(error, psycopg.errors.DeadlockDetected)):
                raise self._convert_error(error) from self._address.shown(error)
            return False
        return True

    def _send(self, conn: Connection, writes: Sequence[Write]) -> str:
        """Send everything up to the commit, in one round trip unless there are deletes; raises the first refusal.

        Returns the transaction id, by which the server can tell its outcome for a long time.
        """
        opening: list[tuple[bytes, tuple[object, ...]]] = [(b"BEGIN", ())]
        # A fork must not race with a delete that prunes what it inherits; forks may run concurrently.
        if any(isinstance(write, Delete) for write in writes):
            opening.append((b"SELECT pg_advisory_xact_lock(%s)", (self._tree,)))
        elif any(isinstance(write, Create) and write.parent is not None for write in writes):
            opening.append((b"SELECT pg_advisory_xact_lock_shared(%s)", (self._tree,)))
        opening.append((b"SELECT pg_current_xact_id()::text", ()))
        begun: list[psycopg.Cursor[TupleRow]] = []
        for _, group in groupby(writes, lambda write: isinstance(write, Delete)):
            deletes: list[Delete] = []
            with conn.pipeline():
                begun += [conn.execute(query, values) for query, values in opening]
                sent = []
                for write in group:
                    if isinstance(write, Delete):
                        deletes.append(write)
                    else:
                        sent += [
                            (step, conn.execute(_query(step.sql), step.values)) for step in tables.write_steps(write)
                        ]
            opening = []
            for step, done in sent:
                step.check(done.rowcount)
            for write in deletes:
                tables.delete_session(runner(conn), write.key)
        return str(begun[-1].fetchall()[0][0])

    def _clean_up(self, conn: Connection, *, drop: bool) -> None:
        if not drop and not conn.closed:
            with suppress(psycopg.Error):
                conn.execute("ROLLBACK")
                return
        self._link.drop()

    def _was_committed(self, number: str, life: TupleRow | None) -> bool:
        """Whether a transaction with an unacknowledged commit was committed.

        Its connection has ended (see `_end_predecessor`).
        After a crash the server may reuse ids of transactions that it lost, so the id is trusted only without one.
        """
        try:
            status = self._link.connection().execute(_STATUS, (number,)).fetchone()
            if status == ("committed",) and self._life != life:
                raise SessionError(f"Postgres {self._address.place} was started anew")
            return status == ("committed",)
        except (psycopg.Error, SessionError) as error:
            raise StoreFailing(
                f"the connection to Postgres {self._address.place} was lost during a commit, and its outcome cannot be"
                " queried: the write may or may not be there; load the session again before going on"
            ) from (self._address.shown(error) if isinstance(error, psycopg.Error) else error)

    def _end_predecessor(self, conn: Connection) -> None:
        """Terminate the previous connection of this writer and wait for its end."""
        high, low = self._identity >> 32, self._identity & 0xFFFFFFFF
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
            " AND classid = %s::bigint::oid AND objid = %s::bigint::oid",
            (high, low),
        )
        conn.execute(f"SET lock_timeout = {max(1, int(self._address.timeout * 1000))}")
        conn.execute("SELECT pg_advisory_lock(%s)", (self._identity,))
        conn.execute("SET lock_timeout = DEFAULT")
        # After a crash of a backend the postmaster's start time is unchanged, but the statistics are reset.
        self._life = conn.execute("SELECT pg_postmaster_start_time(), stats_reset FROM pg_stat_bgwriter").fetchone()

    def _convert_error(self, error: psycopg.Error) -> SessionError:
        if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
            return SessionError(f"Postgres {self._address.place} cannot store this: {error}")
        return self._address.failing(error)


def runner(conn: Connection) -> Run:
    """A `Run` function for the queries of `tables`."""
    return lambda text, values: conn.execute(_query(text), values)


@cache
def _query(text: str) -> bytes:
    return text.replace("?", "%s").encode()


def one_view(conn: Connection) -> None:
    """Configure a reader's connection so that all queries of a transaction see one snapshot."""
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    conn.read_only = True
