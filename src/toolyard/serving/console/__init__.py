"""The console: what people look at in a browser, under `/console/`. Each screen is a view and a template."""
