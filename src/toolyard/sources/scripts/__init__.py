"""Tools from directories of Python scripts."""
