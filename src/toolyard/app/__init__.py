"""YAML -> wired objects."""

from toolyard.app.toolyard import Toolyard, build_registry, survey
from toolyard.schema.variables import expand

__all__ = ["Toolyard", "build_registry", "expand", "survey"]
