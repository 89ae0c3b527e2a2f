"""The guarded HTTP client. Nothing is imported here: the HTTP library is loaded with the first request."""
