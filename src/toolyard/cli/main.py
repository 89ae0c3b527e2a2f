"""The `toolyard` command: its subcommands, whose files are imported when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from toolyard.cli.output import fail, prepare_streams
from toolyard.constants import VERSION
from toolyard.model.errors import CallError, ToolyardError

app = App(
    name="toolyard",
    help="One definition, one name and one call path for every tool an agent can call.",
    version=VERSION,
    version_flags=["--version"],
)
for _target, _help in {
    "catalog:check": "Load a config or catalog and say what was loaded, rewritten and rejected.",
    "catalog:tools": "List the tools.",
    "catalog:show": "Show one tool, whole.",
    "search:search": "Find tools by what they do.",
    "call:call": "Call a tool and print its result.",
    "sample:sample": "Draw tools that belong together.",
    "graph:graph": "Draw which tools feed which, as SVG or as a page.",
    "serve:serve": "Serve the tools over HTTP.",
    "serve:mcp": "Serve the tools to one MCP client, over standard input and output.",
    "catalog:schema": "Print the JSON Schema of config files.",
    "catalog:version": "Print the version.",
}.items():
    app.command(f"toolyard.cli.{_target}", name=_target.partition(":")[2], help=_help)


_sessions = App(name="session", help="Look at sessions and branch them.")
for _command, _help in {
    "list": "List the sessions.",
    "show": "Show a session, call by call.",
    "fork": "Begin a session where another one now is.",
    "diff": "Show where two sessions part.",
    "export": "Print a session as JSON, whole.",
    "delete": "End a session.",
}.items():
    _sessions.command(f"toolyard.cli.session:{_command}_", name=_command, help=_help)
app.command(_sessions)


_keys = App(name="key", help="Say who may use a server.")
for _command, _help in {
    "create": "Make a key and print its token, this once.",
    "list": "List the keys.",
    "revoke": "End a key.",
}.items():
    _keys.command(f"toolyard.cli.key:{_command}_", name=_command, help=_help)
app.command(_keys)


_cassettes = App(name="cassette", help="Look at recorded calls and check them against the tools.")
for _command, _help in {
    "show": "List the recordings.",
    "check": "Say where cassette and tools have moved apart.",
}.items():
    _cassettes.command(f"toolyard.cli.cassette:{_command}_", name=_command, help=_help)
app.command(_cassettes)


_manifests = App(name="manifest", help="Say which scripts of a directory may be loaded.")
for _command, _help in {
    "init": "Make a manifest that allows the scripts which are there now.",
    "add": "Allow files, or approve what they say now.",
    "remove": "Allow files no longer.",
    "verify": "Check that every allowed file can be loaded.",
    "diff": "Show where directory and manifest part.",
}.items():
    _manifests.command(f"toolyard.cli.manifest:{_command}_", name=_command, help=_help)
app.command(_manifests)


_embeddings = App(name="embeddings", help="The embedding model that search and enrichments use by default.")
for _command, _help in {
    "install": "Install its weights, and what runs them without torch.",
    "status": "Say whether it is installed, and where.",
}.items():
    _embeddings.command(f"toolyard.cli.embeddings:{_command}_", name=_command, help=_help)
app.command(_embeddings)


def run(arguments: Sequence[str]) -> int:
    """Run one command: 0 done, 1 done with findings or a failed call, 2 could not be done."""
    prepare_streams()
    as_json = "--json" in arguments
    try:
        answer = app(list(arguments), exit_on_error=False, print_error=not as_json, result_action="return_value")
    except CycloptsError as error:
        if as_json:
            fail(error, as_json=True)
        return 2
    except ToolyardError as error:
        fail(error, as_json=as_json)
        return 1 if isinstance(error, CallError) else 2
    except BrokenPipeError:
        # The reader has seen enough; there is nobody left to tell, at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        fail(error, as_json=as_json)
        return 2
    return answer if isinstance(answer, int) else 0
