"""JSON Schema: compile, validate, coerce, normalise, derive."""
