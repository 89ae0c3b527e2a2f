"""Tools of directories of Python files."""
