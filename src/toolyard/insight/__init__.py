"""Enrichments, samplers and search: everything derived from the tools of a registry."""
