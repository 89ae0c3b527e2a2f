"""Tools that ship with toolyard."""
