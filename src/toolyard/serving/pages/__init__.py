"""Pages for people, rendered here, without any script."""
