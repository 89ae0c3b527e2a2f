"""YAML -> wired objects."""

from toolyard.app.build import build_registry, survey
from toolyard.app.env import expand

__all__ = ["build_registry", "expand", "survey"]
