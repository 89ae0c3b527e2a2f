"""The `toolyard` command. The file of a verb is imported when the verb is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnknownOptionError, UnusedCliTokensError
from cyclopts.help import DefaultFormatter, PanelSpec

from toolyard.cli.options import OUTPUT, VerbOptions, YardOptions, describe_unused, name_file
from toolyard.cli.output import NotFoundError, fail, prepare_streams, print_either, set_verbosity, warn
from toolyard.constants import VERSION
from toolyard.model.errors import (
    CallError,
    SourceError,
    ToolyardError,
    UnknownApprovalError,
    UnknownEntryError,
    UnknownScriptError,
    UnknownSessionError,
)

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


def show_default(value: Any) -> str | None:
    """What the help says about a default; of a flag that is off, or of nothing, there is nothing to say."""
    return None if value is False or value in (None, "", ()) else str(value)


class HelpPage(DefaultFormatter):
    """Help without boxes, which are of no use in pipes; rich is imported when it is printed."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """One panel."""
        from rich.box import Box

        plain = PanelSpec(box=Box("    \n" * 8), padding=(0, 1), expand=False)
        DefaultFormatter(panel_spec=plain)(console, options, panel)


app = App(
    name="toolyard",
    help="A tool layer for LLM agents: load, call, simulate, record and serve tools.",
    version=VERSION,
    version_flags=["--version"],
    default_parameter=Parameter(show_default=show_default, negative=""),
    help_formatter=HelpPage(),
)
_GROUPS = {
    "session": "Inspect and fork sessions.",
    "approvals": "List and decide held calls.",
    "key": "Manage the API keys of a server.",
    "cassette": "Inspect recorded calls and compare them with the tools.",
    "manifest": "Manage which scripts of a directory may be loaded.",
    "embeddings": "Manage the default embedding model of search and enrichments.",
}
_VERBS = {
    "init:init": "Create an example project that runs.",
    "add:add": "Add an API, an MCP server, functions or a catalog to a config.",
    "catalog:check": "Load a config, catalog or Python file and report what was loaded, rewritten and rejected.",
    "catalog:tools": "List the tools.",
    "catalog:show": "Show the definition of a tool.",
    "catalog:search": "Search tools by what they do.",
    "call:call": "Call a tool and print its result.",
    "calls:calls": "List past calls, newest last.",
    "insight:sample": "Draw sets of related tools.",
    "insight:graph": "Export the data flow between tools: as a page, or for Graphviz, Mermaid or another program.",
    "serve:serve": "Serve the tools over HTTP.",
    "serve:open": "Open the console in a browser.",
    "serve:mcp": "Serve the tools to one MCP client, over standard input and output.",
    "clients:install": "Register the tools with a client such as Claude Desktop or Cursor.",
    "clients:uninstall": "Remove the tools from a client.",
    "init:schema": "Print the JSON Schema of config files.",
    "session:list_": "List the sessions.",
    "session:show_": "Show the calls of a session.",
    "session:fork_": "Fork a session, at its end or at an earlier entry.",
    "session:diff_": "Compare the histories and worlds of two sessions.",
    "session:export_": "Print a session as JSON, in the form that `setup` accepts.",
    "session:delete_": "End a session.",
    "approvals:list_": "List the calls that wait for approval.",
    "approvals:show_": "Show an approval and what the call would change.",
    "approvals:approve_": "Approve a call; it may then run once.",
    "approvals:deny_": "Deny a call.",
    "key:create_": "Create a key and print its token, once.",
    "key:list_": "List keys.",
    "key:revoke_": "Revoke a key.",
    "cassette:show_": "List the recorded calls.",
    "cassette:check_": "Compare a cassette with the current tools.",
    "manifest:init_": "Create a manifest that allows the existing scripts.",
    "manifest:list_": "List the files that the manifest allows.",
    "manifest:add_": "Allow files, or accept their current content.",
    "manifest:remove_": "Remove files from the manifest.",
    "manifest:verify_": "Check that every allowed file can be loaded.",
    "manifest:diff_": "Compare the directory with the manifest.",
    "embeddings:install_": "Install the model and its runtime, without torch.",
    "embeddings:status_": "Show whether the model is installed, and where.",
}
"""Every verb with its file and function; for groups the file has the group's name, and functions end in `_`."""

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
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")],
    /,
    *,
    install: Annotated[bool, Parameter(help="Install the completions for future shells, and print the path.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Print shell completions: `eval "$(toolyard completion bash)"`."""
    place = app.install_completion(shell=shell) if install else None
    text = app.generate_completion(shell=shell) if place is None else place.read_text()
    # A file may be the first word, which the script does not know, so let bash fall back to file names.
    text = text.replace("\ncomplete -F ", "\ncomplete -o default -F ")
    if place is not None:
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
    if isinstance(error, UnknownOptionError):
        return CycloptsError(f"{str(error).removesuffix('.')} (see `{verb} --help`)")
    return error


_NOT_FOUND = (
    *(CallError, NotFoundError, UnknownApprovalError, UnknownEntryError, UnknownScriptError, UnknownSessionError),
)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status.

    0 is success, 1 findings, a failed call or a name that does not exist, 2 a command that could not be carried out
    (invalid usage or configuration, or a source or store that failed), 3 a call that waits for approval, 130 an
    interrupt.
    """
    prepare_streams()
    as_json, config = "--json" in arguments, None
    try:
        command, bound, _ = app.parse_args(name_file(app, arguments), exit_on_error=False, print_error=False)
        for value in bound.arguments.values():
            if isinstance(value, VerbOptions):
                set_verbosity(quiet=value.quiet, verbose=value.verbose)
            if isinstance(value, YardOptions):
                config = value.config
        answer = command(*bound.args, **bound.kwargs)
    except CycloptsError as error:
        fail(_describe_usage(error), as_json=as_json)
        return 2
    except ToolyardError as error:
        fail(error, as_json=as_json, config=config)
        # If the file that was named is itself what fails, nothing would be left.
        of_many = isinstance(error, SourceError) and not str(error).startswith(f"{config}: ")
        if of_many and "skip_bad" in signature(command).parameters and "--skip-bad" not in arguments:
            warn("`toolyard check` lists all that is wrong; with --skip-bad a verb goes on without it")
        return 1 if isinstance(error, _NOT_FOUND) else 2
    except BrokenPipeError:
        # The reader has closed the pipe; write nothing more, not even at exit.
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
