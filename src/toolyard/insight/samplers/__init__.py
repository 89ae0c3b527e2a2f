"""The built-in samplers, grouped by topology."""
