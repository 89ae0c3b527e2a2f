"""Configs, and the objects built from them."""

from toolyard.app.toolyard import Toolyard, build_registry, survey
from toolyard.schema.options import expand

__all__ = ["Toolyard", "build_registry", "expand", "survey"]
