"""Stores of sessions: SQLite and Postgres, on the same tables, each write durable before it is acknowledged."""

from toolyard.sessions.store.base import (
    Append,
    Create,
    Delete,
    Intend,
    Key,
    SessionInfo,
    SessionStore,
    StoredEntry,
    StoredSession,
    Touch,
    Withdraw,
    Write,
)

__all__ = [
    "Append",
    "Create",
    "Delete",
    "Intend",
    "Key",
    "SessionInfo",
    "SessionStore",
    "StoredEntry",
    "StoredSession",
    "Touch",
    "Withdraw",
    "Write",
]
