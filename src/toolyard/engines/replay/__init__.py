"""Records calls to a cassette and plays them back."""

from toolyard.engines.replay.engine import ReplayMatch, ReplayMode, ReplayToolEngine

__all__ = ["ReplayMatch", "ReplayMode", "ReplayToolEngine"]
