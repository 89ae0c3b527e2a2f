"""Runs commands in this process and captures their output."""

import json

from toolyard.cli.main import run


def output(capsys, *arguments):
    """A command's exit status, standard output and standard error."""
    code = run(list(arguments))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def as_json(capsys, *arguments):
    """A command's exit status, and the JSON that it prints."""
    code, out, _ = output(capsys, *arguments, "--json")
    return code, json.loads(out)
