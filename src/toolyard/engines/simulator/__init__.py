"""Generates results without a model, from output schemas and from the entities that a session created."""

from toolyard.engines.simulator.simulator import Simulator

__all__ = ["Simulator"]
