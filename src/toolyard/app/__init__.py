"""Configs, and the objects built from them."""

from toolyard.app.toolyard import Toolyard, build_registry, survey
from toolyard.parsing.variables import expand

__all__ = ["Toolyard", "build_registry", "expand", "survey"]
