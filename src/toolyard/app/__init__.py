"""YAML -> wired objects."""

from toolyard.app.config import expand
from toolyard.app.toolyard import Toolyard, build_registry, survey

__all__ = ["Toolyard", "build_registry", "expand", "survey"]
