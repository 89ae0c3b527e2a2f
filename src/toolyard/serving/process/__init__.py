"""The process: where it listens, how it starts, how it stops."""
