"""YAML -> wired objects."""

from toolyard.app.build import build_registry, survey
from toolyard.app.env import expand
from toolyard.app.toolyard import Toolyard

__all__ = ["Toolyard", "build_registry", "expand", "survey"]
