"""Operations of the HTTP API, one group per file."""
