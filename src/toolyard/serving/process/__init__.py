"""The server process: sockets, connections, start, stop and workers."""
