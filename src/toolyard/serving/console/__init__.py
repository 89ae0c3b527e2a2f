"""The web console under `/console/`. Each screen is a view function and a template."""
