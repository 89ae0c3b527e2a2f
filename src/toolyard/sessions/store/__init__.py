"""Stores of sessions: SQLite and Postgres, on the same tables, each write durable before it is acknowledged."""
