"""Fast, strict parsing of JSON and YAML to plain data, with errors that give the fault, its place and a remedy."""

from toolyard.parsing.files import paused_gc, read_bytes
from toolyard.parsing.json_text import iter_json_lines, parse_json
from toolyard.parsing.locations import locate
from toolyard.parsing.yaml_text import parse_yaml

__all__ = ["iter_json_lines", "locate", "parse_json", "parse_yaml", "paused_gc", "read_bytes"]
