"""The `toolyard` command: one file a subcommand, imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App, CycloptsError

from toolyard.cli.output import fail
from toolyard.constants import VERSION
from toolyard.model.errors import ToolyardError

app = App(
    name="toolyard",
    help="One definition, one name and one call path for every tool an agent can call.",
    version=VERSION,
    version_flags=["--version"],
)
for _command, _help in {
    "check": "Load a config or catalog and say what was loaded, rewritten and rejected.",
    "tools": "List the tools.",
    "show": "Show one tool, whole.",
    "call": "Call a tool and print its result.",
    "version": "Print the version.",
}.items():
    app.command(f"toolyard.cli.{_command}:{_command}", name=_command, help=_help)


def run(arguments: Sequence[str]) -> int:
    """Run one command: 0 done, 1 done with findings, 2 could not be done."""
    try:
        answer = app(list(arguments), exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return 2
    except ToolyardError as error:
        fail(error)
        return 2
    except BrokenPipeError:
        return 0
    return answer if isinstance(answer, int) else 0
