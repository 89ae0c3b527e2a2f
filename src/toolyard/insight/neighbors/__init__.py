"""Tools that are alike, and those that are nearly the same."""
