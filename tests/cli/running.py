"""Commands, run here: how they end, and what they say."""

import json

from toolyard.cli.main import run


def output(capsys, *arguments):
    """How a command ends, and its standard output and error."""
    code = run(list(arguments))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def as_json(capsys, *arguments):
    """How a command ends, and the JSON that it prints."""
    code, out, _ = output(capsys, *arguments, "--json")
    return code, json.loads(out)
