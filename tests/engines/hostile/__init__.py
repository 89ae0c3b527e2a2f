"""A package, so that its files may be named as others are."""
