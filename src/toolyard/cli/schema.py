"""`toolyard schema`: the config as JSON Schema, or as a page to read."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from toolyard.app.schema import config_reference, config_schema
from toolyard.cli.output import print_json
from toolyard.cli.yard import JsonOption

Markdown = Annotated[bool, Parameter(negative="", help="Print the configuration reference as Markdown instead.")]


def schema(*, json: JsonOption = False, markdown: Markdown = False) -> int:
    """Print the JSON Schema of config files, for editors that complete and check while you type."""
    if markdown:
        sys.stdout.write(config_reference())
    else:
        print_json(config_schema())
    return 0
