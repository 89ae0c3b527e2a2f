"""Derive JSON Schemas from Python functions (signature, types, docstring), and convert arguments to Python values."""
