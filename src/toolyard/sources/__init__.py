"""Where tools come from, one origin a file."""
