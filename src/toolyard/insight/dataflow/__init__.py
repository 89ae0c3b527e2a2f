"""Dataflow: which tool's result can feed which other tool, and through which fields."""
