"""HTTP operations: the engine, how a call becomes a request, and how a response is read."""

from toolyard.engines.rest.engine import RESTToolEngine

__all__ = ["RESTToolEngine"]
