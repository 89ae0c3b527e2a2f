"""`toolyard version`."""

from __future__ import annotations

import sys

from toolyard.cli.output import print_json
from toolyard.cli.yard import JsonOption
from toolyard.constants import VERSION


def version(*, json: JsonOption = False) -> None:
    """Print the version."""
    if json:
        print_json({"version": VERSION})
    else:
        sys.stdout.write(f"{VERSION}\n")
