"""Text to plain JSON data, guarded and fast, with errors that say what is wrong, where, and what to do."""

from toolyard.parsing.files import paused_gc, read_bytes
from toolyard.parsing.json_text import iter_json_lines, parse_json
from toolyard.parsing.locate import locate
from toolyard.parsing.yaml import parse_yaml

__all__ = ["iter_json_lines", "locate", "parse_json", "parse_yaml", "paused_gc", "read_bytes"]
