"""Fast, strict parsing of JSON and YAML to plain data, with errors that give the fault, its place and a remedy."""

from toolyard.parsing.documents import iter_json_lines, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.parsing.lines import locate

__all__ = ["iter_json_lines", "locate", "parse_json", "parse_yaml", "paused_gc", "read_bytes"]
