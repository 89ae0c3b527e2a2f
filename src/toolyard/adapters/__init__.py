"""Adapters for agent frameworks: one file for each framework, with its own extra, and the shared `bridge`."""
