"""Answers without a model: values from output schemas, and a session that remembers what was made."""

from toolyard.engines.simulator.simulator import Simulator

__all__ = ["Simulator"]
