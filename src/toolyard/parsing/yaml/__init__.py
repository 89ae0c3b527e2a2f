"""YAML 1.2 as plain JSON data: libyaml scans, every rule of ours is checked on its events."""

from toolyard.parsing.yaml.document import parse_yaml

__all__ = ["parse_yaml"]
