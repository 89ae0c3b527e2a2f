"""Text to plain JSON data, guarded and fast, with errors that say what is wrong, where, and what to do."""

from toolyard.parsing.documents import iter_json_lines, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.parsing.lines import locate

__all__ = ["iter_json_lines", "locate", "parse_json", "parse_yaml", "paused_gc", "read_bytes"]
