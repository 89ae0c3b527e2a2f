"""One guarded way out over HTTP. Nothing is imported here: the HTTP library comes with the first request."""
