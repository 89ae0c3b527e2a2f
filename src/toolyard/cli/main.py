"""The `toolyard` command: its verbs, whose files are imported when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

from toolyard.cli.help_text import HelpText, show_default
from toolyard.cli.options import OUTPUT, VerbOptions, describe_unused, name_file
from toolyard.cli.output import NotFoundError, fail, prepare_streams, print_either, set_verbosity, warn
from toolyard.constants import VERSION
from toolyard.model.errors import (
    CallError,
    MalformedSource,
    ToolyardError,
    UnknownApprovalError,
    UnknownEntryError,
    UnknownScriptError,
    UnknownSessionError,
)

app = App(
    name="toolyard",
    help="One definition, one name and one call path for every tool an agent can call.",
    version=VERSION,
    version_flags=["--version"],
    default_parameter=Parameter(show_default=show_default),
    help_formatter=HelpText(),
)
_GROUPS = {
    "session": "Inspect, compare and fork sessions.",
    "approvals": "List the calls that wait for approval, and decide.",
    "key": "Manage the API keys of a server.",
    "cassette": "Inspect recorded calls and check them against the tools.",
    "manifest": "Manage which scripts of a directory may be loaded.",
    "embeddings": "Manage the embedding model that search and enrichments use by default.",
}
_VERBS = {
    "config:init": "Create a small example config that runs at once.",
    "config:add": "Add an API, an MCP server, functions or a catalog to a config.",
    "catalog:check": "Check a config, catalog or Python file, and report what was loaded, rewritten and rejected.",
    "catalog:tools": "List the tools.",
    "catalog:show": "Show one tool in full.",
    "catalog:search": "Find tools by what they do.",
    "calls:call": "Call a tool and print its result.",
    "calls:calls": "List the calls that were made, newest last.",
    "sample:sample": "Sample tools that belong together.",
    "graph:graph": "Draw which tools feed which: as a web page, or for Graphviz or Mermaid.",
    "serve:serve": "Serve the tools over HTTP.",
    "serve:open": "Open the console of the tools in a browser.",
    "serve:mcp": "Serve the tools to one MCP client, over standard input and output.",
    "clients:install": "Add the tools to a client such as Claude Desktop or Cursor.",
    "clients:uninstall": "Remove the tools from a client.",
    "config:schema": "Print the JSON Schema of config files.",
    "session:list_": "List the sessions.",
    "session:show_": "Show a session, call by call.",
    "session:fork_": "Fork a session, at its end or after an earlier call.",
    "session:diff_": "Compare the histories and the state of two sessions.",
    "session:export_": "Print a session as JSON, which `setup` can import.",
    "session:delete_": "Delete a session.",
    "approvals:list_": "List the calls that wait for approval.",
    "approvals:show_": "Show one call, and what it would change.",
    "approvals:approve_": "Approve a call, so that it runs once.",
    "approvals:deny_": "Deny a call.",
    "key:create_": "Create a key and print its token, which is not shown again.",
    "key:list_": "List the keys.",
    "key:revoke_": "Revoke a key.",
    "cassette:show_": "List the recordings.",
    "cassette:check_": "Check whether the recordings still match the tools.",
    "manifest:init_": "Create a manifest that allows the scripts now in the directory.",
    "manifest:list_": "List the files that the manifest allows.",
    "manifest:add_": "Allow files, or approve their current contents.",
    "manifest:remove_": "Remove files from the manifest.",
    "manifest:verify_": "Check that every allowed file can be loaded.",
    "manifest:diff_": "Show how directory and manifest differ.",
    "embeddings:install_": "Install the model and its runtime, which needs no torch.",
    "embeddings:status_": "Show whether the model is installed, and where.",
}
"""Every verb by its file and function: those of a group have its name for a file, and end in `_`."""

_groups = {name: App(name=name, help=text) for name, text in _GROUPS.items()}
for _target, _help in _VERBS.items():
    _file, _, _function = _target.partition(":")
    _place = _groups[_file] if _function.endswith("_") else app
    _place.command(f"toolyard.cli.{_target}", name=_function.removesuffix("_"), help=_help)
for _group in _groups.values():
    app.command(_group)


@app.command
def version(*, options: VerbOptions = OUTPUT) -> int:
    """Print the version."""
    return print_either(options.json, {"version": VERSION}, VERSION)


@app.command
def completion(
    shell: Literal["bash", "zsh", "fish"],
    /,
    *,
    install: Annotated[bool, Parameter(negative="")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Print the completion script for a shell: `eval "$(toolyard completion bash)"`.

    Parameters
    ----------
    shell
        The shell.
    install
        Write it where that shell looks, for all shells to come, and print the place.
    """
    # A file may stand as a word, which only `name_file` knows: where nothing else fits, bash offers files.
    text = app.generate_completion(shell=shell).replace("\ncomplete -F ", "\ncomplete -o default -F ")
    if install:
        place = app.install_completion(shell=shell)
        place.write_text(text)
        text = str(place)
    return print_either(options.json, {"shell": shell, "installed" if install else "script": text}, text)


_INTERRUPTED = 130


def _describe_usage(error: CycloptsError) -> CycloptsError:
    """What is wrong with the words of a command, and where to read on."""
    verb = " ".join(["toolyard", *(error.command_chain or ())])
    if isinstance(error, UnusedCliTokensError):
        return CycloptsError(describe_unused(app, error))
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return CycloptsError(f"`{verb}` needs {error.argument.name}; see `{verb} --help`")
    return error


_NOT_FOUND = (
    *(CallError, NotFoundError, UnknownApprovalError, UnknownEntryError, UnknownScriptError, UnknownSessionError),
)


def run(arguments: Sequence[str]) -> int:
    """Run one command: 0 done, 1 done with findings, a failed call or a name that is not there, 2 could not be done.

    3 is for a call that waits for approval, 130 for a command that was interrupted.
    """
    prepare_streams()
    as_json = "--json" in arguments
    try:
        command, bound, _ = app.parse_args(name_file(app, arguments), exit_on_error=False, print_error=False)
        for value in bound.arguments.values():
            if isinstance(value, VerbOptions):
                set_verbosity(quiet=value.quiet, verbose=value.verbose)
        answer = command(*bound.args, **bound.kwargs)
    except CycloptsError as error:
        fail(_describe_usage(error), as_json=as_json)
        return 2
    except ToolyardError as error:
        fail(error, as_json=as_json)
        if isinstance(error, MalformedSource) and ": tool '" in str(error) and "--skip-bad" not in arguments:
            warn("`toolyard check` lists all that is wrong; with --skip-bad a verb goes on without it")
        return 1 if isinstance(error, _NOT_FOUND) else 2
    except BrokenPipeError:
        # The reader has seen enough; there is nobody left to tell, at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        named = error.filename is not None and error.strerror
        fail(OSError(f"{error.filename}: {error.strerror}") if named else error, as_json=as_json)
        return 2
    except KeyboardInterrupt:
        fail(InterruptedError("interrupted"), as_json=as_json)
        return _INTERRUPTED
    return answer if isinstance(answer, int) else 0
