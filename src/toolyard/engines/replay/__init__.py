"""Calls recorded to a cassette and played back."""

from toolyard.engines.replay.engine import ReplayMatch, ReplayMode, ReplayToolEngine

__all__ = ["ReplayMatch", "ReplayMode", "ReplayToolEngine"]
