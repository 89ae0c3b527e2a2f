"""One HTTP call of a tool: arguments into a request, the answer into a value. Nothing here opens a connection."""
