"""`toolyard schema`: the config as JSON Schema."""

from __future__ import annotations

from toolyard.app.schema import config_schema
from toolyard.cli.output import print_json
from toolyard.cli.yard import JsonOption


def schema(*, json: JsonOption = False) -> int:
    """Print the JSON Schema of config files, for editors that complete and check while you type."""
    print_json(config_schema())
    return 0
