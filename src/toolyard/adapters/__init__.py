"""Tools of a yard inside agent frameworks: one file a framework, each with its own extra, and `bridge` for them all."""
