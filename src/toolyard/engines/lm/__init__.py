"""Tools played by a language model, or by the simulator where no model is named."""

from toolyard.engines.lm.engine import LMToolEngine

__all__ = ["LMToolEngine"]
