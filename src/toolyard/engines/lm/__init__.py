"""Tool results from a language model, or from the schema simulator if no model is configured."""

from toolyard.engines.lm.engine import LMToolEngine

__all__ = ["LMToolEngine"]
