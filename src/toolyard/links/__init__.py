"""Wires to the outside: the only folder that imports an HTTP client."""
