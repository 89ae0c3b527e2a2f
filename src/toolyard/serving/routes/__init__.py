"""Operations of the HTTP API, one family a file."""
