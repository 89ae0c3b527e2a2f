"""Session stores: SQLite and Postgres, with the same tables. Each write is durable before it is acknowledged."""
