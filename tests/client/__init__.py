"""A package, so that the conftest here does not take the name `conftest` from the one above it."""
